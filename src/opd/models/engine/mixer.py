"""`operations.mix` on a CPU, for sequences whose keys lie in order, with every view and every result made once.

A small step on a CPU is a matter of calls, and of the calls of a mix three in five only cut a tensor. Which cuts
they are depends on the number of rows and of keys, so they are made when one of them changes, and then used by
every layer of every step. The arithmetic is that of `operations.py`, to the bit.

Shapes: as in `operations.py`; B = N K products of a row and a key head, F half a head.
"""

from dataclasses import dataclass, replace

import torch

from opd.models.engine.operations import TORCH, Places, hidden, norm
from opd.models.engine.room import Room
from opd.models.engine.step import decode_step
from opd.models.engine.weights import Qkv

SPARE_KEYS = 8  # views are made for a bound that is rounded up to this; the keys behind a position are hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """The views of one layer."""

    weight_HE: torch.Tensor
    k_rows: torch.Tensor  # the pools as rows of a head's numbers, to be written
    v_rows: torch.Tensor
    k_BDL: torch.Tensor  # the keys and values of the rows, to be read
    v_BLD: torch.Tensor


class Mixer:
    """`operations.mix` for the first rows of the room's board, with at most `longest` keys each.

    The room has one page a row, and computes in float32 or float64.
    """

    def __init__(self, room: Room, *, rows: int, longest: int) -> None:
        shape, pools = room.shape, room.pools
        heads, key_heads, half = shape.heads, shape.key_heads, shape.head_size // 2
        products = rows * key_heads
        self.rows, self.longest = rows, longest
        self._layers = {
            id(keys): _Layer(
                weight_HE=layer.qkv.weight_EH.t(),
                k_rows=keys.view(-1, shape.head_size),
                v_rows=values.view(-1, shape.head_size),
                k_BDL=keys[:rows].flatten(0, 1)[:, :longest].transpose(1, 2),
                v_BLD=values[:rows].flatten(0, 1)[:, :longest],
            )
            for layer, keys, values in zip(room.weights.layers, pools.keys, pools.values, strict=True)
        }

        def empty(*size: int) -> torch.Tensor:
            return torch.empty(*size, dtype=pools.keys[0].dtype)

        self._qkv_NE = empty(rows, (heads + 2 * key_heads) * shape.head_size)
        heads_NCD = self._qkv_NE.view(rows, -1, shape.head_size)
        self._q_NQD, self._k_NKD, self._v_NKD = heads_NCD.split([heads, key_heads, key_heads], dim=1)
        self._qk_NCD = heads_NCD[:, : heads + key_heads]
        self._first_NCF, self._second_NCF = self._qk_NCD.split(half, dim=-1)
        self._turned_NCD = empty(rows, heads + key_heads, shape.head_size)
        self._turned_first_NCF, self._turned_second_NCF = self._turned_NCD.split(half, dim=-1)
        self._turned_q_NQD, self._turned_k_NKD = self._turned_NCD.split([heads, key_heads], dim=1)
        self._row_NKD = empty(rows, key_heads, shape.head_size)
        self._row_BD = self._row_NKD.view(products, -1)
        self._query_NQD = empty(rows, heads, shape.head_size)
        self._query_BGD = self._query_NQD.view(products, -1, shape.head_size)
        self._score_BGL = empty(products, heads // key_heads, longest)
        self._score_NQL = self._score_BGL.view(rows, heads, longest)
        self._share_BGL = empty(products, heads // key_heads, longest)
        self._a_BGD = empty(products, heads // key_heads, shape.head_size)
        self._a_NA = self._a_BGD.view(rows, -1)

    def __call__(
        self,
        h_NH: torch.Tensor,
        qkv: Qkv,
        places: Places,
        k_PKSD: torch.Tensor,
        v_PKSD: torch.Tensor,  # noqa: ARG002  the layer is known by its pool of keys
        table_NM: torch.Tensor | None,
        *,
        epsilon: float,
        scale: float,
    ) -> torch.Tensor:
        """a_NA, overwritten by the next call."""
        assert table_NM is None, "the keys lie in order"
        layer = self._layers[id(k_PKSD)]
        if qkv.bias_E is None:
            torch.mm(h_NH, layer.weight_HE, out=self._qkv_NE)
        else:
            torch.addmm(qkv.bias_E, h_NH, layer.weight_HE, out=self._qkv_NE)
        if qkv.q_norm_D is not None and qkv.k_norm_D is not None:
            self._q_NQD.copy_(norm(self._q_NQD, qkv.q_norm_D, epsilon))
            self._k_NKD.copy_(norm(self._k_NKD, qkv.k_norm_D, epsilon))
        self._turn(places)
        row = places.row_NK.view(-1)
        self._row_NKD.copy_(self._turned_k_NKD)
        layer.k_rows.index_copy_(0, row, self._row_BD)
        self._row_NKD.copy_(self._v_NKD)
        layer.v_rows.index_copy_(0, row, self._row_BD)
        self._query_NQD.copy_(self._turned_q_NQD)
        torch.bmm(self._query_BGD, layer.k_BDL, out=self._score_BGL)
        torch.add(hidden(places), self._score_NQL, alpha=scale, out=self._score_NQL)
        torch.softmax(self._score_BGL, dim=-1, out=self._share_BGL)
        torch.bmm(self._share_BGL, layer.v_BLD, out=self._a_BGD)
        return self._a_NA

    def _turn(self, places: Places) -> None:
        cos_N1D, sin_N1D = places.cos_ND.unsqueeze(1), places.sin_ND.unsqueeze(1)
        sin_first_N1F, sin_second_N1F = sin_N1D.chunk(2, dim=-1)
        torch.mul(self._qk_NCD, cos_N1D, out=self._turned_NCD)
        self._turned_first_NCF.addcmul_(self._second_NCF, sin_first_N1F)
        self._turned_second_NCF.addcmul_(self._first_NCF, sin_second_N1F)


class PreparedStep:
    """A `Step` that makes its views anew when another number of rows runs, or keys have come near the last bound."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._mixer: Mixer | None = None

    def __call__(self, rows: int, longest: int) -> None:
        """One step of the board's first rows, which have at most `longest` keys."""
        mixer = self._mixer
        if mixer is None or mixer.rows != rows or not longest <= mixer.longest < longest + SPARE_KEYS:
            bound = min(-(-longest // SPARE_KEYS) * SPARE_KEYS, self._room.size.sequence_tokens)
            mixer = self._mixer = Mixer(self._room, rows=rows, longest=bound)
        decode_step(self._room, replace(TORCH, mix=mixer), rows=rows, longest=mixer.longest)
