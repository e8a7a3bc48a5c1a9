"""Attention in stretches of 128 keys, counted from the sequence's first token.

Shapes: M queries (the heads of a key head in a step; some tokens of one head in a tile), T keys of a stretch, D head
size, G query heads to each of K key heads; S tokens a page.

    a stretch    score = q · k × scale                  a chain over D; `scale` goes with powers of two
                 top   = the largest score
                 share = 2^(score - top), rounded       0 for keys that a query does not see
                 mass  = Σ share,  sum = Σ share × v    chains over the keys, from zero
    one more     both relative to the higher top of the two: a × 2^(its top - higher) + b × 2^(its top - higher)
    at the end   sum / mass

In a step a program has a stretch, or some, and the one that ends last puts them together; in a tile a program goes
through all of them. The order is the same: stretch after stretch, from the first.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last

NEVER = tl.constexpr(-1.0e30)  # below any score, and still a number: the difference of two is 0, not NaN
TOGETHER = tl.constexpr(8)  # stretches that are read at once: one wait for the L2, not eight


@triton.jit
def stretch_of(query_MD, key_TD, value_TD, seen_MT, scale, T: tl.constexpr):
    """(top_M, mass_M, sum_MD)."""
    score_MT = tl.where(seen_MT, tl.dot(query_MD, tl.trans(key_TD)) * scale, NEVER)
    top_M = tl.max(score_MT, 1)
    share_MT = tl.exp2(score_MT - top_M[:, None]).to(value_TD.dtype)
    ones_T16 = tl.full([T, 16], 1.0, value_TD.dtype)
    mass_M = tl.max(tl.dot(share_MT, ones_T16), 1)  # sixteen times the same, by a sum whose order is known
    return top_M, mass_M, tl.dot(share_MT, value_TD)


@triton.jit
def joined(top_M, mass_M, sum_MD, other_top_M, other_mass_M, other_sum_MD):
    """The stretches so far with one more."""
    higher_M = tl.maximum(top_M, other_top_M)
    fade_M = tl.exp2(top_M - higher_M)
    weight_M = tl.exp2(other_top_M - higher_M)
    mass_M = mass_M * fade_M + other_mass_M * weight_M
    return higher_M, mass_M, sum_MD * fade_M[:, None] + other_sum_MD * weight_M[:, None]


@triton.jit
def tiles_kernel(
    query, keys, values, out,
    tile_sequence, tile_first, query_row, queries, first_position, key_row, table, table_width, scale,
    Q: tl.constexpr, K: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, S: tl.constexpr, T: tl.constexpr,
    BM: tl.constexpr, PAGED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One head of a tile's queries; keys and values in pages, or in rows."""
    head = tl.program_id(0)
    tile = tl.program_id(1)
    after_last(EARLY)
    k = head // (Q // K)
    sequence = tl.load(tile_sequence + tile)
    first = tl.load(tile_first + tile)
    count = tl.minimum(tl.load(queries + sequence) - first, BM)
    start = tl.load(first_position + sequence) + first
    own_row = (tl.load(query_row + sequence) + first).to(tl.int64)
    key_from = tl.load(key_row + sequence).to(tl.int64)
    m = tl.arange(0, BM)
    t = tl.arange(0, T)
    d = tl.arange(0, DP)[None, :]
    position_M = start + tl.minimum(m, count - 1)
    place_MD = ((own_row + m) * Q + head)[:, None] * D + d
    inside_MD = (m < count)[:, None] & (d < D)
    query_MD = tl.load(query + place_MD, mask=inside_MD, other=0.0)
    top_M = tl.full([BM], NEVER, tl.float32)
    mass_M = tl.zeros([BM], tl.float32)
    sum_MD = tl.zeros([BM, DP], tl.float32)
    for stretch in range(0, start + count, T):
        token_T = stretch + t
        there_T = token_T < start + count
        if PAGED:
            page_T = tl.load(table + sequence * table_width + token_T // S, mask=there_T, other=0).to(tl.int64)
            row_T = (page_T * K + k) * S + token_T % S
        else:
            row_T = (key_from + token_T) * K + k
        inside_TD = there_T[:, None] & (d < D)
        key_TD = tl.load(keys + row_T[:, None] * D + d, mask=inside_TD, other=0.0)
        value_TD = tl.load(values + row_T[:, None] * D + d, mask=inside_TD, other=0.0)
        seen_MT = token_T[None, :] <= position_M[:, None]
        one = stretch_of(query_MD, key_TD, value_TD, seen_MT, scale, T)
        top_M, mass_M, sum_MD = joined(top_M, mass_M, sum_MD, one[0], one[1], one[2])
    tl.store(out + place_MD, (sum_MD / mass_M[:, None]).to(out.dtype.element_ty), mask=inside_MD)


@triton.jit
def step_kernel(
    query, keys, values, table, position, out, tops, masses, sums, arrived, table_width, most, scale,
    K: tl.constexpr, G: tl.constexpr, GP: tl.constexpr, GC: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    S: tl.constexpr, T: tl.constexpr, SPLITS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Every SPLITS-th stretch of one row and key head, of `most` that there may be; the last program joins them."""
    split = tl.program_id(0)
    k = tl.program_id(1)
    n = tl.program_id(2)
    tokens = tl.load(position + n).to(tl.int32) + 1
    stretches = tl.cdiv(tokens, T)
    used = tl.minimum(stretches, SPLITS)
    after_last(EARLY)
    if split < used:
        pair = (n * K + k).to(tl.int64)
        g = tl.arange(0, GP)
        t = tl.arange(0, T)
        d = tl.arange(0, DP)[None, :]
        query_GD = tl.load(query + (pair * G + g)[:, None] * D + d, mask=(g < G)[:, None] & (d < D), other=0.0)
        for stretch in range(split, stretches, used):
            token_T = stretch * T + t
            there_T = token_T < tokens
            page_T = tl.load(table + n * table_width + token_T // S, mask=there_T, other=0).to(tl.int64)
            place_TD = ((page_T * K + k) * S + token_T % S)[:, None] * D + d
            inside_TD = there_T[:, None] & (d < D)
            key_TD = tl.load(keys + place_TD, mask=inside_TD, other=0.0)
            value_TD = tl.load(values + place_TD, mask=inside_TD, other=0.0)
            top_G, mass_G, sum_GD = stretch_of(query_GD, key_TD, value_TD, there_T[None, :], scale, T)
            own_G = (pair * most + stretch) * G + g
            tl.store(tops + own_G, top_G, mask=g < G)
            tl.store(masses + own_G, mass_G, mask=g < G)
            tl.store(sums + own_G[:, None] * DP + d, sum_GD, mask=(g < G)[:, None])
        tl.debug_barrier()  # all threads' stores come before the count
        if tl.atomic_add(arrived + pair, 1) == used - 1:
            tl.store(arrived + pair, 0)
            put_together(tops, masses, sums, out, pair, stretches, most, G, GC, D, DP)


@triton.jit
def put_together(
    tops, masses, sums, out, pair, stretches, most,
    G: tl.constexpr, GC: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    """The stretches of one row and key head as one; read past the L1, since others wrote them."""
    g = tl.arange(0, GC)
    d = tl.arange(0, DP)[None, :]
    top_G = tl.full([GC], NEVER, tl.float32)
    mass_G = tl.zeros([GC], tl.float32)
    sum_GD = tl.zeros([GC, DP], tl.float32)
    for first in range(0, stretches, TOGETHER):
        read = ()
        for i in tl.static_range(TOGETHER):
            there = (first + i < stretches) & (g < G)
            own_G = (pair * most + first + i) * G + g
            read = read + (  # type: ignore[assignment]  # noqa: RUF005  Triton knows no unpacking
                tl.load(tops + own_G, mask=there, other=NEVER, cache_modifier=".cg"),
                tl.load(masses + own_G, mask=there, other=0.0, cache_modifier=".cg"),
                tl.load(sums + own_G[:, None] * DP + d, mask=there[:, None], other=0.0, cache_modifier=".cg"),
            )
        for i in tl.static_range(TOGETHER):
            top_G, mass_G, sum_GD = joined(top_G, mass_G, sum_GD, read[3 * i], read[3 * i + 1], read[3 * i + 2])
    g = tl.arange(0, GC)[:, None]
    result_GD = sum_GD / mass_G[:, None]
    tl.store(out + (pair * G + g) * D + d, result_GD.to(out.dtype.element_ty), mask=(g < G) & (d < D))
