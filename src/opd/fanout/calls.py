"""Pieces of work that are handed out: which are due, which have failed, and whose answers are not seen here yet.

due ──handed out──► at work ──answered──► looked for ──seen──► over
 ▲                     │                      │
 └───── failed once ◄──┴── failed ◄───────────┘ not within SEEN_SECONDS        what failed twice is over, too
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MOST_TRIES = 2
SEEN_SECONDS = 90.0  # so long may a network's file system keep from one machine what another has written

Fault = Callable[["Call", Any], str | None]
"""Says of an answer why it does not count, as far as is seen here now; None when it does. It waits for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """One piece of work: what it is called where it fails, and what `do` is given."""

    name: str
    values: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a call: an answer, or the last error of those that it met."""

    call: Call
    answer: Any = None
    error: str | None = None


class Calls:
    """The calls of one piece of work; `say` is told of a failure that has another try."""

    def __init__(
        self, calls: Sequence[Call], *, say: Callable[[str], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._due = deque(calls)
        self._failures: dict[Call, int] = dict.fromkeys(calls, 0)
        self._unseen: dict[Call, tuple[Any, float]] = {}  # its answer, and since when that is looked for
        self._say = say
        self._now = now

    @property
    def are_due(self) -> bool:
        """Whether one can be handed out."""
        return bool(self._due)

    @property
    def are_looked_for(self) -> bool:
        """Whether an answer is not seen yet."""
        return bool(self._unseen)

    def next(self) -> Call:
        """One that is at work from now on."""
        return self._due.popleft()

    def stop(self) -> None:
        """None is handed out any more."""
        self._due.clear()

    def answered(self, call: Call, answer: Any) -> None:
        """The call has an answer, which is looked for."""
        self._unseen[call] = answer, self._now()

    def failed(self, call: Call, error: str, *, for_good: bool = False) -> Iterator[Outcome]:
        """The call has another try; without one, here is its outcome."""
        self._failures[call] += 1
        if for_good or self._failures[call] >= MOST_TRIES:
            yield Outcome(call=call, error=error)
        else:
            self._say(f"{call.name} failed and is tried again: {error}")
            self._due.append(call)

    def seen(self, fault: Fault) -> Iterator[Outcome]:
        """What is over after one look at all answers that were not seen before."""
        for call, (answer, since) in tuple(self._unseen.items()):
            error = fault(call, answer)
            if error is not None and self._now() - since <= SEEN_SECONDS:
                continue
            del self._unseen[call]
            if error is None:
                yield Outcome(call=call, answer=answer)
            else:
                yield from self.failed(call, error)
