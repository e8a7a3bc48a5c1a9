"""Time that can be defended: three clocks, what was used of a budget, and when it ends.

    monotonic   never set, stands still while the machine sleeps: what a budget is charged by
    boottime    goes on while the machine sleeps: their difference is how long it slept
    realtime    what people and files say; may be set, so it is written down and never charged by

A budget survives suspension: sleep is recorded and not charged. A clock that somebody set is recorded as a step.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pydantic import NonNegativeFloat

from opd.records.settings import Settings

NOTICED_SECONDS = 2.0  # a difference between two clocks that is smaller than this is drift, not an event

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Instant(Settings):
    """One moment, by all clocks of one machine since it started."""

    utc: str
    """2026-01-31T12:00:00.000Z."""
    realtime: float
    """Seconds since 1970."""
    monotonic: float
    boottime: float
    boot_id: str
    """Which start of the machine the two count from; empty where the system doesn't say."""

    def seconds_until(self, later: Self) -> float:
        """Active seconds between two moments of one start of the machine, else by the calendar."""
        if self.boot_id == later.boot_id:
            return later.monotonic - self.monotonic
        return later.realtime - self.realtime


def now() -> Instant:
    """This moment."""
    realtime = time.time()
    return Instant(
        utc=utc(realtime),
        realtime=realtime,
        monotonic=time.monotonic(),
        boottime=time.clock_gettime(time.CLOCK_BOOTTIME),
        boot_id=boot_id(),
    )


def utc(realtime: float) -> str:
    """A moment in seconds since 1970 as UTC to the millisecond, with a Z."""
    return datetime.fromtimestamp(realtime, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def boot_id() -> str:
    """What tells one start of the machine from the next; empty where the system doesn't say."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


class Gap(Settings):
    """Two clocks that went apart between two looks at them."""

    kind: str
    """`suspended`: the machine slept; `clock_step`: somebody set the calendar clock."""
    seconds: float
    at: Instant


class Stopwatch:
    """Active seconds since it was made; asked at least every few seconds, it notices sleep and set clocks."""

    def __init__(self, *, read: Callable[[], Instant] = now) -> None:
        self._read = read
        self.began = read()
        self._last = self.began
        self.gaps: list[Gap] = []

    def tick(self) -> tuple[Gap, ...]:
        """What has happened to the clocks since the last tick."""
        before, at = self._last, self._read()
        active = at.monotonic - before.monotonic
        slept = (at.boottime - before.boottime) - active
        stepped = (at.realtime - before.realtime) - active - slept
        found = {"suspended": slept, "clock_step": stepped}
        new = tuple(
            Gap(kind=kind, seconds=seconds, at=at)
            for kind, seconds in found.items()
            if abs(seconds) >= NOTICED_SECONDS
        )
        self._last = at
        self.gaps += new
        return new

    @property
    def active_seconds(self) -> NonNegativeFloat:
        """Charged so far: sleep is not."""
        return self._read().monotonic - self.began.monotonic

    @property
    def suspended_seconds(self) -> NonNegativeFloat:
        """Slept, as far as ticks have noticed."""
        return sum(gap.seconds for gap in self.gaps if gap.kind == "suspended")


class Deadline:
    """The end of a budget of active seconds."""

    def __init__(self, watch: Stopwatch, *, seconds: float) -> None:
        self.watch = watch
        self.seconds = seconds

    def left(self) -> float:
        """Active seconds until then; negative afterwards."""
        return self.seconds - self.watch.active_seconds
