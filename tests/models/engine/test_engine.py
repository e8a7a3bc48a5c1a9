"""The engine by its own doors: requests that come and go while others run."""

import numpy as np
import pytest
import torch

from opd.models.engine.engine import Engine
from opd.models.engine.operations import TORCH
from opd.models.engine.persistent.program import LaunchFailed
from opd.models.engine.requests import Request, State
from opd.models.engine.room import Room, Size
from opd.models.engine.step import decode_step
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.noise import uniforms

PROMPTS = ((305, 308, 7), (44,), (305, 308, 250, 251, 17), (305, 308, 7))


def request(row: int, *, limit: int = 12) -> Request:
    noise = uniforms(seed=1, row=row, epoch=0, tokens=limit).numpy()
    return Request(name=f"row {row}", prompt_ids=PROMPTS[row % len(PROMPTS)], uniforms_T=noise)


def engine_of(
    model: LanguageModel, *, rows: int = 4, page_tokens: int = 4, pages: int = 40, window: int = 3
) -> Engine:
    size = Size(rows=rows, sequence_tokens=20, page_tokens=page_tokens, pages=pages, window=window, in_order=False)
    room = Room.of(model, Sampling(limit_tokens=12), size)

    def step(count: int, longest: int) -> None:
        decode_step(room, TORCH, rows=count, longest=longest)

    return Engine(room, TORCH, step, chunk_tokens=8, stop_ids=model.stop_ids)


def finished(engine: Engine, requests: list[Request]) -> list[list[int]]:
    engine.submit(requests)
    while engine.schedule.busy:
        engine.window()
    return [one.token_ids for one in requests]


def test_requests_that_come_while_others_run_draw_what_they_would_have_drawn_alone(make_decoder):
    model = make_decoder("qwen2")
    alone = [finished(engine_of(model), [request(row)])[0] for row in range(6)]
    engine = engine_of(model)
    requests = [request(row) for row in range(6)]
    for one in requests:
        engine.submit([one])
        engine.window()
    while engine.schedule.busy:
        engine.window()
    assert [one.token_ids for one in requests] == alone


def test_a_cancelled_request_stops_where_it_is_and_changes_nothing_for_the_others(make_decoder):
    """One while it runs, one while it waits; neither comes back, and their pages are free again."""
    model = make_decoder("qwen2")
    alone = [finished(engine_of(model), [request(row)])[0] for row in range(6)]
    engine = engine_of(model, rows=3)
    requests = [request(row) for row in range(6)]
    engine.submit(requests)
    engine.window()
    assert requests[1].state is State.RUNNING
    assert requests[5].state is State.WAITING
    engine.cancel([requests[1], requests[5]])
    while engine.schedule.busy:
        engine.window()
    assert [requests[row].state for row in (1, 5)] == [State.CANCELLED, State.CANCELLED]
    assert requests[1].token_ids == alone[1][:3]
    assert requests[5].token_ids == []
    assert [requests[row].token_ids for row in (0, 2, 3, 4)] == [alone[row] for row in (0, 2, 3, 4)]
    assert engine.schedule.free_pages == 40
    engine.cancel(requests)  # what has ended stays as it ended
    assert requests[0].state in {State.STOPPED, State.LIMITED}


def test_a_launch_that_is_refused_within_a_window_is_gone_on_from(make_decoder):
    """The persistent kernel has done two steps of the window's three; the third and all others are the graphs'."""
    model = make_decoder("qwen2")
    expected = finished(engine_of(model), [request(row) for row in range(4)])
    engine = engine_of(model)

    class Refused:
        def begin(self) -> None: ...

        def put_back(self, running) -> None: ...

        def takes(self, running) -> bool:
            return True

        def run(self, running, times) -> None:
            longest = max(one.tokens for one in running)
            for tick in range(2):
                engine._step(len(running), longest + tick)
            error = LaunchFailed("too many blocks in cooperative launch")
            error.steps = 2
            raise error

    engine._persistent = Refused()
    with pytest.warns(UserWarning, match="too many blocks"):
        assert finished(engine, [request(row) for row in range(4)]) == expected
    assert engine._persistent is None


def test_weights_that_change_in_the_middle_are_used_for_every_key(make_decoder):
    """E41: told to forget, the engine computes the keys of what it drew before anew."""
    model = make_decoder("qwen2")
    engine, one = engine_of(model), request(2)
    engine.submit([one])
    engine.window()
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.1)
    engine.forget()
    drawn = list(one.token_ids)
    engine.window()
    after = request(2)
    after.token_ids = list(drawn)
    fresh = engine_of(model)
    fresh.submit([after])
    fresh.window()
    assert one.token_ids == after.token_ids
    assert one.logp[len(drawn) :] == after.logp


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_no_more_run_at_once_than_there_are_rows(rows, make_decoder):
    engine = engine_of(make_decoder("qwen2"), rows=rows)
    engine.submit([request(row) for row in range(7)])
    most = 0
    while engine.schedule.busy:
        engine.window()
        most = max(most, len(engine.schedule.running))
    assert most == rows


def test_rows_behind_the_running_ones_touch_nobodys_page_alone(make_decoder):
    """A step over more rows than run, as a captured graph makes it, changes no page of a sequence."""
    model = make_decoder("qwen2")
    engine = engine_of(model, rows=4)
    room = engine._room
    wide = engine_of(model, rows=4)
    wide_room = wide._room
    wide._step = lambda rows, longest: decode_step(wide_room, TORCH, rows=4, longest=longest)
    first, second = ([request(row) for row in range(3)] for _ in range(2))
    assert finished(engine, first) == finished(wide, second)
    for narrow, whole in zip(room.pools.keys, wide_room.pools.keys, strict=True):
        torch.testing.assert_close(narrow[:-1], whole[:-1])


def test_what_is_drawn_needs_no_look_of_the_host_within_a_window(make_decoder):
    """One window for the whole answer: a single write and a single read of the board."""
    model = make_decoder("qwen2")
    engine = engine_of(model, window=12)
    one = request(0)
    engine.submit([one])
    engine.window()
    assert one.state.ended
    assert one.token_ids == finished(engine_of(model, window=1), [request(0)])[0]
    assert np.isfinite(one.logp).all()
