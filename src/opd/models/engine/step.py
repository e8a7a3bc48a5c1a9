"""One decode step: every running sequence has one token more. docs/engine.md draws it.

The order of the operations, once, for every device; what an operation does is in `operations.py`, or for CUDA in
`kernels/`. Everything that a step reads or writes beyond its own intermediates has a fixed place: weights, pools,
board. So a step can be captured in a graph, for the first 1, 2, 4, … rows of the board.
"""

from collections.abc import Callable

import torch

from opd.models.engine.operations import Operations, Places
from opd.models.engine.room import Room
from opd.models.engine.weights import Layer

Step = Callable[[int, int], None]  # (rows, longest): one step of the board's first rows, of at most so many keys
Mix = Callable[[torch.Tensor, Layer, torch.Tensor, torch.Tensor], torch.Tensor]  # (h_NH, layer, keys, values) → a_NA


@torch.inference_mode()
def decode_step(room: Room, ops: Operations, *, rows: int, longest: int) -> None:
    """The first rows of the board have drawn a token each and are ready for the next; no row has more keys."""
    board = room.board.first(rows)
    table_BM = None if room.size.in_order else board.table_BM
    places = located(room, ops, board.position_B.unsqueeze(1), board.table_BM, longest=longest)
    epsilon, scale = room.shape.epsilon, room.shape.scale

    def mix(h_BH: torch.Tensor, layer: Layer, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return ops.mix(h_BH, layer.qkv, places, keys, values, table_BM, epsilon=epsilon, scale=scale)

    h_BH = through_layers(room, ops, board.ids_B, mix)
    uniform_B = board.uniform_BW.index_select(1, board.tick).squeeze(1)
    choice = ops.choose(h_BH, room.weights.head_VH, uniform_B, room.sampling)
    ops.advance(board, choice, room.stop_V)


def located(
    room: Room, ops: Operations, position_RT: torch.Tensor, table_RM: torch.Tensor, *, longest: int
) -> Places:
    """Where the tokens at these positions stand in the room's pages."""
    return ops.locate(
        position_RT,
        table_RM,
        room.cos_LD,
        room.sin_LD,
        page_tokens=room.size.page_tokens,
        key_heads=room.shape.key_heads,
        longest=longest,
    )


def through_layers(room: Room, ops: Operations, ids_N: torch.Tensor, mix: Mix) -> torch.Tensor:
    """h_NH behind the last norm; the pools hold the tokens' keys and values."""
    weights, pools, epsilon = room.weights, room.pools, room.shape.epsilon
    following = [layer.norm_H for layer in weights.layers[1:]] + [weights.norm_H]
    x_NH = ops.embed(ids_N, weights.embedding_RH)
    h_NH = ops.norm(x_NH, weights.layers[0].norm_H, epsilon)
    for layer, keys, values, norm_H in zip(weights.layers, pools.keys, pools.values, following, strict=True):
        a_NA = mix(h_NH, layer, keys, values)
        h_NH = ops.add_projection(a_NA, layer.out_HA, x_NH, layer.mlp_norm_H, epsilon=epsilon)
        g_NI = ops.gate(h_NH, layer.gate_up_2IH)
        h_NH = ops.add_projection(g_NI, layer.down_HI, x_NH, norm_H, epsilon=epsilon)
    return h_NH
