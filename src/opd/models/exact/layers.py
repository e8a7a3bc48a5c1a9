"""Transformers' decoder with layers and last norm of our own, whose numbers are the sampler's.

Shapes: P tokens of all sequences, H hidden, D head size, L positions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from opd.models.engine.weights import rotation
from opd.models.exact import gradients
from opd.models.exact.order import Order
from opd.models.packing import Packing, attend_apart


def make_exact(decoder: Any, order: Order) -> None:
    """The decoder's layers and last norm are exact; its parameters stay as they are."""
    angles, last = _Angles(decoder.rotary_emb), decoder.norm
    for layer in decoder.layers:
        layer.forward = _layer(layer, angles, order)
    last.forward = lambda hidden_1PH: gradients.norm(order, hidden_1PH[0], last.weight, last.variance_epsilon)[None]


class _Angles:
    """The rotation's tables, as long as any sequence so far."""

    def __init__(self, rotary: Any) -> None:
        self._rotary = rotary
        self._tables: tuple[torch.Tensor, torch.Tensor] | None = None

    def upto(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(cos_LD, sin_LD) with at least so many positions."""
        if self._tables is None or len(self._tables[0]) < positions:
            self._tables = rotation(self._rotary, positions, dtype=torch.bfloat16)
        return self._tables


def _layer(layer: Any, angles: _Angles, order: Order) -> Callable[..., torch.Tensor]:
    attention, mlp = layer.self_attn, layer.mlp
    first, second = layer.input_layernorm, layer.post_attention_layernorm
    norm, linear = partial(gradients.norm, order), partial(gradients.linear, order)
    normed = [getattr(attention, name).weight if hasattr(attention, name) else None for name in ("q_norm", "k_norm")]

    def forward(hidden_1PH: torch.Tensor, *, position_ids: torch.Tensor, packing: Packing, **_: Any) -> torch.Tensor:
        x_PH: torch.Tensor = hidden_1PH[0]
        tables = angles.upto(max(packing.lengths))
        if packing.tiles is None:
            packing.tiles = order.tiles(packing.lengths, device=x_PH.device)
        h_PH = norm(x_PH, first.weight, first.variance_epsilon)
        query_PQD, key_PKD, value_PKD = (
            linear(h_PH, one.weight, one.bias).unflatten(-1, (-1, attention.head_dim))
            for one in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        query_PQD, key_PKD = (
            gradients.turn(order, one, tables, position_ids[0], weight, first.variance_epsilon)
            for one, weight in zip((query_PQD, key_PKD), normed, strict=True)
        )
        a_PQD = gradients.attend(
            *(order, query_PQD, key_PKD, value_PKD),
            tiles=packing.tiles,
            scale=attention.scaling,
            ordinary=lambda query, key, value: attend_apart(query, key, value, packing, attention.scaling),
        )
        x_PH = linear(a_PQD.flatten(1), attention.o_proj.weight, added_NE=x_PH)
        h_PH = norm(x_PH, second.weight, second.variance_epsilon)
        gated_PI = gradients.gate(order, linear(h_PH, mlp.gate_proj.weight), linear(h_PH, mlp.up_proj.weight))
        return linear(gated_PI, mlp.down_proj.weight, added_NE=x_PH)[None]

    return forward
