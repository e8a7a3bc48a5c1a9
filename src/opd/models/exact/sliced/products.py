"""x W^T with the sums of the persistent kernel, for any number of rows, by `sliced.cuh`.

Shapes: M rows, N outputs, K columns.

    K = 1,536    8 slices of 192 columns; each is summed by tensor cores from zero, 16 columns at once, from the first
                 to the last; then the slices are added in their order
    K = 8,960    4 quarters of 2,240 columns; a quarter has 6 slices of 288 and 2 of 256, summed and added likewise;
                 then the quarters are added in their order

An element depends on its row and its column alone: not on M, N, the tile, or the device's load. That the instructions
for large tiles (wgmma) and those of the decode kernel (mma.sync) sum 16 columns alike is a property of the chip,
which a run asks of it first (trial.py), and tests/models/test_exact.py.
"""

import torch

from opd.models.exact.sliced.operations import call

COLUMNS = (1_536, 8_960)


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
    if columns not in COLUMNS:
        raise ValueError(
            f"a sliced product has {' or '.join(f'{one:,}' for one in COLUMNS)} columns, not {columns:,}"
        )
    x_MK = x_MK.contiguous()
    out_MN = torch.empty(rows, outputs, dtype=torch.float32 if wide else torch.bfloat16, device=x_MK.device)
    if rows:
        call("opd_product", x_MK, weight_NK, bias_N, out_MN, rows, outputs, columns, int(wide))
    return out_MN if added_MN is None else added_MN + out_MN
