"""Rows and pages: simulated with a cache of token ids, in which every wrong copy, page or position shows.

A slot of the cache holds the ids of the whole sequence up to its token, so that a key that was computed behind
other tokens is not taken for the right one.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.models.engine.pages import Account, Move
from opd.models.engine.requests import Request, State
from opd.models.engine.room import Size
from opd.models.engine.schedule import Schedule


def request(prompt: tuple[int, ...], limit: int, name: str = "one") -> Request:
    return Request(name=name, prompt_ids=prompt, uniforms_T=np.zeros(limit))


def size(*, rows=4, page_tokens=4, pages=16, window=3, in_order=False, sequence_tokens=32) -> Size:
    return Size(
        rows=rows,
        sequence_tokens=sequence_tokens,
        page_tokens=page_tokens,
        pages=pages,
        window=window,
        in_order=in_order,
    )


@dataclass
class Cache:
    """Pools that remember for each slot the ids up to and with its token."""

    page_tokens: int
    slots: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    def move(self, move: Move) -> None:
        for offset in range(move.tokens):
            self.slots[move.target, offset] = self.slots[move.source, offset]

    def write(self, one: Request, start: int, end: int) -> None:
        for position in range(start, end):
            page = one.pages[position // self.page_tokens]
            self.slots[page, position % self.page_tokens] = one.ids(0, position + 1)

    def check(self, one: Request, end: int) -> None:
        for position in range(end):
            page = one.pages[position // self.page_tokens]
            assert self.slots[page, position % self.page_tokens] == one.ids(0, position + 1)


@dataclass
class Simulation:
    """A schedule whose requests draw the ids 1000, 1001, … up to a length of their own."""

    schedule: Schedule
    size: Size
    lengths: dict[Request, int]
    cache: Cache = field(init=False)

    def __post_init__(self) -> None:
        self.cache = Cache(self.size.page_tokens)

    def turn(self) -> None:
        moves, entries = self.schedule.turn()
        for move in moves:
            self.cache.move(move)
        fresh = [entry for entry in entries if not entry.cached_tokens]
        others = [entry for entry in entries if entry.cached_tokens]
        for entry in fresh:
            self.cache.write(entry.request, 0, entry.request.tokens - 1)
        for entry in others:
            if entry.copied is not None:
                self.cache.move(entry.copied)
            self.cache.write(entry.request, entry.cached_tokens, entry.request.tokens - 1)
        self._check_pages()
        for step in range(self.size.window):
            for one in self.schedule.running:
                if one.state is State.RUNNING:
                    self.cache.write(one, one.tokens - 1, one.tokens)
                    self.cache.check(one, one.tokens)
                    one.token_ids.append(1000 + len(one.token_ids) + 100 * step)
                    if len(one.token_ids) == self.lengths[one]:
                        one.state = State.STOPPED
                    elif not one.left_tokens:
                        one.state = State.LIMITED

    def _check_pages(self) -> None:
        running = self.schedule.running
        assert len(running) <= self.size.rows
        assert all(one.state is State.RUNNING for one in running)
        held = Counter(page for one in running for page in one.pages)
        assert self.schedule.free_pages == self.size.pages - len(held)
        assert all(0 <= page < self.size.pages for page in held)
        for one in running:
            needed = min(one.tokens + self.size.window, one.most_tokens) - 1
            assert len(one.pages) * self.size.page_tokens >= needed
            own = one.pages[(len(one.prompt_ids) - 1) // self.size.page_tokens :]
            assert all(held[page] == 1 for page in own)  # what is written to has one holder
        if self.size.in_order:
            assert [one.pages for one in running] == [[row] for row in range(len(running))]


@st.composite
def simulations(draw: st.DrawFn) -> Simulation:
    prompts = draw(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9).map(tuple), min_size=1, max_size=4))
    limit = draw(st.integers(1, 9))
    rows, window = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    in_order = draw(st.booleans())
    longest = max(map(len, prompts)) + limit
    page_tokens = longest if in_order else draw(st.integers(1, 6))
    least = -(-longest // page_tokens)
    pages = rows if in_order else draw(st.integers(least, 4 * least))
    room = size(
        rows=rows,
        page_tokens=page_tokens,
        pages=pages,
        window=window,
        in_order=in_order,
        sequence_tokens=longest,
    )
    requests = [request(prompt, limit, f"row {row}") for row, prompt in enumerate(prompts) for _ in range(3)]
    lengths = {one: draw(st.integers(1, limit + 2)) for one in requests}
    schedule = Schedule(room)
    schedule.add(requests)
    return Simulation(schedule=schedule, size=room, lengths=lengths)


@given(simulations())
def test_every_request_ends_and_every_key_is_where_and_what_it_should_be(simulation):
    turns = 0
    while simulation.schedule.busy:
        simulation.turn()
        turns += 1
        assert turns < 1000
    for one, length in simulation.lengths.items():
        assert one.state is (State.STOPPED if length <= len(one.uniforms_T) else State.LIMITED)
        assert len(one.token_ids) == min(length, len(one.uniforms_T))
    simulation.schedule.turn()
    assert simulation.schedule.free_pages == simulation.size.pages


@given(simulations(), st.data())
def test_cancelled_requests_leave_with_what_they_have_and_disturb_nobody(simulation, data):
    for _ in range(3):
        simulation.turn()
        open_ones = [one for one in simulation.lengths if not one.state.ended]
        if not open_ones:
            return
        one = data.draw(st.sampled_from(open_ones))
        drawn = list(one.token_ids)
        simulation.schedule.cancel(one)
        assert one.state is State.CANCELLED
        simulation.turn()
        assert one not in simulation.schedule.running
        assert one.token_ids == drawn
    while simulation.schedule.busy:
        simulation.turn()
    ended = [one for one in simulation.lengths if one.state is not State.CANCELLED]
    assert all(len(one.token_ids) == min(simulation.lengths[one], len(one.uniforms_T)) for one in ended)


@given(simulations())
def test_what_is_dropped_is_computed_again(simulation):
    """E41's half of the host: after weights have changed nothing that was cached is read."""
    simulation.turn()
    ran = [one for one in simulation.schedule.running if not one.state.ended]
    simulation.schedule.preempt_all()
    assert simulation.schedule.free_pages == simulation.size.pages
    simulation.cache.slots.clear()
    assert all(one.state is State.WAITING for one in ran)
    while simulation.schedule.busy:
        simulation.turn()
    assert all(one.state.ended for one in simulation.lengths)


