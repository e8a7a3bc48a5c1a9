"""How far a piece of work has come, and how long the rest of it takes."""

from collections.abc import Callable

from opd.view.words import clock

RECENT = 20  # steps or batches: long enough to be calm, short enough to follow a change of length


class Pace:
    """How far a run has come and how long the rest takes at the pace of its last steps."""

    def __init__(
        self, *, total: int, now: Callable[[], float], limit: Callable[[], float | None] = lambda: None
    ) -> None:
        self.total = total
        self._limit = limit
        self.done = 0
        self._now = now
        self._began = now()
        self._marks: tuple[tuple[float, int, int], ...] = ((self._began, 0, 0),)  # when, how far, work so far

    def start_at(self, done: int) -> None:
        """So much was done by an earlier call: it counts, and says nothing about the pace."""
        self.done = done
        self._marks = ((self._began, done, 0),)

    def reached(self, done: int, *, work: int) -> None:
        """So much is done, with this much work since the last mark."""
        self.done = done
        self._marks = (*self._marks, (self._now(), done, self._marks[-1][2] + work))[-RECENT - 1 :]

    @property
    def elapsed(self) -> float:
        """Seconds since the board was made."""
        return self._now() - self._began

    @property
    def work_per_second(self) -> float:
        """Over the last marks; 0 before the second."""
        (since, _, before), (until, _, after) = self._marks[0], self._marks[-1]
        return (after - before) / (until - since) if until > since else 0.0

    @property
    def left_in_words(self) -> str:
        """`about 0:19 left`, `at most 0:19 left` by the wall clock, or that this is not known yet."""
        if self.done >= self.total:
            return f"done in {clock(self.elapsed)}"
        by_pace, by_limit = self._left_at_this_pace(), self._limit()
        if by_limit is not None and (by_pace is None or by_limit < by_pace):
            return f"at most {clock(by_limit)} left"
        return "time left unknown" if by_pace is None else f"about {clock(by_pace)} left"

    def _left_at_this_pace(self) -> float | None:
        """Seconds; None before the second mark."""
        (since, before, _), (until, after, _) = self._marks[0], self._marks[-1]
        if after <= before or until <= since:
            return None
        return (until - since) / (after - before) * (self.total - after) - (self._now() - until)
