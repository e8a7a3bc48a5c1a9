"""Time: the seconds of each phase of a step, and when the run has to end."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from opd.models.machine import synchronise
from opd.records.metrics import StopCause
from opd.records.settings import Settings

SLACK = 1.2  # the next step or save may take this much longer than the slowest so far


class BudgetSettings(Settings):
    """When the run ends: whichever comes first."""

    steps: PositiveInt
    """Updates."""
    epochs: PositiveInt | None = None
    """Times through the data; null for no limit."""
    max_wall_seconds: PositiveFloat | None = None
    """Seconds from the start of the process, imports, fetching and loading included; null for no limit."""
    reserve_seconds: NonNegativeFloat = 0.0
    """Kept free at the end of the wall clock, so that the last checkpoint is whole."""

    def last_step(self, *, rows: int, prompts_per_step: int) -> int:
        """The step at which `steps` or `epochs` ends the run."""
        if self.epochs is None:
            return self.steps
        return min(self.steps, max(1, self.epochs * rows // prompts_per_step))


class Spent(Settings):
    """What a run has used of its time so far."""

    seconds: NonNegativeFloat
    """Since the process began; time between two tries is not counted."""
    slowest_step_seconds: NonNegativeFloat
    slowest_save_seconds: NonNegativeFloat


class Budget:
    """How much of what was asked for is left. The wall clock runs from `began`, by `now`; None: from construction."""

    def __init__(
        self, settings: BudgetSettings, *, now: Callable[[], float] = time.monotonic, began: float | None = None
    ) -> None:
        self._settings = settings
        self._now = now
        self._start = now() if began is None else began
        self._before = 0.0
        self._slowest_step = 0.0
        self._slowest_save = 0.0

    @property
    def seconds(self) -> float:
        """Since the run began, earlier tries included."""
        return self._before + self._now() - self._start

    @property
    def left_seconds(self) -> float | None:
        """Until the reserve begins; None without a wall clock."""
        limit = self._settings.max_wall_seconds
        return None if limit is None else limit - self._settings.reserve_seconds - self.seconds

    @property
    def spent(self) -> Spent:
        """What a resumed run has to know of this one's time."""
        return Spent(
            seconds=self.seconds,
            slowest_step_seconds=self._slowest_step,
            slowest_save_seconds=self._slowest_save,
        )

    def resume(self, spent: Spent) -> None:
        """Counts on from what earlier tries have used."""
        self._before = spent.seconds
        self.stepped(spent.slowest_step_seconds)
        self.saved(spent.slowest_save_seconds)

    def stepped(self, seconds: float) -> None:
        """Takes note of what a step took, without its saving."""
        self._slowest_step = max(self._slowest_step, seconds)

    def saved(self, seconds: float) -> None:
        """Takes note of what saving took after a step."""
        self._slowest_save = max(self._slowest_save, seconds)

    def cause(self, step: int, *, last_step: int) -> StopCause | None:
        """Why the run ends after this step, or None: saving it, another step, and saving that one still fit.

        That is said by the slowest so far. A first save has none before it: `reserve_seconds` is for that one.
        """
        if step >= last_step:
            return StopCause.STEPS if step >= self._settings.steps else StopCause.EPOCHS
        if (left := self.left_seconds) is None:
            return None
        needed = SLACK * (self._slowest_step + 2 * self._slowest_save)
        return StopCause.WALL_CLOCK if needed >= left else None


class Phases:
    """The seconds of one step, by phase."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._start = time.perf_counter()
        self._phase_start = self._start
        self.seconds: dict[str, float] = {}
        self.current: str | None = None  # the phase at hand; stays when an exception leaves it

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What runs inside is counted under this name, with the device's work awaited."""
        self.current = name
        self._phase_start = time.perf_counter()
        yield
        synchronise(self._device)
        self.seconds = self.so_far()
        self.current = None

    def so_far(self) -> dict[str, float]:
        """The seconds of each phase, of the one at hand until now."""
        if self.current is None:
            return self.seconds
        elapsed = time.perf_counter() - self._phase_start
        return {**self.seconds, self.current: self.seconds.get(self.current, 0.0) + elapsed}

    def with_total(self) -> dict[str, float]:
        """The seconds of each phase, and of the whole step so far as `total`."""
        return {**self.so_far(), "total": self.total()}

    def total(self) -> float:
        """Seconds since the step began."""
        return time.perf_counter() - self._start


@dataclass(slots=True, kw_only=True)
class Progress:
    """Where a run is, for whoever has to say where it broke."""

    step: int = 0
    phases: Phases | None = None

    def begin(self, step: int, *, device: str) -> Phases:
        """The phases of this step, which begins now."""
        self.step = step
        self.phases = Phases(device)
        return self.phases

    @property
    def phase(self) -> str | None:
        """The phase at hand, or that an exception left; None between phases."""
        return self.phases.current if self.phases else None