def test_a_full_cache_sends_the_newest_away_with_its_tokens():
    """Ten pages of 2, windows of 2: three sequences hold 2 pages each, then 3 each; in the third turn they need 4."""
    room = size(rows=3, page_tokens=2, pages=10, window=2, sequence_tokens=12)
    first, second, third, fourth = requests = [request((row, row), 10, f"row {row}") for row in range(4)]
    schedule = Schedule(room)
    simulation = Simulation(schedule=schedule, size=room, lengths=dict.fromkeys(requests, 99))
    schedule.add(requests)
    for pages in (2, 3):
        simulation.turn()
        assert [len(one.pages) for one in requests] == [pages, pages, pages, 0]
    simulation.turn()
    assert schedule.running == [first, second]
    assert (third.state, third.pages, len(third.token_ids)) == (State.WAITING, [], 4)
    while fourth.state is State.WAITING:
        simulation.turn()
    assert third.state is not State.WAITING  # it came back before one that had never run
    while schedule.busy:
        simulation.turn()
    assert [len(one.token_ids) for one in requests] == [10, 10, 10, 10]


def test_siblings_share_full_pages_and_copy_the_last():
    """A prompt of 7 tokens, 6 of them cached, in pages of 4: one page is shared, 2 tokens of another are copied."""
    schedule = Schedule(size(page_tokens=4))
    schedule.add([request((1, 2, 3, 4, 5, 6, 7), 4) for _ in range(3)])
    _, entries = schedule.turn()
    donor, *siblings = entries
    assert (donor.cached_tokens, donor.copied) == (0, None)
    for entry in siblings:
        assert entry.cached_tokens == 6
        assert entry.request.pages[0] == donor.request.pages[0]
        assert entry.request.pages[1] != donor.request.pages[1]
        assert entry.copied == Move(source=donor.request.pages[1], target=entry.request.pages[1], tokens=2)


def test_a_request_without_room_is_refused_and_so_is_a_room_that_is_not_one():
    schedule = Schedule(size(pages=4, page_tokens=4, sequence_tokens=16))
    with pytest.raises(ValueError, match=r"row 5: no room for 17 tokens in Size\(rows=4"):
        schedule.add([request((1,) * 7, 10, "row 5")])
    with pytest.raises(ValueError, match="one page a row, and 4 rows with 5 pages"):
        Schedule(size(pages=5, in_order=True))


def test_pages_are_taken_from_the_lowest_and_freed_by_their_last_holder():
    account = Account(4)
    assert account.take(3) == [0, 1, 2]
    account.share([1])
    account.give_back([0, 1])
    assert account.free == 2
    assert account.take(1) == [0]
    account.give_back([1])
    assert account.take(2) == [1, 3]
    with pytest.raises(ValueError, match="1 pages asked for, 0 are free"):
        account.take(1)
    with pytest.raises(AssertionError, match="once by each holder"):
        account.give_back([1, 1])
