"""Exact operations with a way back. What a token's log-probability is, is exact; its gradient is the ordinary one.

Shapes: as in `operations.py`; E outputs of a product, P tokens of all sequences.

A gradient is rounded like that of any bf16 model: products by the vendor's library, all else by autograd through the
ordinary operation, which the way back computes once more.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from opd.models.exact import operations
from opd.models.exact.operations import Tiles
from opd.models.exact.products import product

Context = Any  # what torch hands from a function's forward to its backward
Value = Callable[..., torch.Tensor]


class _Product(torch.autograd.Function):
    """x W^T + b."""

    @staticmethod
    def forward(
        ctx: Context, x_NK: torch.Tensor, weight_EK: torch.Tensor, bias_E: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x_NK, weight_EK)
        return product(x_NK, weight_EK, bias_E)

    @staticmethod
    def backward(ctx: Context, slope_NE: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_NK, weight_EK = ctx.saved_tensors
        x_too, weight_too, bias_too = ctx.needs_input_grad
        return (
            slope_NE @ weight_EK if x_too else None,
            slope_NE.t() @ x_NK if weight_too else None,
            slope_NE.sum(dim=0) if bias_too else None,
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


linear: Any = _Product.apply
_valued: Any = _Valued.apply


def norm(x_NH: torch.Tensor, weight_H: torch.Tensor, epsilon: float) -> torch.Tensor:
    """h_NH; see `operations.norm`."""

    def ordinary(x_NH: torch.Tensor, weight_H: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x_NH, (x_NH.shape[-1],), weight_H, epsilon)

    normed: torch.Tensor = _valued(
        lambda x_NH, weight_H: operations.norm(x_NH, weight_H, epsilon), ordinary, x_NH, weight_H
    )
    return normed


def rotate(x_NCD: torch.Tensor, cos_LD: torch.Tensor, sin_LD: torch.Tensor, position_N: torch.Tensor) -> torch.Tensor:
    """x_NCD turned; see `operations.rotate`."""

    def ordinary(x_NCD: torch.Tensor) -> torch.Tensor:
        cos_N1D, sin_N1D = cos_LD[position_N].unsqueeze(1), sin_LD[position_N].unsqueeze(1)
        return (x_NCD * cos_N1D + x_NCD.roll(x_NCD.shape[-1] // 2, dims=-1) * sin_N1D).to(x_NCD.dtype)

    turned: torch.Tensor = _valued(
        lambda x_NCD: operations.rotate(x_NCD, cos_LD, sin_LD, position_N), ordinary, x_NCD
    )
    return turned


def gate(gate_NI: torch.Tensor, up_NI: torch.Tensor) -> torch.Tensor:
    """g_NI; see `operations.gate`."""
    gated: torch.Tensor = _valued(
        operations.gate, lambda gate_NI, up_NI: functional.silu(gate_NI) * up_NI, gate_NI, up_NI
    )
    return gated


def attend(
    query_PQD: torch.Tensor, key_PKD: torch.Tensor, value_PKD: torch.Tensor, tiles: Tiles, ordinary: Value
) -> torch.Tensor:
    """a_PQD, each sequence by itself; `ordinary` is attention of the same three."""
    attended: torch.Tensor = _valued(
        lambda query_PQD, key_PKD, value_PKD: operations.attend(query_PQD, key_PKD, value_PKD, tiles),
        ordinary,
        *(query_PQD, key_PKD, value_PKD),
    )
    return attended
