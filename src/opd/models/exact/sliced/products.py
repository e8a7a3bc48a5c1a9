"""x W^T with the sums of the persistent kernel, for any number of rows.

Shapes: M rows, N outputs, K columns.

    K = 1,536    8 slices of 192 columns; each is summed by tensor cores from zero, 16 columns at once, from the first
                 to the last; then the slices are added in their order
    K = 8,960    4 quarters of 2,240 columns; a quarter has 6 slices of 288 and 2 of 256, summed and added likewise;
                 then the quarters are added in their order

An element depends on its row and its column alone: not on M, N, the tile, or the device's load. That the instructions
for large tiles (wgmma) and those of the decode kernel (mma.sync) sum 16 columns alike is a property of the chip,
which tests/models/test_exact.py holds against it.
"""

import torch
import triton

from opd.models.exact.sliced.product_kernels import hidden_kernel, inner_kernel

HIDDEN, INNER = 1_536, 8_960


def product(
    x_MK: torch.Tensor,
    weight_NK: torch.Tensor,
    bias_N: torch.Tensor | None = None,
    *,
    added_MN: torch.Tensor | None = None,
    wide: bool = False,
) -> torch.Tensor:
    """[M, N] in bf16, or in float32 with `wide`; K is 1,536 or 8,960. A bias is added to the float32 sum, `added_MN`
    to the rounded one.
    """
    (rows, columns), outputs = x_MK.shape, len(weight_NK)
    if columns not in {HIDDEN, INNER}:
        raise ValueError(f"an exact product has {HIDDEN:,} or {INNER:,} columns, not {columns:,}")
    x_MK = x_MK.contiguous()
    out_MN = torch.empty(rows, outputs, dtype=torch.float32 if wide else torch.bfloat16, device=x_MK.device)
    if not rows:
        return out_MN
    kernel, tall, broad = (hidden_kernel, 128, 128) if columns == HIDDEN else (inner_kernel, 128, 64)
    tall = tall if rows > 64 else 64
    grid = (triton.cdiv(rows, tall) * triton.cdiv(outputs, broad),)
    kernel[grid](
        *(x_MK, weight_NK, weight_NK if bias_N is None else bias_N, out_MN, rows, outputs),
        BIASED=bias_N is not None,
        BM=tall,
        BN=broad,
        num_warps=8,
        num_stages=2,
    )
    return out_MN if added_MN is None else added_MN + out_MN
