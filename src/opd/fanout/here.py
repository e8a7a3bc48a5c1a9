"""This process in the place of a pool: one call after the other, with the same rules."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opd.fanout.calls import MOST_TRIES, Call, Fault, Outcome
from opd.records.errors import AskedWrongly, OpdError


class Here:
    """Works by itself."""

    def __init__(self, do: Callable[[Any], Any], *, say: Callable[[str], None] = lambda _: None) -> None:
        self._do = do
        self._say = say

    def work(
        self,
        calls: Sequence[Call],
        *,
        interrupted: Callable[[], bool] = lambda: False,
        fault: Fault = lambda *_: None,
    ) -> Iterator[Outcome]:
        """See `Pool.work`; a call that failed waits until the others had their turn."""
        due = deque((call, 1) for call in calls)
        while due and not interrupted():
            call, tries = due.popleft()
            answer, error, again = self._tried(call)
            error = error or fault(call, answer)
            if error is None:
                yield Outcome(call=call, answer=answer)
            elif interrupted():
                return
            elif tries == MOST_TRIES or not again:
                yield Outcome(call=call, error=error)
            else:
                self._say(f"{call.name} failed and is tried again: {error}")
                due.append((call, tries + 1))

    def _tried(self, call: Call) -> tuple[Any, str | None, bool]:
        """The answer, or the error and whether another try may help."""
        try:
            return self._do(call.values), None, True
        except (OpdError, OSError) as error:
            return None, f"{type(error).__name__}: {error}", not isinstance(error, AskedWrongly)
