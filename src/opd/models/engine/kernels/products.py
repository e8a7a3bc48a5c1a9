"""Products of a few rows with a matrix of weights. They cost the reading of the weights, so each is read once.

Shapes: N rows, A columns in, O rows of the weight, I inner; S slices of A.

    out_SNO[s] = a_NA[:, slice s] W_OA[:, slice s]^T       a program: one block of O, one slice, one block of N

A matrix with few rows doesn't keep the machine busy in one slice; its slices are summed by who reads them next, in
their order. A program walks its columns in order, so a row's result does not depend on the other rows. TURNED puts
the weights on the long side of the tensor core's product, of which rows need only eight then.
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last, fetch_rows


@triton.jit
def product_kernel(
    a, weight, bias, out, rows, own_bytes,
    OUT: tl.constexpr, DEEP: tl.constexpr, SLICE: tl.constexpr, BIASED: tl.constexpr,
    BN: tl.constexpr, BO: tl.constexpr, BA: tl.constexpr, TURNED: tl.constexpr,
    EARLY: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """out[s, n, o] for one block of n, one of o, one slice s."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    first = tl.program_id(2) * SLICE
    last = tl.minimum(first + SLICE, DEEP)
    own = weight + tl.program_id(1) * BO * DEEP + first
    fetch_rows(own, DEEP * (weight.dtype.element_ty.primitive_bitwidth // 8), own_bytes, BO, LANES)
    after_last(EARLY)
    if TURNED:
        sum_ON = tl.zeros([BO, BN], tl.float32)
    else:
        sum_NO = tl.zeros([BN, BO], tl.float32)
    for column in range(first, last, BA):
        a_NA = few_rows(a, n, rows, column, last, DEEP, BA, DEEP % SLICE == 0 and SLICE % BA == 0)
        w_OA = weights_of(
            weight, o, OUT, column, last, DEEP, BA, DEEP % SLICE == 0 and SLICE % BA == 0, OUT % BO == 0
        )
        if TURNED:
            sum_ON = tl.dot(w_OA, tl.trans(a_NA), sum_ON, input_precision="ieee")
        else:
            sum_NO = tl.dot(a_NA, tl.trans(w_OA), sum_NO, input_precision="ieee")
    if TURNED:
        sum_NO = tl.trans(sum_ON)
    if BIASED:
        sum_NO += tl.load(bias + o, mask=o < OUT, other=0.0).to(tl.float32)[None, :]
    place = (tl.program_id(2) * rows + n[:, None]).to(tl.int64) * OUT + o[None, :]
    tl.store(out + place, sum_NO.to(out.dtype.element_ty), mask=(n[:, None] < rows) & (o[None, :] < OUT))


@triton.jit
def gate_kernel(
    h, weight, out, rows, own_bytes,
    INNER: tl.constexpr, DEEP: tl.constexpr, BN: tl.constexpr, BO: tl.constexpr, BA: tl.constexpr,
    TURNED: tl.constexpr, EARLY: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """out[n, i] = silu(gate) × up for one block of n and one of i."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    i = tl.program_id(1) * BO + tl.arange(0, BO)
    stride = DEEP * (weight.dtype.element_ty.primitive_bitwidth // 8)
    up_weight = weight + INNER * DEEP
    fetch_rows(weight + tl.program_id(1) * BO * DEEP, stride, own_bytes, BO, LANES)
    fetch_rows(up_weight + tl.program_id(1) * BO * DEEP, stride, own_bytes, BO, LANES)
    after_last(EARLY)
    if TURNED:
        gate = tl.zeros([BO, BN], tl.float32)
        up = tl.zeros([BO, BN], tl.float32)
    else:
        gate = tl.zeros([BN, BO], tl.float32)
        up = tl.zeros([BN, BO], tl.float32)
    for column in range(0, DEEP, BA):
        h_NA = few_rows(h, n, rows, column, DEEP, DEEP, BA, DEEP % BA == 0)
        gate_OA = weights_of(weight, i, INNER, column, DEEP, DEEP, BA, DEEP % BA == 0, INNER % BO == 0)
        up_OA = weights_of(up_weight, i, INNER, column, DEEP, DEEP, BA, DEEP % BA == 0, INNER % BO == 0)
        if TURNED:
            gate = tl.dot(gate_OA, tl.trans(h_NA), gate, input_precision="ieee")
            up = tl.dot(up_OA, tl.trans(h_NA), up, input_precision="ieee")
        else:
            gate = tl.dot(h_NA, tl.trans(gate_OA), gate, input_precision="ieee")
            up = tl.dot(h_NA, tl.trans(up_OA), up, input_precision="ieee")
    result = gated(gate.to(out.dtype.element_ty), up.to(out.dtype.element_ty))
    if TURNED:
        result = tl.trans(result)
    place = n[:, None].to(tl.int64) * INNER + i[None, :]
    tl.store(out + place, result, mask=(n[:, None] < rows) & (i[None, :] < INNER))


@triton.jit
def gated_kernel(gate_up, out, INNER: tl.constexpr, BI: tl.constexpr, EARLY: tl.constexpr):
    """The same from a product that is in memory already, for one row and one block of i."""
    n = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BI + tl.arange(0, BI)
    after_last(EARLY)
    gate = tl.load(gate_up + n * 2 * INNER + i, mask=i < INNER, other=0.0)
    up = tl.load(gate_up + n * 2 * INNER + INNER + i, mask=i < INNER, other=0.0)
    tl.store(out + n * INNER + i, gated(gate, up), mask=i < INNER)


@triton.jit
def gated(gate, up):
    """silu(gate) × up, rounded where torch rounds."""
    wide = gate.to(tl.float32)
    silu = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
    return (silu * up.to(tl.float32)).to(gate.dtype)


@triton.jit
def few_rows(a, n, rows, column, last, DEEP: tl.constexpr, BA: tl.constexpr, WHOLE: tl.constexpr):
    """Rows n of a [rows, DEEP] matrix, from `column` on; WHOLE: no turn of the loop goes beyond its last column."""
    c = column + tl.arange(0, BA)[None, :]
    inside = n[:, None] < rows
    if not WHOLE:
        inside &= c < last
    return tl.load(a + n[:, None] * DEEP + c, mask=inside, other=0.0)


@triton.jit
def weights_of(
    weight, o, OUT: tl.constexpr, column, last,
    DEEP: tl.constexpr, BA: tl.constexpr, WHOLE: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """Rows o of the weight, from `column` on; they are read once, so the caches need not keep them."""
    c = column + tl.arange(0, BA)[None, :]
    start = weight + o[:, None].to(tl.int64) * DEEP
    if WHOLE and FULL:
        return tl.load(start + c, eviction_policy="evict_first")
    return tl.load(start + c, mask=(o[:, None] < OUT) & (c < last), other=0.0, eviction_policy="evict_first")
