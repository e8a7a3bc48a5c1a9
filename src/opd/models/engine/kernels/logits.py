"""The head, and what a draw has to know of its logits: of each block the largest, and the sum of exponentials.

Shapes: N rows, V tokens, H hidden, B blocks of BV tokens.

    z_NV = h_NH W_VH^T, float32 ──► logits_NV          top_NB   the largest z / temperature of a block
                                                       mass_NB  sum of exp(z / temperature - top)
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last
from opd.models.engine.kernels.products import few_rows, weights_of


@triton.jit
def head_kernel(
    h, head, logits, tops, masses, rows, vocabulary, blocks, coldness,
    HIDDEN: tl.constexpr, BN: tl.constexpr, BV: tl.constexpr, BH: tl.constexpr, TURNED: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """One block of tokens for one block of rows; `coldness` is 1 / temperature."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    block = tl.program_id(1)
    v = block * BV + tl.arange(0, BV)
    there = tl.minimum(v, vocabulary - 1)  # behind the last token, its row again
    after_last(EARLY)
    if TURNED:
        z_VN = tl.zeros([BV, BN], tl.float32)
    else:
        z_NV = tl.zeros([BN, BV], tl.float32)
    for column in range(0, HIDDEN, BH):
        h_NH = few_rows(h, n, rows, column, HIDDEN, HIDDEN, BH, HIDDEN % BH == 0)
        w_VH = weights_of(head, there, 0x7FFFFFFF, column, HIDDEN, HIDDEN, BH, HIDDEN % BH == 0, True)
        if TURNED:
            z_VN = tl.dot(w_VH, tl.trans(h_NH), z_VN, input_precision="ieee")
        else:
            z_NV = tl.dot(h_NH, tl.trans(w_VH), z_NV, input_precision="ieee")
    if TURNED:
        z_NV = tl.trans(z_VN)
    inside = (n[:, None] < rows) & (v[None, :] < vocabulary)
    tl.store(logits + n[:, None].to(tl.int64) * vocabulary + v[None, :], z_NV, mask=inside)
    top_N, mass_N = summary(tl.where(v[None, :] < vocabulary, z_NV * coldness, float("-inf")))
    tl.store(tops + n * blocks + block, top_N, mask=n < rows)
    tl.store(masses + n * blocks + block, mass_N, mask=n < rows)


@triton.jit
def summary_kernel(
    logits, tops, masses, vocabulary, blocks, coldness, BV: tl.constexpr, BB: tl.constexpr, EARLY: tl.constexpr
):
    """BB blocks of one row, from logits that are in memory already."""
    n = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BB + tl.arange(0, BB)
    v = block[:, None] * BV + tl.arange(0, BV)[None, :]
    after_last(EARLY)
    z_BV = tl.load(logits + n * vocabulary + v, mask=v < vocabulary, other=float("-inf"))
    top_B, mass_B = summary(z_BV * coldness)
    tl.store(tops + n * blocks + block, top_B, mask=block < blocks)
    tl.store(masses + n * blocks + block, mass_B, mask=block < blocks)


@triton.jit
def summary(scaled_NV):
    """Largest value and mass of each row; a row of nothing but -inf has mass 0."""
    top_N = tl.max(scaled_NV, 1)
    shift_N = tl.where(top_N == float("-inf"), 0.0, top_N)
    return top_N, tl.sum(tl.exp(scaled_NV - shift_N[:, None]), 1)
