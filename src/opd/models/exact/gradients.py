"""Exact operations with a way back. What a token's log-probability is, is exact; its gradient is the ordinary one.

Shapes: N tokens, H hidden, C heads of D numbers, I inner, K columns and E outputs of a product; P tokens of all
sequences, Q query and K key heads of attention.

A gradient is rounded like that of any bf16 model: products by the vendor's library, norms and attention by autograd
through the ordinary operation, which the way back computes once more; a rotation is turned back.
"""

from typing import Any

import torch
import triton
from torch.nn import functional

from opd.models.exact.gate_kernel import BLOCK, gate_back_kernel
from opd.models.exact.order import Order, Tiles, Value

Context = Any  # what torch hands from a function's forward to its backward


class _Product(torch.autograd.Function):
    """y + x W^T + b."""

    @staticmethod
    def forward(
        ctx: Context,
        product: Value,
        x_NK: torch.Tensor,
        weight_EK: torch.Tensor,
        bias_E: torch.Tensor | None,
        added_NE: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.save_for_backward(x_NK, weight_EK)
        return product(x_NK, weight_EK, bias_E, added_MN=added_NE)

    @staticmethod
    def backward(ctx: Context, slope_NE: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_NK, weight_EK = ctx.saved_tensors
        _, x_too, weight_too, bias_too, added_too = ctx.needs_input_grad
        return (
            None,
            slope_NE @ weight_EK if x_too else None,
            slope_NE.t() @ x_NK if weight_too else None,
            slope_NE.sum(dim=0) if bias_too else None,
            slope_NE if added_too else None,
        )


class _Valued(torch.autograd.Function):
    """One operation's value with another one's gradient."""

    @staticmethod
    def forward(ctx: Context, value: Value, ordinary: Value, *given: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*given)
        ctx.ordinary = ordinary
        return value(*given)

    @staticmethod
    def backward(ctx: Context, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        needed = ctx.needs_input_grad[2:]
        given = [one.detach().requires_grad_(too) for one, too in zip(ctx.saved_tensors, needed, strict=True)]
        with torch.enable_grad():
            out = ctx.ordinary(*given)
        found = iter(torch.autograd.grad(out, [one for one in given if one.requires_grad], slope))
        return (None, None, *(next(found) if too else None for too in needed))


class _Turned(torch.autograd.Function):
    """Heads rotated; the way back is the rotation by the opposite angles."""

    @staticmethod
    def forward(
        ctx: Context,
        turn: Value,
        x_NCD: torch.Tensor,
        cos_LD: torch.Tensor,
        sin_LD: torch.Tensor,
        position_N: torch.Tensor,
    ) -> torch.Tensor:
        ctx.turn = turn
        ctx.save_for_backward(cos_LD, sin_LD, position_N)
        return turn(x_NCD, cos_LD, sin_LD, position_N, None, 0.0)

    @staticmethod
    def backward(ctx: Context, slope_NCD: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        cos_LD, sin_LD, position_N = ctx.saved_tensors
        return None, ctx.turn(slope_NCD, cos_LD, -sin_LD, position_N, None, 0.0), None, None, None


class _Gated(torch.autograd.Function):
    """silu(gate) × up."""

    @staticmethod
    def forward(ctx: Context, gate: Value, gate_NI: torch.Tensor, up_NI: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate_NI, up_NI)
        return gate(gate_NI, up_NI)

    @staticmethod
    def backward(ctx: Context, slope_NI: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gate_NI, up_NI = ctx.saved_tensors
        gate_slope_NI, up_slope_NI = torch.empty_like(gate_NI), torch.empty_like(up_NI)
        if count := gate_NI.numel():
            programs = (triton.cdiv(count, BLOCK),)
            given = (gate_NI, up_NI, slope_NI.contiguous(), gate_slope_NI, up_slope_NI)
            gate_back_kernel[programs](*given, count, BLOCK=BLOCK, num_warps=8)
        return None, gate_slope_NI, up_slope_NI


_product: Any = _Product.apply
_valued: Any = _Valued.apply
_turned: Any = _Turned.apply
_gated: Any = _Gated.apply


def linear(
    order: Order,
    x_NK: torch.Tensor,
    weight_EK: torch.Tensor,
    bias_E: torch.Tensor | None = None,
    *,
    added_NE: torch.Tensor | None = None,
) -> torch.Tensor:
    """Y + x W^T + b, y being what is added."""
    summed: torch.Tensor = _product(order.product, x_NK, weight_EK, bias_E, added_NE)
    return summed


def norm(order: Order, x_NH: torch.Tensor, weight_H: torch.Tensor, epsilon: float) -> torch.Tensor:
    """h_NH: the rows, divided by their root mean square, × weight."""

    def ordinary(x_NH: torch.Tensor, weight_H: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x_NH, (x_NH.shape[-1],), weight_H, epsilon)

    normed: torch.Tensor = _valued(
        lambda x_NH, weight_H: order.norm(x_NH, weight_H, epsilon), ordinary, x_NH, weight_H
    )
    return normed


def turn(
    order: Order,
    x_NCD: torch.Tensor,
    tables: tuple[torch.Tensor, torch.Tensor],
    position_N: torch.Tensor,
    norm_D: torch.Tensor | None,
    epsilon: float,
) -> torch.Tensor:
    """x_NCD, normalised where there is a weight for it, and rotated by `tables`, cos_LD and sin_LD."""
    turned: torch.Tensor
    if norm_D is None:
        turned = _turned(order.turn, x_NCD, *tables, position_N)
        return turned

    def ordinary(x_NCD: torch.Tensor, norm_D: torch.Tensor) -> torch.Tensor:
        normed_NCD = functional.rms_norm(x_NCD, (x_NCD.shape[-1],), norm_D, epsilon)
        back: torch.Tensor = _turned(order.turn, normed_NCD, *tables, position_N)
        return back

    turned = _valued(
        lambda x_NCD, norm_D: order.turn(x_NCD, *tables, position_N, norm_D, epsilon), ordinary, x_NCD, norm_D
    )
    return turned


def gate(order: Order, gate_NI: torch.Tensor, up_NI: torch.Tensor) -> torch.Tensor:
    """g_NI: silu(gate) × up."""
    gated: torch.Tensor = _gated(order.gate, gate_NI, up_NI)
    return gated


def attend(
    order: Order,
    query_PQD: torch.Tensor,
    key_PKD: torch.Tensor,
    value_PKD: torch.Tensor,
    *,
    tiles: Tiles,
    scale: float,
    ordinary: Value,
) -> torch.Tensor:
    """a_PQD, each sequence by itself; `ordinary` is attention of the same three."""
    attended: torch.Tensor = _valued(
        lambda query_PQD, key_PKD, value_PKD: order.attend(query_PQD, key_PKD, value_PKD, tiles, scale),
        ordinary,
        *(query_PQD, key_PKD, value_PKD),
    )
    return attended
