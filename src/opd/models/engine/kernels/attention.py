"""Decode attention in one kernel: rotation, the write into the pools, split keys, and their combination.

Shapes: N rows, K key heads, G query heads to each of them, D head size in two halves of C, S tokens a page, T tokens
a turn; I splits.

    program (split, k, n):   pages split, split + used, split + 2 used, … of row n ──► asked for, before all else
                             q_GD ◄── qkv[n]: normalised where the model does, rotated
                             one pass of online softmax over the cached keys of those pages
                             one split starts from the new key and value, and writes them to the pools
    of the programs of (n, k), the one that ends last combines the splits, in their order

A new token's key never comes from memory, so nobody waits for its write: where SPAN rows are one sequence, each forms
the keys of those before it once more. How many splits are used follows from the row's own length; the order of its
sums depends on that and on SPLITS, and on no other sequence.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last, fetch

NEVER = tl.constexpr(-1.0e30)  # below any score, and still a number: the difference of two is 0, not NaN


@triton.jit
def attention_kernel(
    qkv, q_norm, k_norm, cos, sin, place_of, keys, values, table, position, out,
    part, part_top, part_mass, arrived, table_width, scale, epsilon,
    K: tl.constexpr, G: tl.constexpr, GP: tl.constexpr, GC: tl.constexpr, D: tl.constexpr, S: tl.constexpr,
    T: tl.constexpr, LEAST: tl.constexpr, SPLITS: tl.constexpr, SP: tl.constexpr, NORMED: tl.constexpr,
    SPAN: tl.constexpr, EARLY: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """One split of the keys of one row and key head; `scale` goes with powers of two.

    Positions, page tables and the cached keys are not the work of the kernel ahead, which is the product with q, k
    and v: they are read ahead of `after_last`.
    """
    split = tl.program_id(0)
    k = tl.program_id(1)
    n = tl.program_id(2)
    pages_of_row = table + n * table_width
    cached = tl.maximum(tl.load(position + n).to(tl.int32) - n % SPAN, 0)  # keys before the new ones of its sequence
    pages = tl.cdiv(cached, S)
    used = tl.minimum(tl.maximum(tl.cdiv(pages, LEAST), 1), SPLITS)
    if split < used:
        ask_for_pages(keys, values, pages_of_row, k, split, used, pages, K, D, S, LANES)
        place = tl.load(place_of + n * K + k) * D
        after_last(EARLY)
        row = qkv + n.to(tl.int64) * ((G + 2) * K * D)
        g = tl.arange(0, GP)
        low_GC, high_GC = turned(row + k * G * D, q_norm, cos + n * D, sin + n * D, epsilon, G, GP, D, NORMED)
        top_G = tl.full([GP], NEVER, tl.float32)
        mass_G = tl.zeros([GP], tl.float32)
        sum_GD = tl.zeros([GP, D], tl.float32)
        if split == pages % used:  # the one with the fewest pages
            top_G, mass_G, sum_GD = newest(
                row, k_norm, cos + n * D, sin + n * D, keys + place, values + place, low_GC, high_GC, scale, epsilon,
                k, K, G, GP, D, NORMED,
            )  # fmt: skip
            top_G, mass_G, sum_GD = with_earlier(
                qkv, k_norm, cos, sin, low_GC, high_GC, top_G, mass_G, sum_GD, scale, epsilon, n, k,
                K, G, D, NORMED, SPAN,
            )  # fmt: skip
        top_G, mass_G, sum_GD = over_pages(
            low_GC, high_GC, top_G, mass_G, sum_GD, keys, values, pages_of_row, k, split, used, pages, cached, scale,
            K, D, S, T,
        )  # fmt: skip
        head = (n * K + k).to(tl.int64)
        d = tl.arange(0, D)
        if used == 1:
            result_GD = sum_GD / mass_G[:, None]
            place_GD = (head * G + g[:, None]) * D + d[None, :]
            tl.store(out + place_GD, result_GD.to(out.dtype.element_ty), mask=g[:, None] < G)
        else:
            own_G = (head * SPLITS + split) * G + g
            tl.store(part + own_G[:, None] * D + d[None, :], sum_GD, mask=g[:, None] < G)
            tl.store(part_top + own_G, top_G, mask=g < G)
            tl.store(part_mass + own_G, mass_G, mask=g < G)
            tl.debug_barrier()  # all threads' stores come before the count
            if tl.atomic_add(arrived + head, 1) == used - 1:
                tl.store(arrived + head, 0)
                combine(part, part_top, part_mass, out, head, used, G, GC, D, SPLITS, SP)
    else:
        after_last(EARLY)


@triton.jit
def ask_for_pages(
    keys, values, pages_of_row, k, split, used, pages,
    K: tl.constexpr, D: tl.constexpr, S: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The L2 is asked for the first four pages of the split: a head's tokens of a page lie together."""
    if LANES > 0:
        PIECE: tl.constexpr = S * D * (keys.dtype.element_ty.primitive_bitwidth // 8) // (LANES // 4)
        lane = tl.arange(0, LANES)
        turn = split + lane // (LANES // 4) * used
        page = tl.load(pages_of_row + turn, mask=turn < pages, other=0).to(tl.int64)
        first = (page * K + k) * S * D
        count = tl.where(turn < pages, PIECE, 0)
        fetch((keys + first).to(tl.int64) + lane % (LANES // 4) * PIECE, count)
        fetch((values + first).to(tl.int64) + lane % (LANES // 4) * PIECE, count)


@triton.jit
def turned(
    start,
    norm_weight,
    cos,
    sin,
    epsilon,
    HEADS: tl.constexpr,
    HP: tl.constexpr,
    D: tl.constexpr,
    NORMED: tl.constexpr,
):
    """The two halves of some heads' vectors, normalised and rotated, in the type that they came in."""
    C: tl.constexpr = D // 2
    head = tl.arange(0, HP)[:, None]
    c = tl.arange(0, C)[None, :]
    cos_C = tl.load(cos + c)
    sin_C = tl.load(sin + C + c)
    low_HC = tl.load(start + head * D + c, mask=head < HEADS, other=0.0)
    high_HC = tl.load(start + head * D + C + c, mask=head < HEADS, other=0.0)
    kind = low_HC.dtype
    if NORMED:
        wide_low_HC = low_HC.to(tl.float32)
        wide_high_HC = high_HC.to(tl.float32)
        square_H = tl.sum(wide_low_HC * wide_low_HC, 1) + tl.sum(wide_high_HC * wide_high_HC, 1)
        scale_H1 = (1.0 / tl.sqrt(square_H / D + epsilon))[:, None]
        low_HC = (wide_low_HC * scale_H1).to(kind) * tl.load(norm_weight + c)
        high_HC = (wide_high_HC * scale_H1).to(kind) * tl.load(norm_weight + C + c)
    low_HC = low_HC.to(tl.float32)
    high_HC = high_HC.to(tl.float32)
    return (low_HC * cos_C - high_HC * sin_C).to(kind), (high_HC * cos_C + low_HC * sin_C).to(kind)


@triton.jit
def newest(
    row, k_norm, cos, sin, key, value, low_GC, high_GC, scale, epsilon, k,
    K: tl.constexpr, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """(top_G, mass_G, sum_GD) of the new token alone; its key and value are in the pools."""
    C: tl.constexpr = D // 2
    c = tl.arange(0, C)[None, :]
    score_G, low_1C, high_1C, value_D = new(
        row, k_norm, cos, sin, low_GC, high_GC, scale, epsilon, k, K, G, D, NORMED
    )
    tl.store(key + c, low_1C)
    tl.store(key + C + c, high_1C)
    tl.store(value + tl.arange(0, D), value_D)
    one_G = tl.full([GP], 1.0, tl.float32)
    return score_G, one_G, one_G[:, None] * value_D.to(tl.float32)[None, :]


@triton.jit
def with_earlier(
    qkv, k_norm, cos, sin, low_GC, high_GC, top_G, mass_G, sum_GD, scale, epsilon, n, k,
    K: tl.constexpr, G: tl.constexpr, D: tl.constexpr, NORMED: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    """The same with the new tokens of the sequence before this one."""
    if SPAN > 1:
        for m in range(n - n % SPAN, n):
            row = qkv + m * ((G + 2) * K * D)
            score_G, _, _, value_D = new(
                row, k_norm, cos + m * D, sin + m * D, low_GC, high_GC, scale, epsilon, k, K, G, D, NORMED
            )
            higher_G = tl.maximum(top_G, score_G)
            fade_G = tl.exp2(top_G - higher_G)
            share_G = tl.exp2(score_G - higher_G)
            mass_G = mass_G * fade_G + share_G
            sum_GD = sum_GD * fade_G[:, None] + share_G[:, None] * value_D.to(tl.float32)[None, :]
            top_G = higher_G
    return top_G, mass_G, sum_GD


@triton.jit
def new(
    row, k_norm, cos, sin, low_GC, high_GC, scale, epsilon, k,
    K: tl.constexpr, G: tl.constexpr, D: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """A new token's score, its key in two halves, and its value."""
    low_1C, high_1C = turned(row + (G * K + k) * D, k_norm, cos, sin, epsilon, 1, 1, D, NORMED)
    value_D = tl.load(row + ((G + 1) * K + k) * D + tl.arange(0, D))
    score_GC = low_GC.to(tl.float32) * low_1C.to(tl.float32) + high_GC.to(tl.float32) * high_1C.to(tl.float32)
    return tl.sum(score_GC, 1) * scale, low_1C, high_1C, value_D


@triton.jit
def over_pages(
    low_GC, high_GC, top_G, mass_G, sum_GD, keys, values, pages_of_row, k, split, used, pages, cached, scale,
    K: tl.constexpr, D: tl.constexpr, S: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """The same with the cached keys of every `used`-th page from `split` on, T of them a turn."""
    C: tl.constexpr = D // 2
    TURNS: tl.constexpr = S // T  # of a page
    c = tl.arange(0, C)[None, :]
    d = tl.arange(0, D)[None, :]
    t = tl.arange(0, T)
    page = tl.load(pages_of_row + tl.minimum(split, pages)).to(tl.int64)
    for turn in range(tl.cdiv(pages - split, used) * TURNS):
        token = (turn % TURNS) * T + t
        start = ((page * K + k) * S + token)[:, None] * D
        inside = (split + turn // TURNS * used) * S + token < cached
        following = tl.minimum(split + (turn + 1) // TURNS * used, pages - 1)
        page = tl.load(pages_of_row + following).to(tl.int64)  # a turn ahead, or the copies would wait for it
        low_TC = tl.load(keys + start + c, mask=inside[:, None], other=0.0)
        high_TC = tl.load(keys + start + C + c, mask=inside[:, None], other=0.0)
        value_TD = tl.load(values + start + d, mask=inside[:, None], other=0.0)
        score_GT = tl.dot(low_GC, tl.trans(low_TC), input_precision="ieee")
        score_GT = tl.dot(high_GC, tl.trans(high_TC), score_GT, input_precision="ieee")
        score_GT = tl.where(inside[None, :], score_GT * scale, NEVER)
        higher_G = tl.maximum(top_G, tl.max(score_GT, 1))
        fade_G = tl.exp2(top_G - higher_G)
        share_GT = tl.exp2(score_GT - higher_G[:, None])
        mass_G = mass_G * fade_G + tl.sum(share_GT, 1)
        sum_GD = tl.dot(share_GT.to(value_TD.dtype), value_TD, sum_GD * fade_G[:, None], input_precision="ieee")
        top_G = higher_G
    return top_G, mass_G, sum_GD


@triton.jit
def combine(
    part, part_top, part_mass, out, head, used,
    G: tl.constexpr, GC: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr, SP: tl.constexpr,
):  # fmt: skip
    """The splits of one row and key head as one, summed in their order; read past the L1, since others wrote them.

    All is asked for before anything is used: one wait for the L2, not one a head.
    """
    i = tl.arange(0, SP)[:, None]
    g = tl.arange(0, GC)[None, :]
    inside = (i < used) & (g < G)
    own_IG = (head * SPLITS + i) * G + g
    place_IGD = own_IG[:, :, None] * D + tl.arange(0, D)[None, None, :]
    sum_IGD = tl.load(part + place_IGD, mask=inside[:, :, None], other=0.0, cache_modifier=".cg")
    top_IG = tl.load(part_top + own_IG, mask=inside, other=NEVER, cache_modifier=".cg")
    mass_IG = tl.load(part_mass + own_IG, mask=inside, other=0.0, cache_modifier=".cg")
    weight_IG = tl.exp2(top_IG - tl.max(top_IG, 0)[None, :])
    weight_IG = (
        weight_IG / tl.maximum(tl.sum(mass_IG * weight_IG, 0), 1.0)[None, :]
    )  # it is 1 at least, but for padding
    result_GD = tl.sum(sum_IGD * weight_IG[:, :, None], 0)
    g = tl.arange(0, GC)[:, None]
    place_GD = (head * G + g) * D + tl.arange(0, D)[None, :]
    tl.store(out + place_GD, result_GD.to(out.dtype.element_ty), mask=g < G)
