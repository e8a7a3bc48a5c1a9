"""The product of `operations.product`, a program a tile.

Shapes: N rows, O outputs, A columns.

    out[n, o] = a[n, 0] w[o, 0] + … + a[n, A - 1] w[o, A - 1]    16 columns an instruction, from the first to the last
                (+ bias[o]) (+ added[n, o])                      in float32, then rounded once

An element depends on its row and its column alone, whatever the tile: TURNED, which puts the weights on the long side
of the tensor core's product, changes places and no sum.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last


@triton.jit(do_not_specialize=["rows"])  # compiled once, not for every divisibility of a batch
def product_kernel(
    a, weight, bias, added, out, rows,
    OUT: tl.constexpr, DEEP: tl.constexpr, BIASED: tl.constexpr, ADDED: tl.constexpr,
    BN: tl.constexpr, BO: tl.constexpr, BA: tl.constexpr, TURNED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One block of rows and of outputs; eight blocks of rows share the weights that they read."""
    across, down = tl.cdiv(OUT, BO), tl.cdiv(rows, BN)
    band = tl.program_id(0) // (8 * across)
    height = tl.minimum(down - band * 8, 8)
    within = tl.program_id(0) % (8 * across)
    n = (band * 8 + within % height) * BN + tl.arange(0, BN)
    o = within // height * BO + tl.arange(0, BO)
    after_last(EARLY)
    a_N = a + tl.minimum(n, rows - 1).to(tl.int64)[:, None] * DEEP  # behind the last row, it again: nobody stores it
    weight_O = weight + tl.minimum(o, OUT - 1).to(tl.int64)[:, None] * DEEP
    if TURNED:
        sum_ON = tl.zeros([BO, BN], tl.float32)
    else:
        sum_NO = tl.zeros([BN, BO], tl.float32)
    for column in range(0, DEEP, BA):
        c = column + tl.arange(0, BA)[None, :]
        if DEEP % BA == 0:
            a_NA = tl.load(a_N + c)
            w_OA = tl.load(weight_O + c)
        else:
            a_NA = tl.load(a_N + c, mask=c < DEEP, other=0.0)
            w_OA = tl.load(weight_O + c, mask=c < DEEP, other=0.0)
        if TURNED:
            sum_ON = tl.dot(w_OA, tl.trans(a_NA), sum_ON)
        else:
            sum_NO = tl.dot(a_NA, tl.trans(w_OA), sum_NO)
    if TURNED:
        sum_NO = tl.trans(sum_ON)
    inside = (n < rows)[:, None] & (o < OUT)[None, :]
    place = n.to(tl.int64)[:, None] * OUT + o[None, :]
    if BIASED:
        sum_NO += tl.load(bias + o, mask=o < OUT, other=0.0).to(tl.float32)[None, :]
    if ADDED:
        sum_NO += tl.load(added + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + place, sum_NO.to(out.dtype.element_ty), mask=inside)
