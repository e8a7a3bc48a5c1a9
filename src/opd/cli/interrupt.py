"""Ctrl-C as a request: the first lets the work end at a clean place, the second ends it at once."""

import signal
from types import FrameType, TracebackType
from typing import Self

import click


class Interrupt:
    """While it is entered, SIGINT and SIGTERM are noted; `asked()` says whether one came."""

    def __init__(self, *, unit: str) -> None:
        self._unit = unit
        self._asked = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() itself gave back

    def asked(self) -> bool:
        """Whether the work should end after the present unit."""
        return self._asked

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt(signal.Signals(number).name)
        self._asked = True
        click.echo(f"stopping after this {self._unit}; once more to stop at once", err=True)
