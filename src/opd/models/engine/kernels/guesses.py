"""The small kernels of guesses: what the rows of a step are, and how many of their draws are kept.

They have their references in `drafts/operations.py`; shapes as there. A program is one sequence.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last


@triton.jit
def guess_kernel(
    history, ids, position, left, active, table, uniform, column, ids_of, position_of, uniform_of, table_of, lives_of,
    width, window, pages, nobodys,
    SPAN: tl.constexpr, SP: tl.constexpr, LONGEST: tl.constexpr, BT: tl.constexpr, BM: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """The rows of one sequence; `width` of the history, `window` of the board's numbers, `pages` of its tables."""
    b = tl.program_id(0)
    s = tl.arange(0, SP)
    row = b * SPAN + s
    after_last(EARLY)
    at = tl.load(position + b)
    ours = history + b * width
    best = tl.full([BT], -1, tl.int64)
    for start in range(0, at, BT):
        place = start + tl.arange(0, BT)
        same = place < at
        length = tl.zeros([BT], tl.int64)
        for back in tl.static_range(LONGEST):
            newest = tl.load(ours + tl.maximum(at - back, 0))
            same = same & (place >= back)
            same = same & (tl.load(ours + place - back, mask=same, other=-1) == newest)
            length += same.to(tl.int64)
        best = tl.maximum(best, tl.where(length > 0, length * width + place, -1))
    found = tl.max(best, 0)
    place = tl.maximum(found, 0) % width
    guessed = tl.load(ours + place + 1 + tl.maximum(s - 1, 0) % tl.maximum(at - place, 1))
    lives = (tl.load(active + b) != 0) & (s < tl.load(left + b)) & ((s == 0) | (found >= 0))
    token = tl.where(s == 0, tl.load(ids + b), guessed)
    tl.store(ids_of + row, tl.where(lives, token, 0), mask=s < SPAN)
    tl.store(position_of + row, tl.where(lives, at + s, 0), mask=s < SPAN)
    tl.store(lives_of + row, lives, mask=s < SPAN)
    number = tl.minimum(tl.load(column + b) + s, window - 1)
    tl.store(uniform_of + row, tl.load(uniform + b * window + number), mask=s < SPAN)
    for start in range(0, pages, BM):
        m = start + tl.arange(0, BM)
        page = tl.load(table + b * pages + m, mask=m < pages, other=0)
        page_SM = tl.where(lives[:, None], page[None, :], nobodys)
        tl.store(
            table_of + row[:, None] * pages + m[None, :], page_SM, mask=(s < SPAN)[:, None] & (m < pages)[None, :]
        )


@triton.jit
def take_kernel(
    token, logp, raw_logp, ids_of, lives_of, stop, ids, position, left, active, tokens, logps, raw_logps, history,
    column, counts, width, window, SPAN: tl.constexpr, SP: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """The board's row, and the notes, of one sequence."""
    b = tl.program_id(0)
    s = tl.arange(0, SP)
    row = b * SPAN + s
    inside = s < SPAN
    after_last(EARLY)
    token_S = tl.load(token + row, mask=inside, other=0)
    lives_S = tl.load(lives_of + row, mask=inside, other=0) != 0
    drawn_before_S = tl.load(token + row - 1, mask=inside & (s > 0), other=0)
    ended_before_S = (drawn_before_S < 0) | (tl.load(stop + tl.maximum(drawn_before_S, 0)) != 0)
    read_S = tl.load(ids_of + row, mask=inside, other=0)
    follows_S = lives_S & ((s == 0) | ((read_S == drawn_before_S) & ~ended_before_S))
    count = tl.min(tl.where(follows_S, SP, s), 0)
    runs = count > 0
    at = tl.load(position + b)
    first = tl.load(column + b)
    kept_S = s < count
    place_S = b * window + first + s
    tl.store(tokens + place_S, token_S, mask=kept_S)
    tl.store(logps + place_S, tl.load(logp + row, mask=kept_S, other=0.0), mask=kept_S)
    tl.store(raw_logps + place_S, tl.load(raw_logp + row, mask=kept_S, other=0.0), mask=kept_S)
    tl.store(history + b * width + at + 1 + s, token_S, mask=kept_S)
    last = tl.sum(tl.where(s == count - 1, token_S, 0), 0)
    ends = (last < 0) | (tl.load(stop + tl.maximum(last, 0)) != 0)
    remaining = tl.load(left + b) - count
    tl.store(ids + b, last, mask=runs)
    tl.store(position + b, at + count)
    tl.store(left + b, remaining)
    tl.store(active + b, runs & (ends == 0) & (remaining > 0))
    tl.store(column + b, first + count)
    checked = tl.sum(lives_S.to(tl.int64), 0) - runs.to(tl.int64)
    tl.store(counts + b * 3, tl.load(counts + b * 3) + runs.to(tl.int64))
    tl.store(counts + b * 3 + 1, tl.load(counts + b * 3 + 1) + checked)
    tl.store(counts + b * 3 + 2, tl.load(counts + b * 3 + 2) + count - runs.to(tl.int64))
