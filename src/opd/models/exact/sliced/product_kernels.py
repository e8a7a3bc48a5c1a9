"""The products of `products.py`, a program a tile.

Shapes: M rows and N outputs of a tile, K columns of a piece. A piece's products are summed by tensor cores into the
slice, a slice is added to the sum when it is whole.
"""

import triton
import triton.language as tl


@triton.jit
def place(rows, outputs, BM: tl.constexpr, BN: tl.constexpr):
    """(m_M, n_N) of a program: eight tiles of rows share the weights that they read."""
    program, across, down = tl.program_id(0), tl.cdiv(outputs, BN), tl.cdiv(rows, BM)
    band = program // (8 * across)
    height = tl.minimum(down - band * 8, 8)
    within = program % (8 * across)
    m = band * 8 + within % height
    n = within // height
    return m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)


@triton.jit
def piece(x_M, weight_N, column, inside_M, inside_N, BK: tl.constexpr):
    """(a_MK, b_NK): some columns of the program's rows and outputs."""
    k = column + tl.arange(0, BK)
    a_MK = tl.load(x_M[:, None] + k[None, :], mask=inside_M[:, None], other=0.0)
    b_NK = tl.load(weight_N[:, None] + k[None, :], mask=inside_N[:, None], other=0.0)
    return a_MK, b_NK


@triton.jit
def write(sum_MN, bias, out, m_M, n_N, rows, outputs, BIASED: tl.constexpr):
    """The program's tile."""
    if BIASED:
        sum_MN += tl.load(bias + n_N, mask=n_N < outputs, other=0.0).to(tl.float32)[None, :]
    inside = (m_M < rows)[:, None] & (n_N < outputs)[None, :]
    place_MN = m_M.to(tl.int64)[:, None] * outputs + n_N[None, :]
    tl.store(out + place_MN, sum_MN.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])  # compiled once, not for every divisibility of a batch
def hidden_kernel(
    x, weight, bias, out, rows, outputs, BIASED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    """1,536 columns."""
    m_M, n_N = place(rows, outputs, BM, BN)
    x_M, weight_N = x + m_M.to(tl.int64) * 1536, weight + n_N.to(tl.int64) * 1536
    inside_M, inside_N = m_M < rows, n_N < outputs
    sum_MN = tl.zeros([BM, BN], tl.float32)
    for s in range(8):
        a, b = piece(x_M, weight_N, s * 192, inside_M, inside_N, 64)
        slice_MN = tl.dot(a, tl.trans(b))
        a, b = piece(x_M, weight_N, s * 192 + 64, inside_M, inside_N, 64)
        slice_MN = tl.dot(a, tl.trans(b), slice_MN)
        a, b = piece(x_M, weight_N, s * 192 + 128, inside_M, inside_N, 64)
        slice_MN = tl.dot(a, tl.trans(b), slice_MN)
        sum_MN += slice_MN
    write(sum_MN, bias, out, m_M, n_N, rows, outputs, BIASED)


@triton.jit(do_not_specialize=["rows"])
def inner_kernel(
    x, weight, bias, out, rows, outputs, BIASED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    """8,960 columns."""
    m_M, n_N = place(rows, outputs, BM, BN)
    x_M, weight_N = x + m_M.to(tl.int64) * 8960, weight + n_N.to(tl.int64) * 8960
    inside_M, inside_N = m_M < rows, n_N < outputs
    sum_MN = tl.zeros([BM, BN], tl.float32)
    quarter_MN = tl.zeros([BM, BN], tl.float32)
    for turn in range(32):
        s = turn % 8
        first = turn // 8 * 2240 + s * 288 - tl.maximum(s - 6, 0) * 32
        a, b = piece(x_M, weight_N, first, inside_M, inside_N, 64)
        slice_MN = tl.dot(a, tl.trans(b))
        a, b = piece(x_M, weight_N, first + 64, inside_M, inside_N, 64)
        slice_MN = tl.dot(a, tl.trans(b), slice_MN)
        a, b = piece(x_M, weight_N, first + 128, inside_M, inside_N, 64)
        slice_MN = tl.dot(a, tl.trans(b), slice_MN)
        a, b = piece(x_M, weight_N, first + 192, inside_M, inside_N, 64)
        slice_MN = tl.dot(a, tl.trans(b), slice_MN)
        a, b = piece(x_M, weight_N, first + 256, inside_M & (s < 6), inside_N & (s < 6), 32)  # of the long slices
        slice_MN = tl.dot(a, tl.trans(b), slice_MN)
        quarter_MN += slice_MN
        sum_MN += tl.where(s == 7, quarter_MN, 0.0)
        quarter_MN = tl.where(s == 7, 0.0, quarter_MN)
    write(sum_MN, bias, out, m_M, n_N, rows, outputs, BIASED)
