"""The engine's prefill by exact operations: a prompt's keys and values are those of the trainer's forward pass.

Shapes: as in `engine/operations.py`.
"""

from dataclasses import replace
from functools import partial

import torch

from opd.models.engine.operations import TORCH, Operations, Places
from opd.models.engine.room import Room
from opd.models.engine.weights import Qkv
from opd.models.exact.order import Tiles
from opd.models.exact.sliced import operations
from opd.models.exact.sliced.products import product


def ways(room: Room) -> tuple[Operations, None]:
    """The operations of a room's prefill, and no step: all are the persistent kernel's, so nothing draws here."""
    cos_LD, sin_LD = room.cos_LD, room.sin_LD

    def project_qkv(
        h_NH: torch.Tensor,
        qkv: Qkv,
        places: Places,
        k_PKSD: torch.Tensor,
        v_PKSD: torch.Tensor,
        *,
        epsilon: float,  # noqa: ARG001  of norms that this decoder has not
    ) -> torch.Tensor:
        key_heads, head_size = k_PKSD.shape[1], k_PKSD.shape[3]
        heads_NCD = product(h_NH, qkv.weight_EH, qkv.bias_E).unflatten(-1, (-1, head_size))
        position_N = places.position_RT.flatten()
        turned_NCD = operations.turn(heads_NCD[:, :-key_heads], cos_LD, sin_LD, position_N)
        row = places.row_NK.view(-1)
        k_PKSD.view(-1, head_size).index_copy_(0, row, turned_NCD[:, -key_heads:].reshape(-1, head_size))
        v_PKSD.view(-1, head_size).index_copy_(0, row, heads_NCD[:, -key_heads:].reshape(-1, head_size))
        return turned_NCD[:, :-key_heads]

    ops = replace(
        TORCH,
        norm=operations.norm,
        project_qkv=project_qkv,
        attend_many=attend_many,
        add_projection=add_projection,
        gate=gate,
        tiles=partial(Tiles.of_prefill, size=operations.TILE_QUERIES),
    )
    return ops, None


def attend_many(
    q_RTQD: torch.Tensor,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    places: Places,
    table_RM: torch.Tensor,
    *,
    scale: float,
) -> torch.Tensor:
    """a_RTQD; see `operations.attend_many`. Padding has no tile, and zeros."""
    flat_NQD = q_RTQD.flatten(0, 1)
    return operations.attend(flat_NQD, k_PKSD, v_PKSD, places.tiles, scale, table_SM=table_RM).view_as(q_RTQD)


def add_projection(
    a_NA: torch.Tensor, weight_HA: torch.Tensor, x_NH: torch.Tensor, norm_H: torch.Tensor, *, epsilon: float
) -> torch.Tensor:
    """h_NH, and x_NH in place; see `operations.add_projection`."""
    x_NH.add_(product(a_NA, weight_HA))
    return operations.norm(x_NH, norm_H, epsilon)


def gate(h_NH: torch.Tensor, weight_2IH: torch.Tensor) -> torch.Tensor:
    """g_NI; see `operations.gate`."""
    return operations.gate(*product(h_NH, weight_2IH).chunk(2, dim=-1))
