"""A process that hands `metrics.jsonl` to one sink, line by line: started by `followers.py`.

    run         adds a line a step, and holds the other end of this process's standard input
    follower    looks for new lines, hands them on, and notes in sinks/<name>.json how far it is
    run ends    standard input ends; the follower hands on the rest, closes the sink and leaves

It is the sink's prison: what a library raises, leaks, hangs on or breaks stays in here (fault H47). It reads the
file and not the run, so a sink may lag behind for any time without the run being held up.
"""

import fcntl
import json
import os
import secrets
import select
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import NonNegativeInt

from opd.records.failures import chain
from opd.records.files import read_json, write_json
from opd.records.settings import Settings, read
from opd.train.sink import Shown, Sink, find, numbers

LOOK_SECONDS = 0.5  # how far behind a sink usually is
_STDIN = 0

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], None]


class Place(Settings):
    """`sinks/<name>.json`: which run the sink shows, and how far it is."""

    run: str
    """The folder's name when the sink was first asked for."""
    id: str
    """Under which the sink knows it."""
    sent_step: NonNegativeInt
    """The last step that was handed on."""


class Lines:
    """The whole lines of a file that grows, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> list[dict[str, Any]]:
        """Those that were added since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def follow(*, name: str, out: str, project: str, step: int, patience_seconds: float) -> None:
    """The run in `out`, which goes on after `step`, has been shown to its end.

    After the run's end it may take so many seconds; then a signal ends the process.
    """
    folder = Path(out)
    sys.excepthook = _noting(failure_path(folder, name), patience_seconds)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the run's end is this process's end
    lock = (folder / "sinks" / f"{name}.log").open("ab")
    with suppress(OSError):  # a file system without locks
        fcntl.flock(lock, fcntl.LOCK_EX)  # the follower of a run that was killed may not be through
    kind = find(name)
    place = _place(folder, name)
    after_step = min(step, place.sent_step) if kind.takes_back else place.sent_step
    sink = kind(
        Shown(
            out=folder,
            project=project,
            name=place.run,
            id=place.id,
            recipe=read_json(folder / "recipe.json"),
            after_step=after_step,
        )
    )
    lines, over = Lines(folder / "metrics.jsonl"), False
    while not over:
        over = _run_is_over(within_seconds=LOOK_SECONDS)
        if over:
            signal.setitimer(signal.ITIMER_REAL, patience_seconds)
        new = [line for line in lines.new() if line["step"] > after_step]
        if new:
            _hand_on(sink, new)
            write_json(place_path(folder, name), place.model_copy(update={"sent_step": new[-1]["step"]}).resolved())
    sink.close(whole=(folder / "run.json").is_file())


def place_path(out: Path, name: str) -> Path:
    """Where a follower notes how far it is."""
    return out / "sinks" / f"{name}.json"


def failure_path(out: Path, name: str) -> Path:
    """Where a follower leaves the exceptions that ended it."""
    return out / "sinks" / f"{name}-failure.json"


def _hand_on(sink: Sink, lines: list[dict[str, Any]]) -> None:
    for line in lines:
        sink.write(line["step"], dict(numbers(line)))
    sink.flush()


def _place(out: Path, name: str) -> Place:
    """The place that an earlier try noted, or that of a run which was never shown."""
    path = place_path(out, name)
    if path.is_file():
        return read(Place, path)
    place = Place(run=out.absolute().name, id=secrets.token_hex(4), sent_step=0)
    write_json(path, place.resolved())
    return place


def _run_is_over(*, within_seconds: float) -> bool:
    """Whether the other end of standard input closes before the time is up."""
    readable, _, _ = select.select([_STDIN], [], [], within_seconds)
    return bool(readable) and not os.read(_STDIN, 1)


def _noting(path: Path, patience_seconds: float) -> Hook:
    """A last word on an exception that nothing caught: in full to the log, its chain to `path`."""

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, patience_seconds)  # for what the library does at exit
        traceback.print_exception(kind, error, trace)
        write_json(path, [one.resolved() for one in chain(error)])

    return note
