"""What top-k, top-p and min-p leave of a distribution, without sorting it.

Each of the three keeps the likeliest tokens down to some logit, and so do all of them together. The lowest logit
that is kept, the floor, is found by narrowing an interval of float32 numbers, seen as integers of the same order: a
pass counts and weighs the logits above each of PIVOTS numbers in it. Chunks of the vocabulary without a logit above
the lowest pivot are passed over, which are nearly all of them once a model is sure of something. Among tokens at the
floor the lowest ids are kept, as by a stable sort.

Shapes: a row a program; B blocks of BV tokens each, as in `logits.py`; C chunks of blocks, P pivots.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last
from opd.models.engine.kernels.logits import summary

PIVOTS = tl.constexpr(8)


@triton.jit
def cut_kernel(
    logits, tops, masses, raw_mass, vocabulary, blocks, coldness, top_k, top_p, least,
    BV: tl.constexpr, BB: tl.constexpr, CHUNK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One row: logits cut in place, blocks summed up anew, `raw_mass` = log sum exp before the cut.

    Kept are at most `top_k` tokens, those before which less than `top_p` lies, and those of at least e^`least` of
    the likeliest one's probability.
    """
    n = tl.program_id(0).to(tl.int64)
    after_last(EARLY)
    row = logits + n * vocabulary
    b = tl.reshape(tl.arange(0, BB), [BB * BV // CHUNK, CHUNK // BV])
    top_CB = tl.load(tops + n * blocks + b, mask=b < blocks, other=float("-inf"))
    mass_CB = tl.load(masses + n * blocks + b, mask=b < blocks, other=0.0)
    top_C = tl.max(top_CB, 1)
    top = tl.max(top_C, 0)
    total = tl.sum(tl.sum(tl.where(mass_CB > 0, mass_CB * tl.exp(top_CB - top), mass_CB), 1), 0)
    tl.store(raw_mass + n, top + tl.log(total))
    if total < float("inf"):  # otherwise nothing can be drawn, and the draw says so
        share = tl.where(top_p < 1.0, top_p * total, float("inf"))  # at 1 no rounding of a sum may cut anything
        below = rank(
            tl.maximum(lowest_of(top_CB, top, total, vocabulary, blocks, top_k, top_p), top + least) / coldness
        )
        floor = floor_of(row, top_C, top, share, below - 4, vocabulary, coldness, top_k, BB * BV // CHUNK, CHUNK)
        count_P, mass_P = above(row, top_C, floor + tl.zeros([PIVOTS], tl.int32), floor, top, vocabulary, coldness,
                                BB * BV // CHUNK, CHUNK)  # fmt: skip
        each = tl.exp(value_at(floor) * coldness - top)
        room = tl.minimum((top_k - tl.max(count_P, 0)).to(tl.float32), tl.ceil((share - tl.max(mass_P, 0)) / each))
        passed = (top_C < value_at(floor) * coldness)[:, None] & (b < blocks)
        tl.store(tops + n * blocks + b, tl.full(b.shape, float("-inf"), tl.float32), mask=passed)
        tl.store(masses + n * blocks + b, tl.zeros(b.shape, tl.float32), mask=passed)
        cut_row(row, tops + n * blocks, masses + n * blocks, top_C, floor, room, top + least, vocabulary, blocks,
                coldness, BV, BB * BV // CHUNK, CHUNK)  # fmt: skip


@triton.jit
def rank(value):
    """An integer of the same order as the float32."""
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def value_at(rank_of):
    """The float32 of a rank."""
    return tl.where(rank_of < 0, rank_of ^ 0x7FFFFFFF, rank_of).to(tl.float32, bitcast=True)


@triton.jit
def lowest_of(top_CB, top, total, vocabulary, blocks, top_k, top_p):
    """A scaled logit that the floor is not below, as far as the blocks' tops tell.

    For top-p: all tokens so far below the largest that together they weigh less than what is left out. For top-k:
    k blocks whose largest logits reach it have k tokens that do.
    """
    lowest = top - float("inf")
    if top_p < 1.0:
        lowest = top - tl.log(vocabulary / tl.maximum((1.0 - top_p) * total, 1e-30)) - 1.0
    if top_k < blocks:
        low = top - 64.0
        high = top
        for _ in range(24):
            middle = (low + high) * 0.5
            enough = tl.sum(tl.sum((top_CB >= middle).to(tl.int32), 1), 0) >= top_k
            lowest = tl.where(enough, tl.maximum(lowest, middle), lowest)
            low = tl.where(enough, middle, low)
            high = tl.where(enough, high, middle)
    return lowest


@triton.jit
def floor_of(row, top_C, top, share, below, vocabulary, coldness, top_k, CHUNKS: tl.constexpr, CHUNK: tl.constexpr):
    """The rank of the lowest logit of which a token is kept, if it is above the rank `below`."""
    least = below.to(tl.int64)
    kept = rank(top / coldness).to(tl.int64) + 4  # above the largest logit, however the quotient was rounded
    while kept - least > 1:
        pivot_P = least + (kept - least) * (tl.arange(0, PIVOTS) + 1) // (PIVOTS + 1)
        lowest = least + (kept - least) // (PIVOTS + 1)
        count_P, mass_P = above(
            row, top_C, pivot_P.to(tl.int32), lowest.to(tl.int32), top, vocabulary, coldness, CHUNKS, CHUNK
        )
        keeps_P = (count_P < top_k) & (mass_P < share)
        kept = tl.minimum(kept, tl.min(tl.where(keeps_P, pivot_P, kept), 0))
        least = tl.maximum(least, tl.max(tl.where(keeps_P, least, pivot_P), 0))
    return kept.to(tl.int32)


@triton.jit
def above(row, top_C, pivot_P, lowest, top, vocabulary, coldness, CHUNKS: tl.constexpr, CHUNK: tl.constexpr):
    """How many logits rank above each pivot, and their mass relative to the largest; `lowest` is the lowest pivot."""
    count_P = tl.zeros([PIVOTS], tl.int32)
    mass_P = tl.zeros([PIVOTS], tl.float32)
    bound = value_at(lowest) * coldness
    chunk = next_chunk(top_C, bound, 0, CHUNKS)
    while chunk < CHUNKS:
        v = chunk * CHUNK + tl.arange(0, CHUNK)
        z_V = tl.load(row + v, mask=v < vocabulary, other=float("-inf"))
        over_PV = rank(z_V)[None, :] > pivot_P[:, None]
        count_P += tl.sum(over_PV.to(tl.int32), 1)
        mass_P += tl.sum(tl.where(over_PV, tl.exp(z_V * coldness - top)[None, :], 0.0), 1)
        chunk = next_chunk(top_C, bound, chunk + 1, CHUNKS)
    return count_P, mass_P


@triton.jit
def next_chunk(top_C, bound, start, CHUNKS: tl.constexpr):
    """The first chunk from `start` on with a scaled logit of at least `bound`; CHUNKS if there is none."""
    c = tl.arange(0, CHUNKS)
    return tl.min(tl.where((c >= start) & (top_C >= bound), c, CHUNKS), 0)


@triton.jit
def cut_row(
    row, row_tops, row_masses, top_C, floor, room, least, vocabulary, blocks, coldness,
    BV: tl.constexpr, CHUNKS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """In chunks that reach the floor: logits below it are -inf, and those at it from the `room`-th on."""
    taken = 0  # tokens at the floor so far
    bound = value_at(floor) * coldness
    chunk = next_chunk(top_C, bound, 0, CHUNKS)
    while chunk < CHUNKS:
        v = chunk * CHUNK + tl.arange(0, CHUNK)
        z_V = tl.load(row + v, mask=v < vocabulary, other=float("-inf"))
        tied_V = (rank(z_V) == floor).to(tl.int32)
        before_V = taken + tl.cumsum(tied_V, 0) - tied_V
        taken += tl.sum(tied_V, 0)
        keeps_V = (rank(z_V) > floor) | ((tied_V != 0) & (before_V < room))
        cut_V = tl.where(keeps_V & (z_V * coldness >= least), z_V, float("-inf"))
        tl.store(row + v, cut_V, mask=v < vocabulary)
        top_B, mass_B = summary(tl.reshape(cut_V, [CHUNK // BV, BV]) * coldness)
        b = chunk * (CHUNK // BV) + tl.arange(0, CHUNK // BV)
        tl.store(row_tops + b, top_B, mask=b < blocks)
        tl.store(row_masses + b, mass_B, mask=b < blocks)
        chunk = next_chunk(top_C, bound, chunk + 1, CHUNKS)
