"""A line for each second of an exploration: what the device did, what ran, and what was left of the time.

device.jsonl       a `Second` each
processes.jsonl    each process when it is first seen
budget.json        shown to the explorer, renewed each second
"""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import NonNegativeFloat

from opd.protocol.clock import now
from opd.protocol.explorer.device import IDLE_SHARE, WINDOW_SECONDS, Gpus, Second
from opd.protocol.explorer.outlook import Outlook
from opd.protocol.supervision.processes import Life
from opd.protocol.supervision.usage import Sample
from opd.protocol.threads import beside
from opd.records.files import note_lines
from opd.records.settings import Settings

_LOOK_SECONDS = 2.0  # between two looks at all processes


class Budget(Settings):
    """budget.json."""

    given_seconds: NonNegativeFloat
    left_seconds: NonNegativeFloat
    used_seconds: NonNegativeFloat
    at_utc: str
    shortest_pipeline_seconds: NonNegativeFloat | None
    """The least that a training with its measurement took so far; null before the first."""
    outlook: Outlook
    """What still fits, and what difference that could find."""


class Ledger:
    """Is told of each second; keeps the sums that the outcome needs."""

    def __init__(
        self,
        folder: Path,
        *,
        budget: Path,
        evaluating: Callable[[], bool],
        outlook: Callable[[], Outlook],
        living: Callable[[], tuple[Life, ...]],
        gpus: Collection[str],
    ) -> None:
        self._device, self._seen_file = folder / "device.jsonl", folder / "processes.jsonl"
        self._budget_file = budget
        self._evaluating = evaluating
        self._outlook = outlook
        self._living = living
        self._gpus = Gpus(gpus)
        self._known: set[tuple[int, int]] = set()
        self._before: Sample | None = None
        self._looked = 0.0
        self._window: list[tuple[float, float]] = []  # seconds, and how busy the device was in them
        self.idle_seconds = 0.0
        self._renew_budget()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, the driver is asked once a second, by a thread: an answer takes longer than a tick may."""
        with beside(self._gpus.watch, name="gpus"):
            yield
        self._close_window()

    @property
    def budget(self) -> Budget:
        """As it is now."""
        outlook = self._outlook()
        return Budget(
            given_seconds=outlook.given_seconds,
            left_seconds=outlook.left_seconds,
            used_seconds=round(outlook.given_seconds - outlook.left_seconds, 3),
            at_utc=now().utc,
            shortest_pipeline_seconds=outlook.shortest.seconds if outlook.shortest else None,
            outlook=outlook,
        )

    def running(self) -> tuple[str, ...]:
        """The command lines of what runs now."""
        return tuple(life.command for life in self._living())

    def add(self, sample: Sample) -> None:
        """One more look of the supervisor."""
        before, self._before = self._before, sample
        seconds = sample.active_seconds - (before.active_seconds if before else 0.0)
        used = sample.cpu_seconds - (before.cpu_seconds if before else 0.0)
        at = now()
        second = Second(
            monotonic=at.monotonic,
            utc=at.utc,
            processes=sample.processes,
            cpu_share=round(max(0.0, used) / seconds, 3) if seconds > 0 else 0.0,
            evaluating=self._evaluating(),
            gpus=self._gpus.now,
        )
        self._window.append((seconds, second.busy_share))
        if sum(length for length, _ in self._window) >= WINDOW_SECONDS:
            self._close_window()
        note_lines(self._device, [second.resolved()])
        self._renew_budget()
        if at.monotonic - self._looked >= _LOOK_SECONDS:
            self._looked = at.monotonic
            self._note_new(at.utc)

    def _close_window(self) -> None:
        length = sum(seconds for seconds, _ in self._window)
        busy = sum(seconds * share for seconds, share in self._window)
        if length > 0 and busy / length < IDLE_SHARE:
            self.idle_seconds = round(self.idle_seconds + length, 3)
        self._window.clear()

    def _renew_budget(self) -> None:
        renewed = self._budget_file.with_name(f".{self._budget_file.name}")
        renewed.write_text(f"{text_of(self.budget)}\n", encoding="utf-8")
        renewed.replace(self._budget_file)  # whole for whoever reads it; it need not outlive a power cut

    def _note_new(self, utc: str) -> None:
        new = [life for life in self._living() if (life.pid, life.start_ticks) not in self._known]
        self._known |= {(life.pid, life.start_ticks) for life in new}
        if new:
            note_lines(self._seen_file, [{"at": utc, **life.resolved()} for life in new])


def text_of(budget: Budget) -> str:
    """As JSON, on one line."""
    return json.dumps(budget.resolved())
