"""Grading in processes that can be killed.

No signal and no thread watches a case: its worker is another process, and when its time is up that process is
killed and replaced. So it works from any thread (fault E70), and nothing that a text provokes in a library,
be it a loop or a crash or an appetite for memory, reaches this process. A case that fails is tried once more,
in a fresh worker, and then reported as failed.

Workers are fresh interpreters, whatever this process holds: no torch, no threads, no `__main__` run again.
They start when the first case needs one and serve until the pool is closed. A forked copy of this process has
no part in them: it starts its own.
"""

import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Any, Self

from opd.records.errors import AskedWrongly

_BOOT = (
    "import json, sys; path, settings = json.loads(sys.argv[1]); sys.path[:] = path;"
    "from opd.grading.worker import serve; serve(**settings)"
)
_TRIES = 2
_CLOSING_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one case may cost."""

    seconds: float = 5.0  # wall time
    memory_bytes: int = 1 << 30  # beyond what a worker has loaded before its first case
    workers: int = 2
    start_seconds: float = 120.0  # for a worker to import what it needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A case that was tried twice and has no result."""

    reason: str


Case = Mapping[str, str]
Result = Mapping[str, Any] | Failed


@dataclass(slots=True, kw_only=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    deadline: float
    ready: bool = False
    case: int | None = None
    handed_out: float = 0.0  # when it got its case, by the monotonic clock

    def stop(self, *, patience_seconds: float = 0.0) -> None:
        """Ends the process and takes in its exit status; it may leave by itself first, if there is patience."""
        self.connection.close()
        try:
            self.process.wait(timeout=patience_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True, kw_only=True)
class _Run:
    """The cases of one call: which are due, how often each was tried, for how long, and what came of it."""

    cases: Sequence[Case]
    due: deque[int]
    tries: list[int]
    seconds: list[float]
    results: dict[int, Result] = field(default_factory=dict)

    def failed(self, case: int, reason: str) -> None:
        self.tries[case] += 1
        if self.tries[case] < _TRIES:
            self.due.appendleft(case)
        else:
            self.results[case] = Failed(reason=reason)

    @property
    def retries(self) -> int:
        """How many cases were tried once more."""
        return sum(tries > 0 for tries in self.tries)


class Pool:
    """Workers that reply to cases. Use it as a context manager, or call `close`."""

    def __init__(self, *, grader: str = "house", limits: Limits | None = None) -> None:
        self._grader = grader
        self._limits = limits or Limits()
        self._retries = 0
        self._begin()

    def _begin(self) -> None:
        """No workers yet, and this process as the owner of those to come."""
        self._workers: list[_Worker] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _stop_all, self._workers, self._owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all workers; none is left, not even as a zombie. A closed pool starts new ones when asked again."""
        self._disown()
        with self._lock:
            _stop_all(self._workers, self._owner)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The workers that are running now."""
        self._disown()
        return tuple(worker.process.pid for worker in self._workers)

    @property
    def retries(self) -> int:
        """How many cases failed once and were tried again, since the pool was made."""
        return self._retries

    def run(self, cases: Sequence[Case]) -> list[Result]:
        """The reply to each case, in order, or why there is none.

        Raises `AskedWrongly` when someone's own grader can't be imported, `RuntimeError` when a worker can't start.
        """
        return [result for result, _ in self.timed(cases)]

    def timed(self, cases: Sequence[Case]) -> list[tuple[Result, float]]:
        """The same, each with the seconds that its tries took in the workers."""
        run = _Run(
            cases=cases,
            due=deque(range(len(cases))),
            tries=[0] * len(cases),
            seconds=[0.0] * len(cases),
        )
        self._disown()
        with self._lock:
            try:
                while len(run.results) < len(cases):
                    self._hand_out(run)
                    self._collect(run)
            finally:
                self._retries += run.retries
                for worker in [worker for worker in self._workers if worker.case is not None]:
                    self._discard(worker)  # interrupted: nobody waits for its reply any more
        return [(run.results[number], run.seconds[number]) for number in range(len(cases))]

    def _disown(self) -> None:
        """In a forked copy of the process: the workers are those of the original, and its lock may be held."""
        if os.getpid() == self._owner:
            return
        self._finalizer.detach()
        for worker in self._workers:
            worker.connection.close()  # this copy's end: the original's stays open
            worker.process.returncode = 0  # nothing that this process could wait for
        self._begin()

    def _hand_out(self, run: _Run) -> None:
        busy = sum(worker.case is not None for worker in self._workers)
        while len(self._workers) < min(self._limits.workers, busy + len(run.due)):
            self._workers.append(self._start())
        for worker in list(self._workers):
            if worker.ready and worker.case is None and run.due:
                self._give(worker, run)

    def _give(self, worker: _Worker, run: _Run) -> None:
        case = run.due.popleft()
        try:
            worker.connection.send_bytes(json.dumps(dict(run.cases[case])).encode())
        except OSError:  # it died while it was idle, which is not the case's fault
            run.due.appendleft(case)
            self._discard(worker)
            return
        worker.case, worker.handed_out = case, time.monotonic()
        worker.deadline = worker.handed_out + self._limits.seconds

    def _collect(self, run: _Run) -> None:
        """Waits for the next reply, start or deadline, and takes note of everything that is due by then."""
        active = [worker for worker in self._workers if worker.case is not None or not worker.ready]
        if not active:
            return
        patience = max(0.0, min(worker.deadline for worker in active) - time.monotonic())
        spoke = wait([worker.connection for worker in active], timeout=patience)
        for worker in active:
            if worker.connection in spoke:
                self._listen(worker, run)
            elif time.monotonic() >= worker.deadline:
                self._expire(worker, run)

    def _listen(self, worker: _Worker, run: _Run) -> None:
        try:
            message = json.loads(worker.connection.recv_bytes())
        except (EOFError, OSError):
            self._bury(worker, run)
            return
        if worker.case is None:
            if "broken" in message:
                self._discard(worker)
                raise AskedWrongly(f"grader = {self._grader!r}: {message['broken']}")
            worker.ready = True
            return
        case, worker.case = worker.case, None
        run.seconds[case] += time.monotonic() - worker.handed_out
        if "failed" in message:
            run.failed(case, message["failed"])
            self._discard(worker)
        else:
            run.results[case] = message

    def _expire(self, worker: _Worker, run: _Run) -> None:
        if not worker.ready:
            self._discard(worker)
            raise RuntimeError(f"a grading process was not ready after {self._limits.start_seconds:g} s")
        assert worker.case is not None, "only a start or a case has a deadline"
        run.seconds[worker.case] += time.monotonic() - worker.handed_out
        run.failed(worker.case, f"killed: it took longer than {self._limits.seconds:g} s")
        self._discard(worker)

    def _bury(self, worker: _Worker, run: _Run) -> None:
        """Takes note of a worker that died by itself."""
        self._discard(worker, patience_seconds=_CLOSING_SECONDS)
        status = worker.process.returncode
        if not worker.ready:
            raise RuntimeError(f"a grading process ended with status {status} before it was ready")
        if worker.case is not None:
            run.seconds[worker.case] += time.monotonic() - worker.handed_out
            run.failed(worker.case, f"the process died with status {status}")

    def _discard(self, worker: _Worker, *, patience_seconds: float = 0.0) -> None:
        self._workers.remove(worker)
        worker.stop(patience_seconds=patience_seconds)

    def _start(self) -> _Worker:
        ours, theirs = Pipe()
        settings = {
            "descriptor": theirs.fileno(),
            "grader": self._grader,
            "seconds": self._limits.seconds,
            "memory_bytes": self._limits.memory_bytes,
        }
        # -I: neither the working directory nor the environment decides what a grader imports; a session of its
        # own: Ctrl-C reaches this process, which then closes the pool
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, json.dumps([sys.path, settings])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        theirs.close()
        return _Worker(process=process, connection=ours, deadline=time.monotonic() + self._limits.start_seconds)


def _stop_all(workers: list[_Worker], owner: int) -> None:
    if os.getpid() != owner:  # in a forked copy of the process that started them
        return
    for worker in workers:
        worker.connection.close()  # all hear it before the first is waited for
    while workers:
        workers.pop().stop(patience_seconds=_CLOSING_SECONDS)
