"""What is done to each row by itself: norm, rotation, gate, log-probabilities.

Shapes: H hidden, D head size in two halves of C, V the tokenizer's tokens, B blocks of BV of them.

Where trainer and sampler run two different kernels, every sum is written out (`pairwise`); all others are formed in
the order of the layout that the compiler chose for a kernel, and that one kernel is both sides'.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last
from opd.models.engine.kernels.logits import summary
from opd.models.engine.kernels.products import gated


@triton.jit
def norm_kernel(x, weight, out, epsilon, HIDDEN: tl.constexpr, BH: tl.constexpr, EARLY: tl.constexpr):
    """One row, divided by its root mean square and rounded, × weight."""
    h = tl.arange(0, BH)
    row = tl.program_id(0).to(tl.int64) * HIDDEN
    after_last(EARLY)
    wide_H = tl.load(x + row + h, mask=h < HIDDEN, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide_H * wide_H, 0) / HIDDEN + epsilon)
    normed_H = (wide_H * scale).to(x.dtype.element_ty) * tl.load(weight + h, mask=h < HIDDEN, other=0.0)
    tl.store(out + row + h, normed_H, mask=h < HIDDEN)


@triton.jit
def pairwise(x_HC, HEADS: tl.constexpr, DOUBLINGS: tl.constexpr):
    """[HEADS, 1]: the sum of each row of 2^DOUBLINGS numbers, neighbours first."""
    for i in tl.static_range(DOUBLINGS):
        even, odd = tl.split(tl.reshape(x_HC, [HEADS, 1 << (DOUBLINGS - i - 1), 2]))
        x_HC = even + odd
    return x_HC


@triton.jit
def turned(
    start, norm, cos, sin, epsilon,
    HEADS: tl.constexpr, HP: tl.constexpr, D: tl.constexpr, DOUBLINGS: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """(low_HC, high_HC): the two halves of some heads, normalised and rotated, in the type that they came in."""
    C: tl.constexpr = D // 2
    head = tl.arange(0, HP)[:, None]
    c = tl.arange(0, 1 << DOUBLINGS)[None, :]
    inside = (head < HEADS) & (c < C)
    cos_C = tl.load(cos + c, mask=c < C, other=0.0)
    sin_C = tl.load(sin + C + c, mask=c < C, other=0.0)
    low_HC = tl.load(start + head * D + c, mask=inside, other=0.0)
    high_HC = tl.load(start + head * D + C + c, mask=inside, other=0.0)
    kind: tl.constexpr = low_HC.dtype
    low_HC = low_HC.to(tl.float32)
    high_HC = high_HC.to(tl.float32)
    if NORMED:
        square_H1 = pairwise(low_HC * low_HC + high_HC * high_HC, HP, DOUBLINGS)
        scale_H1 = 1.0 / tl.sqrt(square_H1 / D + epsilon)
        low_HC = ((low_HC * scale_H1).to(kind) * tl.load(norm + c, mask=c < C, other=0.0)).to(tl.float32)
        high_HC = ((high_HC * scale_H1).to(kind) * tl.load(norm + C + c, mask=c < C, other=0.0)).to(tl.float32)
    return (low_HC * cos_C - high_HC * sin_C).to(kind), (high_HC * cos_C + low_HC * sin_C).to(kind)


@triton.jit
def turn_kernel(
    x, norm, cos, sin, position, out, epsilon,
    HEADS: tl.constexpr, HP: tl.constexpr, D: tl.constexpr, DOUBLINGS: tl.constexpr, NORMED: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """The heads of one token."""
    n = tl.program_id(0).to(tl.int64)
    after_last(EARLY)
    angle = tl.load(position + n) * D
    start = n * HEADS * D
    low_HC, high_HC = turned(x + start, norm, cos + angle, sin + angle, epsilon, HEADS, HP, D, DOUBLINGS, NORMED)
    head = tl.arange(0, HP)[:, None]
    c = tl.arange(0, 1 << DOUBLINGS)[None, :]
    inside = (head < HEADS) & (c < D // 2)
    tl.store(out + start + head * D + c, low_HC, mask=inside)
    tl.store(out + start + head * D + D // 2 + c, high_HC, mask=inside)


@triton.jit
def place_kernel(
    qkv, q_norm, k_norm, cos, sin, place_of, query, keys, values, epsilon,
    Q: tl.constexpr, QP: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, D: tl.constexpr, DOUBLINGS: tl.constexpr,
    NORMED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One token: its queries turned; its keys, turned, and values in the pools."""
    n = tl.program_id(0).to(tl.int64)
    C: tl.constexpr = D // 2
    c = tl.arange(0, 1 << DOUBLINGS)[None, :]
    q = tl.arange(0, QP)[:, None]
    k = tl.arange(0, KP)[:, None]
    place = tl.load(place_of + n * K + k, mask=k < K, other=0) * D
    after_last(EARLY)
    row = qkv + n * ((Q + 2 * K) * D)
    angles = (cos + n * D, sin + n * D)
    low_QC, high_QC = turned(row, q_norm, angles[0], angles[1], epsilon, Q, QP, D, DOUBLINGS, NORMED)
    inside = (q < Q) & (c < C)
    tl.store(query + (n * Q + q) * D + c, low_QC, mask=inside)
    tl.store(query + (n * Q + q) * D + C + c, high_QC, mask=inside)
    low_KC, high_KC = turned(row + Q * D, k_norm, angles[0], angles[1], epsilon, K, KP, D, DOUBLINGS, NORMED)
    inside = (k < K) & (c < C)
    tl.store(keys + place + c, low_KC, mask=inside)
    tl.store(keys + place + C + c, high_KC, mask=inside)
    value = row + (Q + K) * D + k * D + c
    tl.store(values + place + c, tl.load(value, mask=inside, other=0.0), mask=inside)
    tl.store(values + place + C + c, tl.load(value + C, mask=inside, other=0.0), mask=inside)


