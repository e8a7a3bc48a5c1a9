"""The residual stream: a program takes a row, adds what came, and leaves it normalised for the next matrix.

x_NH ──► + the slices of a product, in their order ──► x_NH, rounded ──► x / rms(x), rounded, × weight ──► h_NH
"""

import triton
import triton.language as tl

from opd.models.engine.kernels.launch import after_last, fetch_share


@triton.jit
def norm_kernel(
    x, parts, weight, out, ahead, rows, ahead_bytes, epsilon,
    HIDDEN: tl.constexpr, PARTS: tl.constexpr, BH: tl.constexpr, EARLY: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """One row. With PARTS = 0 nothing is added; programs beyond the rows only ask for what comes next.

    To x as it was, the last kernel that wrote is at least two ahead of this one if there is anything to add: the
    product lies between.
    """
    n = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, BH)
    inside = h < tl.where(n < rows, HIDDEN, 0)
    weight_H = tl.load(weight + h, mask=h < HIDDEN, other=0.0)
    fetch_share(ahead, ahead_bytes, LANES)
    if PARTS > 0:
        x_H = tl.load(x + n * HIDDEN + h, mask=inside, other=0.0)
    after_last(EARLY)
    if PARTS > 0:
        added_H = tl.zeros([BH], tl.float32)
        for part in tl.static_range(PARTS):
            added_H += tl.load(parts + (part * rows + n) * HIDDEN + h, mask=inside, other=0.0)
        x_H = (x_H.to(tl.float32) + added_H).to(x.dtype.element_ty)
        tl.store(x + n * HIDDEN + h, x_H, mask=inside)
    else:
        x_H = tl.load(x + n * HIDDEN + h, mask=inside, other=0.0)
    wide_H = x_H.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide_H * wide_H, 0) / HIDDEN + epsilon)
    tl.store(out + n * HIDDEN + h, (wide_H * scale).to(x.dtype.element_ty) * weight_H, mask=inside)


@triton.jit
def embed_kernel(ids, table, out, HIDDEN: tl.constexpr, BH: tl.constexpr, EARLY: tl.constexpr):
    """One row of the table."""
    n = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, BH)
    after_last(EARLY)
    row = tl.load(ids + n).to(tl.int64)
    tl.store(out + n * HIDDEN + h, tl.load(table + row * HIDDEN + h, mask=h < HIDDEN), mask=h < HIDDEN)
