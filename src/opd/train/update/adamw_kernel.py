"""One tensor's AdamW step in one pass over memory.

    read     gradient, master, both moments                  float32
    written  master, both moments; the model's own weight    float32; the model's dtype

That is 30 bytes a parameter of a bf16 model. The clip's factor is applied as the gradient is read.
"""

import torch
import triton
import triton.language as tl

BLOCK = 4_096  # numbers of each tensor that a program holds at once


def move(
    master: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    weight: torch.Tensor,
    *,
    gradient: torch.Tensor,
    scale: float,
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
    decay: float,
    step: int,
) -> None:
    """`master`, both moments and `weight`, which may be the master itself, are where AdamW's step takes them."""
    assert gradient.is_contiguous(), "one index serves all tensors"
    assert weight.is_contiguous(), "one index serves all tensors"
    if not master.numel():  # a rank may have no row of a small tensor
        return
    tensors = (master, mean, square, weight, gradient)
    first, second = betas
    adamw_kernel[(triton.cdiv(master.numel(), BLOCK),)](
        *tensors, master.numel(), scale, 1 - first, second, 1 - second,
        rate / (1 - first**step), (1 - second**step) ** -0.5, epsilon, rate * decay,
        ROUNDED=weight is not master, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip


@triton.jit
def adamw_kernel(
    master, mean, square, weight, gradient, count, scale, one_less_first, second, one_less_second,
    rate, root_of_corrected, epsilon, decay, ROUNDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block. `rate` and `root_of_corrected` hold the bias corrections of the first and the second moment."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    g = tl.load(gradient + index, mask=inside, other=0.0) * scale
    m = tl.load(mean + index, mask=inside, other=0.0)
    v = tl.load(square + index, mask=inside, other=0.0)
    w = tl.load(master + index, mask=inside, other=0.0)
    m += one_less_first * (g - m)
    v = second * v + one_less_second * g * g
    w -= decay * w + rate * (m / (tl.sqrt(v) * root_of_corrected + epsilon))
    tl.store(mean + index, m, mask=inside)
    tl.store(square + index, v, mask=inside)
    tl.store(master + index, w, mask=inside)
    if ROUNDED:
        tl.store(weight + index, w.to(weight.dtype.element_ty), mask=inside)