@triton.jit
def gate_kernel(gate, up, out, gate_row, up_row, INNER: tl.constexpr, BI: tl.constexpr, EARLY: tl.constexpr):
    """silu(gate) × up for one row and one block of it; rows lie `gate_row` and `up_row` numbers apart."""
    n = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BI + tl.arange(0, BI)
    after_last(EARLY)
    gate_I = tl.load(gate + n * gate_row + i, mask=i < INNER, other=0.0)
    up_I = tl.load(up + n * up_row + i, mask=i < INNER, other=0.0)
    tl.store(out + n * INNER + i, gated(gate_I, up_I), mask=i < INNER)


@triton.jit(do_not_specialize=["row_floats", "vocabulary", "blocks"])  # one kernel, whatever a row is padded to
def summary_kernel(
    logits, tops, masses, row_floats, vocabulary, blocks, coldness,
    BV: tl.constexpr, BB: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Of BB blocks of one row: the largest z / temperature, and Σ exp(z / temperature - largest)."""
    n = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BB + tl.arange(0, BB)
    v = block[:, None] * BV + tl.arange(0, BV)[None, :]
    after_last(EARLY)
    z_BV = tl.load(logits + n * row_floats + v, mask=v < vocabulary, other=float("-inf"))
    top_B, mass_B = summary(z_BV * coldness)
    tl.store(tops + n * blocks + block, top_B, mask=block < blocks)
    tl.store(masses + n * blocks + block, mass_B, mask=block < blocks)


@triton.jit(do_not_specialize=["row_floats", "blocks"])
def logp_kernel(
    logits, tops, masses, ids, logp, normaliser, row_floats, blocks, coldness,
    BB: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """The log-probability of one row's token, and log Σ exp, from the row's blocks; an id below 0 is no token."""
    n = tl.program_id(0).to(tl.int64)
    b = tl.arange(0, BB)
    after_last(EARLY)
    top_B = tl.load(tops + n * blocks + b, mask=b < blocks, other=float("-inf"))
    mass_B = tl.load(masses + n * blocks + b, mask=b < blocks, other=0.0)
    top = tl.max(top_B, 0)
    share_B = tl.where(mass_B > 0, mass_B * tl.exp(top_B - top), mass_B).to(tl.float64)
    whole = top + tl.log(tl.sum(share_B, 0).to(tl.float32))
    token = tl.maximum(tl.load(ids + n), 0)
    tl.store(normaliser + n, whole)
    tl.store(logp + n, tl.load(logits + n * row_floats + token) * coldness - whole)
