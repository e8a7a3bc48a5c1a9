"""Ctrl-C as a request: the first lets the work end at a clean place, the last ends it at once.

Work of long units has one between: it ends the unit at hand, as what it then is.
"""

import signal
import time
from types import FrameType, TracebackType
from typing import Self

import click


class Interrupt:
    """While it is entered, SIGINT and SIGTERM are noted; `asked()` says whether one came.

    `second` says in words what a second request does: `insisted()` is true then, and only a third ends all at once.
    What comes again within `settle_seconds` is the same request: torchrun hands on to its processes what the terminal
    has sent them already. With `quiet` nothing is said.
    """

    def __init__(
        self, *, unit: str, second: str | None = None, settle_seconds: float = 0.0, quiet: bool = False
    ) -> None:
        self._unit = unit
        self._second = second
        self._settle_seconds = settle_seconds
        self._quiet = quiet
        self._requests = 0
        self._requested = 0.0
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
        return self._requests > 0

    def insisted(self) -> bool:
        """Whether the present unit should end, too."""
        return self._requests > 1

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._requests and time.monotonic() - self._requested < self._settle_seconds:
            return
        if self._requests > (self._second is not None):
            raise KeyboardInterrupt(signal.Signals(number).name)
        self._requests += 1
        self._requested = time.monotonic()
        if self._quiet:
            return
        what = f"stopping after this {self._unit}" if self._requests == 1 else f"ending this {self._unit}"
        then = self._second if self._requests == 1 and self._second else "stop at once"
        click.echo(f"{what}; once more to {then}", err=True)
