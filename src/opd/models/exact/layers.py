"""Transformers' decoder with layers and last norm of our own, whose numbers are the sampler's.

Shapes: P tokens of all sequences, H hidden, D head size, L positions.
"""

from collections.abc import Callable
from typing import Any

import torch

from opd.models.engine.weights import rotation
from opd.models.exact.gradients import attend, gate, linear, norm, rotate
from opd.models.exact.operations import Tiles
from opd.models.packing import Packing, attend_apart


def make_exact(decoder: Any) -> None:
    """The decoder's layers and last norm are exact; its parameters stay as they are."""
    angles, last = _Angles(decoder.rotary_emb), decoder.norm
    for layer in decoder.layers:
        layer.forward = _layer(layer, angles)
    last.forward = lambda hidden_1PH: norm(hidden_1PH[0], last.weight, last.variance_epsilon)[None]


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


def _layer(layer: Any, angles: _Angles) -> Callable[..., torch.Tensor]:
    attention, mlp = layer.self_attn, layer.mlp
    first, second = layer.input_layernorm, layer.post_attention_layernorm

    def forward(hidden_1PH: torch.Tensor, *, position_ids: torch.Tensor, packing: Packing, **_: Any) -> torch.Tensor:
        x_PH: torch.Tensor = hidden_1PH[0]
        position_P = position_ids[0]
        tables = angles.upto(max(packing.lengths))
        if packing.tiles is None:
            packing.tiles = Tiles.of(packing.lengths, device=x_PH.device)
        h_PH = norm(x_PH, first.weight, first.variance_epsilon)
        query_PQD, key_PKD, value_PKD = (
            linear(h_PH, one.weight, one.bias).unflatten(-1, (-1, attention.head_dim))
            for one in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        a_PQD = attend(
            rotate(query_PQD, *tables, position_P),
            rotate(key_PKD, *tables, position_P),
            value_PKD,
            packing.tiles,
            lambda query_PQD, key_PKD, value_PKD: attend_apart(
                query_PQD, key_PKD, value_PKD, packing, attention.scaling
            ),
        )
        x_PH = x_PH + linear(a_PQD.flatten(1), attention.o_proj.weight, None)
        h_PH = norm(x_PH, second.weight, second.variance_epsilon)
        gated_PI = gate(linear(h_PH, mlp.gate_proj.weight, None), linear(h_PH, mlp.up_proj.weight, None))
        x_PH = x_PH + linear(gated_PI, mlp.down_proj.weight, None)
        return x_PH[None]

    return forward
