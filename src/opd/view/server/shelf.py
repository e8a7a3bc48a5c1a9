"""What was worked out from a file, kept while the file stays as it was; the least used goes first."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock, RLock
from typing import Generic, TypeVar

from opd.view.server.answers import Busy

V = TypeVar("V")


class Shelf(Generic[V]):
    """At most `most` values by key. Who asks for one that is being made waits for it, with `waiting` so many at most.

    Who waits holds a thread of the server; where making takes seconds, a page that is loaded again and again would
    take all of them.
    """

    def __init__(self, most: int, *, waiting: int | None = None) -> None:
        self._most = most
        self._most_waiting = waiting
        self._waiting: Counter[Hashable] = Counter()
        self._kept: OrderedDict[Hashable, tuple[Hashable, V]] = OrderedDict()
        self._making: dict[Hashable, RLock] = {}
        self._lock = Lock()

    def get(self, key: Hashable, state: Hashable, make: Callable[[V | None], V]) -> V:
        """The value that was made in this state of the file; else `make`, given the value of the state before."""
        with self._lock:
            if self._most_waiting is not None and self._waiting[key] > self._most_waiting:
                raise Busy("this is being worked out, and others wait for it already; ask again in a while")
            self._waiting[key] += 1
            making = self._making.setdefault(key, RLock())
        try:
            return self._got(key, state, make, making)
        finally:
            with self._lock:
                self._waiting[key] -= 1
                self._waiting += Counter()  # drops what is zero

    def _got(self, key: Hashable, state: Hashable, make: Callable[[V | None], V], making: RLock) -> V:
        with making:
            with self._lock:
                before = self._kept.get(key)
                if before is not None and before[0] == state:
                    self._kept.move_to_end(key)
                    return before[1]
            made = make(None if before is None else before[1])
            with self._lock:
                self._kept[key] = (state, made)
                self._kept.move_to_end(key)
                while len(self._kept) > self._most:
                    gone, _ = self._kept.popitem(last=False)
                    self._making.pop(gone, None)
        return made
