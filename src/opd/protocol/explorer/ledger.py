"""What each second of an exploration comes to: the idle time of its device, and what is left of its budget.

device.jsonl processes.jsonl    as `supervision.device` writes them
budget.json                     shown to the explorer, renewed each second
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import NonNegativeFloat

from opd.protocol.clock import now
from opd.protocol.explorer.outlook import Outlook
from opd.protocol.supervision.device import IDLE_SHARE, WINDOW_SECONDS, Recorder
from opd.protocol.supervision.processes import Life
from opd.protocol.supervision.usage import Sample
from opd.records.settings import Settings


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
        recorder: Recorder,
        *,
        budget: Path,
        outlook: Callable[[], Outlook],
        living: Callable[[], tuple[Life, ...]],
    ) -> None:
        self._recorder = recorder
        self._budget_file = budget
        self._outlook = outlook
        self._living = living
        self._window: list[tuple[float, float]] = []  # seconds, and how busy the device was in them
        self.idle_seconds = 0.0
        self._renew_budget()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, each second is recorded."""
        with self._recorder.open():
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
        second, seconds = self._recorder.add(sample)
        self._window.append((seconds, second.busy_share))
        if sum(length for length, _ in self._window) >= WINDOW_SECONDS:
            self._close_window()
        self._renew_budget()

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


def text_of(budget: Budget) -> str:
    """As JSON, on one line."""
    return json.dumps(budget.resolved())
