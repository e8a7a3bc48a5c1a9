"""The programs that the pages ask (`view/programs.py`), one at a time and not too many waiting.

They take a core each, and the run that is looked at may need it. What they say is kept by those who ask, while the
files that it was about stay as they were.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock, Semaphore
from typing import Any

from opd.view.programs import INSTALL, run
from opd.view.server.answers import Busy

MOST_WAITING = 4  # requests, the one at work included; each holds a thread of the server
WAITING = 2  # for each of them, that ask for the very same


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What came of it. A command that says no may have printed its answer all the same."""

    value: Any  # the JSON that it printed; None where it printed none
    missing: str | None  # why there is none, in a sentence


class Programs:
    """The install's commands, at most one at work."""

    def __init__(self, command: Sequence[str] = INSTALL) -> None:
        self._command = tuple(command)
        self._turn = Semaphore(1)
        self._waiting = 0
        self._lock = Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False

    def ask(self, *arguments: str, limit_seconds: float = 120.0, lines: bool = False) -> Said:
        """What the command prints as JSON, with `lines` a list of them; it is ended when it takes longer."""
        with self._lock:
            if self._waiting >= MOST_WAITING:
                raise Busy(f"{MOST_WAITING} programs are waited for already; ask again when they have ended")
            self._waiting += 1
        try:
            with self._turn:
                return self._asked(arguments, limit_seconds=limit_seconds, lines=lines)
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Nothing is asked any more, and what is at work is ended."""
        with self._lock:
            self._closed = True
            if self._running is not None:
                self._running.kill()

    def _asked(self, arguments: Sequence[str], *, limit_seconds: float, lines: bool) -> Said:
        if self._closed:
            return Said(value=None, missing="the server ends")
        try:
            ended = run([*self._command, *arguments], limit_seconds=limit_seconds, began=self._began)
        except subprocess.TimeoutExpired:
            return Said(
                value=None, missing=f"`opd {arguments[0]}` took more than {limit_seconds:.0f} s and was ended"
            )
        finally:
            with self._lock:
                self._running = None
        try:
            values = [json.loads(line) for line in ended.out.splitlines()] if lines else json.loads(ended.out)
            if lines and ended.code != 0:
                raise ValueError("not all lines came")
        except (ValueError, RecursionError):
            return Said(value=None, missing=ended.said or f"`opd {arguments[0]}` ended with {ended.code}, silently")
        return Said(value=values, missing=None)

    def _began(self, child: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running = child
            if self._closed:  # meanwhile
                child.kill()
