"""The engine's prefill by exact operations: a prompt's keys and values are those of the trainer's forward pass.

Shapes: as in `engine/operations.py`.
"""

from dataclasses import replace

import torch

from opd.models.engine.operations import TORCH, Operations, Places
from opd.models.engine.weights import Qkv
from opd.models.exact import operations
from opd.models.exact.operations import Tiles
from opd.models.exact.products import product


def exact_operations(cos_LD: torch.Tensor, sin_LD: torch.Tensor) -> Operations:
    """The table of a room with these tables of its rotation. Steps are the persistent kernel's, so nothing draws."""

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
        turned_NCD = operations.rotate(heads_NCD[:, :-key_heads], cos_LD, sin_LD, position_N)
        row = places.row_NK.view(-1)
        k_PKSD.view(-1, head_size).index_copy_(0, row, turned_NCD[:, -key_heads:].reshape(-1, head_size))
        v_PKSD.view(-1, head_size).index_copy_(0, row, heads_NCD[:, -key_heads:].reshape(-1, head_size))
        return turned_NCD[:, :-key_heads]

    return replace(
        TORCH,
        norm=operations.norm,
        project_qkv=project_qkv,
        attend_many=attend_many,
        add_projection=add_projection,
        gate=gate,
    )


def attend_many(
    q_RTQD: torch.Tensor,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    places: Places,
    table_RM: torch.Tensor,
    *,
    scale: float,  # noqa: ARG001  1 / sqrt(128): `fit.py` asks for it
) -> torch.Tensor:
    """a_RTQD; see `operations.attend_many`. Padding, whose position is that of the last token, is computed too."""
    rows, tokens = q_RTQD.shape[:2]
    first = places.position_RT[:, 0].tolist()
    real = (places.position_RT[:, -1] - places.position_RT[:, 0] + 1).tolist()
    tiles = Tiles.of(
        real, device=q_RTQD.device, query_row=[row * tokens for row in range(rows)], first_position=first
    )
    return operations.attend(q_RTQD.flatten(0, 1), k_PKSD, v_PKSD, tiles, table_SM=table_RM).view_as(q_RTQD)


def add_projection(
    a_NA: torch.Tensor, weight_HA: torch.Tensor, x_NH: torch.Tensor, norm_H: torch.Tensor, *, epsilon: float
) -> torch.Tensor:
    """h_NH, and x_NH in place; see `operations.add_projection`."""
    x_NH.add_(product(a_NA, weight_HA))
    return operations.norm(x_NH, norm_H, epsilon)


def gate(h_NH: torch.Tensor, weight_2IH: torch.Tensor) -> torch.Tensor:
    """g_NI; see `operations.gate`."""
    return operations.gate(*product(h_NH, weight_2IH).chunk(2, dim=-1))
