"""The small kernels at both ends of a step: where its tokens stand, and the board afterwards.

They have their references in `operations.locate` and `operations.advance`; shapes as there.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last


@triton.jit
def locate_kernel(
    position, table, cos, sin, row_of, cos_of, sin_of, table_width, positions_a_row,
    K: tl.constexpr, KP: tl.constexpr, S: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One token: its rows of a pool and its angles."""
    token = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, KP)
    d = tl.arange(0, DP)
    after_last(EARLY)
    at = tl.load(position + token).to(tl.int64)
    page = tl.load(table + token // positions_a_row * table_width + at // S).to(tl.int64)
    tl.store(row_of + token * K + k, (page * K + k) * S + at % S, mask=k < K)
    tl.store(cos_of + token * D + d, tl.load(cos + at * D + d, mask=d < D), mask=d < D)
    tl.store(sin_of + token * D + d, tl.load(sin + at * D + d, mask=d < D), mask=d < D)


@triton.jit
def advance_kernel(
    token, logp, raw_logp, stop, ids, position, left, active, tokens, logps, raw_logps, tick, rows, width,
    NONE: tl.constexpr, BB: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """The whole board in one program, so that `tick` moves once."""
    b = tl.arange(0, BB)
    here = b < rows
    after_last(EARLY)
    column = tl.load(tick)
    runs_B = tl.load(active + b, mask=here, other=0) != 0
    token_B = tl.where(runs_B, tl.load(token + b, mask=here, other=NONE), NONE)
    place_B = b * width + column
    tl.store(tokens + place_B, token_B, mask=here)
    tl.store(logps + place_B, tl.load(logp + b, mask=here, other=0.0), mask=here)
    tl.store(raw_logps + place_B, tl.load(raw_logp + b, mask=here, other=0.0), mask=here)
    drawn_B = token_B >= 0
    left_B = tl.load(left + b, mask=here, other=0) - drawn_B.to(tl.int64)
    ends_B = tl.load(stop + tl.maximum(token_B, 0), mask=here, other=1) != 0
    tl.store(ids + b, token_B, mask=here & drawn_B)
    tl.store(position + b, tl.load(position + b, mask=here, other=0) + drawn_B.to(tl.int64), mask=here)
    tl.store(left + b, left_B, mask=here)
    tl.store(active + b, drawn_B & (ends_B == 0) & (left_B > 0), mask=here)
    tl.store(tick, column + 1)
