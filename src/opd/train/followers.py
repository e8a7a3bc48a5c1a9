"""The followers of a run, a process for each sink: started, looked after, and let go at the end.

DIR/sinks/<name>.log     all that the sink printed
    sinks/<name>.json    how far it is
    events.jsonl         a line for each sink that was dropped, and why

A sink costs a run one system call a step. It can't hold it up either: at the end the sinks get some seconds to send
what is left, and after that they are ended.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opd.records.errors import AskedWrongly
from opd.records.events import Event
from opd.records.failures import Raised, chain
from opd.records.files import append_lines, read_json
from opd.records.settings import validated
from opd.train.follower import failure_path
from opd.train.sink import SinkSettings

PATIENCE_SECONDS = 30.0  # at the end of the run, for all sinks together
_GRACE_SECONDS = 1.0  # the run ends first what is too slow; a follower's own alarm is for one whose run is gone
_SHOWN_CHARACTERS = 200  # of a message

_BOOT = (
    "import json, sys; path, settings = json.loads(sys.argv[1]); sys.path[:] = path;"
    "from opd.train.follower import follow; follow(**settings)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Follower:
    name: str
    process: subprocess.Popen[bytes]

    def let_go(self) -> None:
        """It learns that the run is over."""
        assert self.process.stdin is not None, "asked for when it was started"
        self.process.stdin.close()


class Followers:
    """Those of one run. Nothing that a sink does is raised here: it is dropped, which is an event and a warning."""

    def __init__(
        self,
        settings: SinkSettings,
        out: Path,
        *,
        warn: Callable[[str], object],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._out = out
        self._warn = warn
        self._patience_seconds = patience_seconds
        self._running: list[_Follower] = []
        self._step = 0  # the last one with a line

    @property
    def process_ids(self) -> dict[str, int]:
        """The processes that follow now, by sink."""
        return {one.name: one.process.pid for one in self._running}

    def start(self, *, step: int) -> None:
        """All sinks follow the run, which goes on after this step; recipe and lines so far are in its folder."""
        self._step = step
        for name in self._settings.to:
            try:
                process = self._process(name, step)
            except OSError as error:  # no more processes, or no room for a log
                self._drop(name, f"it could not start: {error}", chain(error))
            else:
                self._running.append(_Follower(name=name, process=process))

    def look(self, *, step: int) -> None:
        """Those that have ended since the last look are dropped; this is the last step with a line."""
        self._step = step
        for one in [one for one in self._running if one.process.poll() is not None]:
            self._running.remove(one)
            one.let_go()
            self._bury(one)

    def finish(self, *, limit_seconds: float | None = None) -> None:
        """No follower is left. They had their patience to send the rest, or `limit_seconds` where that is less."""
        patience = self._patience_seconds if limit_seconds is None else min(self._patience_seconds, limit_seconds)
        patience = max(0.0, patience)
        deadline = time.monotonic() + patience
        running, self._running = self._running, []
        for one in running:
            one.let_go()  # all hear it before the first is waited for
        for one in running:
            try:
                status = one.process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError, PermissionError):  # it has just left
                    os.killpg(one.process.pid, signal.SIGKILL)
                one.process.wait()
                self._drop(one.name, f"it had not sent the rest {patience:.0f} s after the run's end")
            else:
                if status:
                    self._bury(one)

    def _process(self, name: str, step: int) -> subprocess.Popen[bytes]:
        log = self._log(name)
        log.parent.mkdir(exist_ok=True)
        failure_path(self._out, name).unlink(missing_ok=True)
        settings = {
            "name": name,
            "out": str(self._out.absolute()),
            "project": self._settings.project,
            "step": step,
            "patience_seconds": self._patience_seconds + _GRACE_SECONDS,
        }
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-u", "-c", _BOOT, json.dumps([sys.path, settings])],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl-C reaches the run, which then lets it go
            )

    def _log(self, name: str) -> Path:
        return self._out / "sinks" / f"{name}.log"

    def _bury(self, one: _Follower) -> None:
        """Takes note of one that ended by itself, and should not have."""
        status, exceptions = one.process.returncode, _exceptions(failure_path(self._out, one.name))
        if exceptions:
            self._drop(one.name, _in_words(exceptions[0]), exceptions)
        elif status < 0:
            self._drop(one.name, f"its process was ended by signal {-status} ({signal.strsignal(-status)})")
        else:
            self._drop(one.name, f"its process left with status {status}")

    def _drop(self, name: str, why: str, exceptions: tuple[Raised, ...] = ()) -> None:
        message = (
            f"{name} was dropped at step {self._step}: {why}; metrics.jsonl has every line, {self._log(name)} what "
            f"{name} said"
        )
        event = Event(event="sink_dropped", step=self._step, sink=name, message=message, exceptions=exceptions)
        with suppress(OSError):  # a full disk ends the run where the run itself needs it
            append_lines(self._out / "events.jsonl", [event.resolved()])
        self._warn(message)


def _exceptions(path: Path) -> tuple[Raised, ...]:
    """Those that a follower left there; none where it left nothing that can be read."""
    try:
        return tuple(validated(Raised, raised, source=str(path)) for raised in read_json(path))
    except (OSError, AskedWrongly):
        return ()


def _in_words(raised: Raised) -> str:
    first_line = raised.message.strip().partition("\n")[0]
    return f"{raised.kind.rpartition('.')[2]}: {first_line:.{_SHOWN_CHARACTERS}}"
