"""Prompts into the cache, a chunk at a time.

Shapes: R sequences of T tokens, N = R T, padded on the right; as in `operations.py` otherwise.

A span is a run of tokens whose predecessors are cached already. Spans of like length go together, a long one goes
in pieces; what is padding is written into nobody's page. Nothing is drawn here: the newest token of a sequence is
left to its first decode step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from opd.models.engine.operations import Operations
from opd.models.engine.pages import Pools
from opd.models.engine.room import Room
from opd.models.engine.step import located, through_layers
from opd.models.engine.weights import Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Tokens whose keys and values are to be computed."""

    ids: tuple[int, ...]
    start: int  # position of the first; those before it are cached
    pages: Sequence[int]  # of the whole sequence

    @property
    def end(self) -> int:
        """Position behind the last."""
        return self.start + len(self.ids)

    def piece(self, number: int, size: int) -> "Span":
        """The part of so many tokens with this number, empty behind the last."""
        first = number * size
        return Span(ids=self.ids[first : first + size], start=self.start + first, pages=self.pages)


@torch.inference_mode()
def prefill(room: Room, ops: Operations, spans: Sequence[Span], *, chunk_tokens: int) -> None:
    """The pools hold keys and values of all spans; at most `chunk_tokens` tokens, padding included, at once."""
    for rectangle in rectangles(spans, chunk_tokens=chunk_tokens):
        _prefill_rectangle(room, ops, rectangle)


def rectangles(spans: Sequence[Span], *, chunk_tokens: int) -> Iterator[list[Span]]:
    """Groups of spans, or of pieces of them, that are computed together; the pieces of one span in order."""
    longest = max((len(span.ids) for span in spans), default=0)
    for number in range(-(-longest // chunk_tokens)):
        pieces = [span.piece(number, chunk_tokens) for span in spans]
        group: list[Span] = []
        for piece in sorted(pieces, key=lambda piece: -len(piece.ids)):
            if group and (len(group) + 1) * len(group[0].ids) > chunk_tokens:
                yield group
                group = []
            if piece.ids:
                group.append(piece)
        if group:
            yield group


def _prefill_rectangle(room: Room, ops: Operations, spans: Sequence[Span]) -> None:
    ids_RT, position_RT, table_RM, padding_N = _tensors(spans, room.pools, device=room.cos_LD.device)
    places = located(room, ops, position_RT, table_RM, longest=max(span.end for span in spans))
    places = replace(
        places, row_NK=_aside(places.row_NK, padding_N, room.pools), tiles=_tiles(ops, spans, ids_RT.shape[1], room)
    )

    def mix(h_NH: torch.Tensor, layer: Layer, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        q_NQD = ops.project_qkv(h_NH, layer.qkv, places, keys, values, epsilon=room.shape.epsilon)
        q_RTQD = q_NQD.unflatten(0, ids_RT.shape)
        return ops.attend_many(q_RTQD, keys, values, places, table_RM, scale=room.shape.scale).reshape(len(h_NH), -1)

    through_layers(room, ops, ids_RT.flatten(), mix)


def _tiles(ops: Operations, spans: Sequence[Span], padded: int, room: Room) -> Any:
    """What the layers' attention shares the queries out by; None where it does not ask."""
    if ops.tiles is None:
        return None
    starts, counts = [span.start for span in spans], [len(span.ids) for span in spans]
    return ops.tiles(starts, counts, padded=padded, device=room.cos_LD.device)


def _tensors(
    spans: Sequence[Span], pools: Pools, *, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(ids_RT, position_RT, table_RM, padding_N); a padded position is that of the last token."""
    longest, most_pages = max(len(span.ids) for span in spans), max(len(span.pages) for span in spans)
    ids_RT = torch.zeros(len(spans), longest, dtype=torch.long)
    table_RM = torch.full((len(spans), most_pages), pools.nobodys, dtype=torch.int32)
    for r, span in enumerate(spans):
        ids_RT[r, : len(span.ids)] = torch.tensor(span.ids)
        table_RM[r, : len(span.pages)] = torch.tensor(span.pages)
    start_R1, count_R1 = (
        torch.tensor(values).unsqueeze(1)
        for values in zip(*((span.start, len(span.ids)) for span in spans), strict=True)
    )
    step_T = torch.arange(longest)
    position_RT = start_R1 + step_T.minimum(count_R1 - 1)
    padding_N = (step_T >= count_R1).flatten()
    ids_RT, position_RT, table_RM, padding_N = (one.to(device) for one in (ids_RT, position_RT, table_RM, padding_N))
    return ids_RT, position_RT, table_RM, padding_N


def _aside(row_NK: torch.Tensor, padding_N: torch.Tensor, pools: Pools) -> torch.Tensor:
    """row_NK, but keys and values of padding go into nobody's page."""
    key_heads = row_NK.shape[1]
    heads_K = torch.arange(key_heads, device=row_NK.device)
    nobodys_K = (pools.nobodys * key_heads + heads_K) * pools.page_tokens
    return torch.where(padding_N.unsqueeze(1), nobodys_K, row_NK)
