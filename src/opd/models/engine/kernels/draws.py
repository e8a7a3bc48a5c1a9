"""A token by inversion of its uniform number: first the block of the vocabulary, then the token in it.

Shapes: one row a program; B blocks of BV tokens.

    cumulated mass of the blocks, float64 ──► the first block that exceeds u × total
    cumulated mass of its tokens ──► the first token that exceeds what is left

Only the 2,400 summaries of blocks and one block of logits are read. A token or block of mass 0 is never drawn.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last


@triton.jit
def first_beyond(cumulated, mass, target, index, SIZE: tl.constexpr):
    """The first index whose cumulated mass exceeds the target; where rounding leaves none, the last with mass."""
    beyond = tl.where((cumulated > target) & (mass > 0), index, tl.where(mass > 0, 3 * SIZE - index, 3 * SIZE))
    found = tl.min(beyond, 0)
    return tl.where(found < SIZE, found, 3 * SIZE - found)


@triton.jit
def draw_kernel(
    logits, tops, masses, raw_mass, uniform, token, logp, raw_logp, vocabulary, blocks, coldness,
    BV: tl.constexpr, BB: tl.constexpr, BROKEN: tl.constexpr, CUT: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One row. With CUT, `raw_mass` holds log sum exp before the cut, and what was cut off is -inf."""
    n = tl.program_id(0).to(tl.int64)
    b = tl.arange(0, BB)
    v = tl.arange(0, BV)
    after_last(EARLY)
    top_B = tl.load(tops + n * blocks + b, mask=b < blocks, other=float("-inf"))
    mass_B = tl.load(masses + n * blocks + b, mask=b < blocks, other=0.0)
    u = tl.load(uniform + n)
    top = tl.max(top_B, 0)
    share_B = tl.where(mass_B > 0, mass_B * tl.exp(top_B - top), mass_B).to(tl.float64)
    cumulated_B = tl.cumsum(share_B, 0)
    total = tl.sum(share_B, 0)
    chosen = first_beyond(cumulated_B, share_B, u * total, b, BB)
    end = tl.sum(tl.where(b == chosen, cumulated_B, 0.0), 0)
    token_V = chosen * BV + v
    scaled_V = tl.load(logits + n * vocabulary + token_V, mask=token_V < vocabulary, other=float("-inf")) * coldness
    share_V = tl.exp(scaled_V - top).to(tl.float64)
    whole = tl.sum(share_V, 0)
    drawn = first_beyond(tl.cumsum(share_V, 0), share_V, u * total - (end - whole), v, BV)
    value = tl.sum(tl.where(v == drawn, scaled_V, 0.0), 0)
    chance = value - (top + tl.log(total.to(tl.float32)))
    raw = chance
    if CUT:
        raw = value - tl.load(raw_mass + n)
    drawable = (total > 0) & (total < float("inf"))
    tl.store(token + n, tl.where(drawable, chosen * BV + drawn, BROKEN).to(tl.int64))
    tl.store(logp + n, chance)
    tl.store(raw_logp + n, raw)
