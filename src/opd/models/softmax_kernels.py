"""`softmax.py` in two kernels: the logits of a chunk are read once for its log-probabilities, once for their slope.

Shapes: C tokens, R columns of the logits, of which the first `vocabulary` count.
"""

import torch
import triton
import triton.language as tl

BLOCK = 4_096  # columns that a program holds at once


def token_logp(
    logits_CR: torch.Tensor, ids_C: torch.Tensor, *, vocabulary: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(logp_C, normaliser_C), the second being the logarithm of the sum of exponentials."""
    logp_C, normaliser_C = torch.empty_like(logits_CR[:, 0]), torch.empty_like(logits_CR[:, 0])
    if len(ids_C):
        logp_kernel[(len(ids_C),)](
            logits_CR, ids_C, logp_C, normaliser_C, vocabulary, logits_CR.shape[1], 1 / temperature,
            BLOCK=BLOCK, num_warps=8,
        )  # fmt: skip
    return logp_C, normaliser_C


def slope(
    logits_CR: torch.Tensor,
    normaliser_C: torch.Tensor,
    ids_C: torch.Tensor,
    slope_C: torch.Tensor,
    *,
    vocabulary: int,
    temperature: float,
    dtype: torch.dtype,
) -> torch.Tensor:
    """slope_CR, zero in the padding."""
    slope_CR = torch.empty_like(logits_CR, dtype=dtype)
    if len(ids_C):
        slope_kernel[(len(ids_C), triton.cdiv(logits_CR.shape[1], BLOCK))](
            logits_CR, normaliser_C, ids_C, slope_C.contiguous(), slope_CR, vocabulary, logits_CR.shape[1],
            1 / temperature, BLOCK=BLOCK, num_warps=8,
        )  # fmt: skip
    return slope_CR


@triton.jit
def scaled(address, v, vocabulary, columns, colder):
    """Logits over the temperature, -inf in the padding. It is read: a mask in its midst would cut wide loads up."""
    z = tl.load(address, mask=v < columns, other=float("-inf"))
    return tl.where(v < vocabulary, z * colder, float("-inf"))


@triton.jit
def logp_kernel(logits, ids, logp, normaliser, vocabulary, columns, colder, BLOCK: tl.constexpr):
    """One row, from left to right: the largest so far, and the sum of exponentials below it."""
    c = tl.program_id(0)
    row = logits + c.to(tl.int64) * columns
    largest = float("-inf")
    total = 0.0
    for first in range(0, vocabulary, BLOCK):
        v = first + tl.arange(0, BLOCK)
        z = scaled(row + v, v, vocabulary, columns, colder)
        now = tl.maximum(largest, tl.max(z, 0))
        total = total * tl.exp(largest - now) + tl.sum(tl.exp(z - now), 0)
        largest = now
    log_total = largest + tl.log(total)
    tl.store(normaliser + c, log_total)
    tl.store(logp + c, tl.load(row + tl.load(ids + c)) * colder - log_total)


@triton.jit
def slope_kernel(logits, normaliser, ids, slope_C, out, vocabulary, columns, colder, BLOCK: tl.constexpr):
    """One block of one row."""
    c = tl.program_id(0)
    v = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = c.to(tl.int64) * columns + v
    z = scaled(logits + place, v, vocabulary, columns, colder)
    probability = tl.exp(z - tl.load(normaliser + c))
    chosen = tl.where(v == tl.load(ids + c), 1.0, 0.0)
    value = tl.load(slope_C + c) * colder * (chosen - probability)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=v < columns)
