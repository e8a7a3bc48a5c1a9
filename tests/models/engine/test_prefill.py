"""A prefill: what its layers are given.

Shapes: R sequences of T tokens.
"""

from dataclasses import replace

import pytest
import torch

from opd.models.engine import prefill as prefills
from opd.models.engine.operations import TORCH
from opd.models.engine.prefill import Span, prefill
from opd.models.engine.room import Room, Size
from opd.models.engine.sampler import EngineSampler
from opd.models.exact.model import exact_model
from opd.models.exact.order import Tiles
from opd.models.interfaces import Sampling

SPANS = [
    Span(ids=tuple(range(7)), start=0, pages=(4, 1)),
    Span(ids=(3, 5), start=9, pages=(2, 0, 3)),
    Span(ids=(8,), start=4, pages=(5, 6)),
]
SIZE = Size(rows=3, sequence_tokens=12, page_tokens=4, pages=8, window=4, in_order=False)


def test_queries_are_shared_out_once_a_rectangle_from_numbers_of_the_host(make_decoder):
    """Two layers, seven tokens beside two: one rectangle, whose layers get one thing; what is left is another."""
    made, seen = [], []

    def share(starts, counts, *, padded, device):
        made.append((starts, counts, padded, str(device)))
        return len(made)

    def attend_many(*given, scale):
        seen.append(given[3].tiles)
        return TORCH.attend_many(*given, scale=scale)

    room = Room.of(make_decoder("qwen2"), Sampling(limit_tokens=4), SIZE)
    prefill(room, replace(TORCH, tiles=share, attend_many=attend_many), SPANS, chunk_tokens=14)
    assert made == [([0, 9], [7, 2], 7, "cpu"), ([4], [1], 1, "cpu")]
    assert seen == [1, 1, 2, 2]


def test_a_tile_has_queries_of_one_sequence_and_none_of_the_padding():
    """By hand: 5 queries from position 0 and 3 from 16, padded to 6, in twos."""
    tiles = Tiles.of_prefill([0, 16], [5, 3], padded=6, size=2, device=torch.device("cpu"))
    assert tiles.tile_sequence.tolist() == [0, 0, 0, 1, 1]
    assert tiles.tile_first.tolist() == [0, 2, 4, 0, 2]
    assert (tiles.query_row.tolist(), tiles.queries.tolist()) == ([0, 6], [5, 3])
    assert tiles.first_position.tolist() == [0, 16]


@pytest.mark.gpu
@pytest.mark.parametrize("persistent", [True, False])
def test_the_layers_of_an_exact_prefill_do_not_wait_for_the_device(make_wide, of_lengths, persistent, monkeypatch):
    model, layers = exact_model(make_wide(layers=2), persistent=persistent), prefills.through_layers
    watched = []

    def watch(*given):
        torch.cuda.set_sync_debug_mode("error")
        try:
            watched.append(1)
            return layers(*given)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(prefills, "through_layers", watch)
    EngineSampler(model, Sampling(limit_tokens=4)).sample(of_lengths(200, 300, 20), seeds=[0])
    assert watched
