"""Continuous batching on the host: which requests run, in which row, with which pages.

    a turn:  ended ones leave ──► the others get pages for the next tokens; when there are too few, the newest
             go back to the head of the queue ──► rows are closed up ──► waiting ones enter while there is room

A preempted request keeps its tokens and their log-probabilities; its keys and values are computed again when it
enters again. Its noise is a function of the position, so it goes on with the tokens that it would have drawn.
Rollouts of one prompt share the full pages of it: who enters finds a running sibling and takes those pages too.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from opd.models.engine.pages import Account, Move
from opd.models.engine.requests import Request, State
from opd.models.engine.room import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A request that has entered, and how it comes to its keys and values."""

    request: Request
    cached_tokens: int  # that a sibling has computed; the rest, but for the newest token, has to be prefilled
    copied: Move | None  # the prompt's last page, partly full, from the sibling's to its own


class Schedule:
    """Those that wait and those that run; the place of a request in `running` is its row."""

    def __init__(self, size: Size) -> None:
        if size.in_order and size.pages != size.rows:
            raise ValueError(f"one page a row, and {size.rows} rows with {size.pages} pages")
        self.running: list[Request] = []
        self._waiting: deque[Request] = deque()
        self._size = size
        self._account = Account(size.pages)

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._waiting or self.running)

    @property
    def free_pages(self) -> int:
        """Pages that nobody holds."""
        return self._account.free

    def add(self, requests: Iterable[Request]) -> None:
        """They wait, in this order. `ValueError` for one that would not fit if it were alone."""
        for request in requests:
            if not self._size.holds(request.most_tokens):
                raise ValueError(f"{request.name}: no room for {request.most_tokens} tokens in {self._size}")
            self._waiting.append(request)

    def cancel(self, request: Request) -> None:
        """It draws nothing more, unless it has ended already, and leaves with the next turn; what it drew stays."""
        if request.state is State.WAITING:
            self._waiting.remove(request)
        if not request.state.ended:
            request.state = State.CANCELLED

    def clear(self) -> None:
        """Nothing waits and nothing runs."""
        self.preempt_all()
        self._waiting.clear()

    def preempt_all(self) -> None:
        """Nothing runs, and nothing is cached; what ran is at the head of the queue."""
        while self.running:
            self._preempt()

    def turn(self) -> tuple[list[Move], list[Entry]]:
        """What runs next is settled: the pages that have to be copied first, and the requests that have entered."""
        moves = self._leave()
        for request in list(self.running):
            if request.state is State.RUNNING:  # not preempted by one before it
                self._grow(request)
        return moves, self._enter()

    def _leave(self) -> list[Move]:
        """Those that have ended are gone, and the rows are closed up."""
        ended = [row for row, request in enumerate(self.running) if request.state.ended]
        for row in ended:
            self._drop_pages(self.running[row])
        if not self._size.in_order:
            self.running = [request for request in self.running if not request.state.ended]
            return []
        moves = []
        for row in ended:  # the lowest free page is that of the first gap: row and page keep one number
            while self.running and self.running[-1].state.ended:
                self.running.pop()
            if row >= len(self.running):
                break
            last = self.running.pop()
            (target,), (source,) = self._account.take(1), last.pages
            self._account.give_back([source])
            last.pages = [target]
            self.running[row] = last
            moves.append(Move(source=source, target=target, tokens=last.tokens - 1))
        return moves

    def _grow(self, request: Request) -> None:
        """It has pages for a window's tokens, for which the newest may have to go; or it is itself preempted."""
        missing = self._pages_for(request) - len(request.pages)
        while missing > self._account.free:
            if self._preempt() is request:
                return
        request.pages += self._account.take(missing)

    def _preempt(self) -> Request:
        """The newest running request waits at the head of the queue; an ended one leaves."""
        request = self.running.pop()
        self._drop_pages(request)
        if not request.state.ended:
            request.state = State.WAITING
            self._waiting.appendleft(request)
        return request

    def _enter(self) -> list[Entry]:
        siblings: dict[tuple[int, ...], Request] = {}
        for request in self.running:
            siblings.setdefault(request.prompt_ids, request)
        entries = []
        while self._waiting and len(self.running) < self._size.rows:
            request = self._waiting[0]
            entry = self._entry(request, siblings.get(request.prompt_ids))
            if entry is None:
                break
            self._waiting.popleft()
            request.state = State.RUNNING
            self.running.append(request)
            siblings.setdefault(request.prompt_ids, request)
            entries.append(entry)
        return entries

    def _entry(self, request: Request, sibling: Request | None) -> Entry | None:
        """The request has its pages; None when too few are free, now or for the next pages of those that run."""
        cached = 0 if sibling is None else len(request.prompt_ids) - 1
        full, rest = divmod(cached, self._size.page_tokens)
        shared = [] if sibling is None else sibling.pages[:full]
        growing = sum(len(one.pages) < self._page_count(one.most_tokens - 1) for one in self.running)
        missing = self._pages_for(request) - full
        if missing + growing > self._account.free:
            return None
        own = self._account.take(missing)
        self._account.share(shared)
        request.pages = [*shared, *own]
        copied = (
            Move(source=sibling.pages[full], target=own[0], tokens=rest) if sibling is not None and rest else None
        )
        return Entry(request=request, cached_tokens=cached, copied=copied)

    def _drop_pages(self, request: Request) -> None:
        self._account.give_back(request.pages)
        request.pages = []

    def _pages_for(self, request: Request) -> int:
        """Pages that it holds at the end of the next window; the token that is drawn last is never stored."""
        return self._page_count(min(request.tokens + self._size.window, request.most_tokens) - 1)

    def _page_count(self, tokens: int) -> int:
        return max(1, -(-tokens // self._size.page_tokens))
