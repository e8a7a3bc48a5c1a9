"""Drawing in several processes of one machine, one a GPU, or side by side on its CPU.

Each holds the model and draws group after group into files; this process hands out the groups, and grades what stands
meanwhile. A group does not depend on who draws it, so the files are those of one process, in exact arithmetic to the
last bit. A worker that dies ends the evaluation with an error that names it; every file that stands is kept.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import IO, Any

from opd.evaluate.drawing import Drawing, DrawingSettings, Job, Opening, longest_prompts
from opd.evaluate.worker import start_values, values_of
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.rollouts import Prompt

_BOOT = (
    "import json, sys; path, settings = json.loads(sys.argv[1]); sys.path[:] = path;"
    "from opd.evaluate.worker import serve; serve(**settings)"
)
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_DYING_SECONDS = 5


@dataclass(slots=True, kw_only=True, eq=False)
class _Worker:
    number: int
    device: str  # as this process counts: cuda:1
    process: subprocess.Popen[bytes]
    connection: Connection
    said: IO[bytes]  # its standard error
    job: Job | None = None

    def send(self, message: Mapping[str, Any]) -> None:
        """Hands over a message; that nobody is there to take it is found out by listening."""
        with suppress(OSError):
            self.connection.send_bytes(json.dumps(message).encode())

    def stop(self) -> None:
        """Ends the process."""
        self.connection.close()
        self.process.kill()
        self.process.wait()
        self.said.close()

    def epitaph(self) -> str:
        """How it died."""
        try:
            status = self.process.wait(timeout=_DYING_SECONDS)
        except subprocess.TimeoutExpired:  # its connection broke before it did
            self.process.kill()
            status = self.process.wait()
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").strip().splitlines()
        last_words = f": {lines[-1]:.300}" if lines else ""
        doing = "before it was ready" if self.job is None else f"while it drew {self.job.path.name}"
        return (
            f"worker {self.number} ({self.device}, process {self.process.pid}) ended with status {status} {doing}"
            f"{last_words}. What stands is kept; the same command goes on from there"
        )


class WorkersDrawing:
    """Draws in processes that hold the model, once `start` has been called and until `stop` is."""

    def __init__(self, settings: DrawingSettings) -> None:
        self._settings = settings
        self._workers: list[_Worker] = []

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The processes that were started."""
        return tuple(worker.process.pid for worker in self._workers)

    def draw(self, jobs: Sequence[Job], *, interrupted: Callable[[], bool]) -> Iterator[Path]:
        """See `Drawing`. Raises `AnswerIsNo` when a worker dies."""
        due = deque(jobs)
        while True:
            if interrupted():
                due.clear()
            for worker in self._workers:
                if worker.job is None and due:
                    worker.job = due.popleft()
                    worker.send(values_of(worker.job))
            busy = [worker for worker in self._workers if worker.job is not None]
            if not busy:
                return
            for worker in _speaking(busy):
                self._heard(worker)
                job, worker.job = worker.job, None
                assert job is not None, "it was busy"
                yield job.path

    def start(self, count: int, longest: Sequence[Prompt]) -> None:
        """So many have loaded the model, and the prompts fit it; raises as `draw` and `DrawingSettings.load` do."""
        for number in range(count):
            self._workers.append(self._start(number))
            self._workers[-1].send(start_values(self._settings, longest))
        waiting = list(self._workers)
        while waiting:
            for worker in _speaking(waiting):
                self._heard(worker)
                waiting.remove(worker)

    def stop(self) -> None:
        """Ends all processes, whatever they are at."""
        for worker in self._workers:
            worker.stop()

    def _heard(self, worker: _Worker) -> None:
        """Takes in what a worker says: that it is ready, or that a job is done."""
        try:
            message = json.loads(worker.connection.recv_bytes())
        except (EOFError, OSError):
            raise AnswerIsNo(worker.epitaph()) from None
        if "refused" in message:
            raise AskedWrongly(message["refused"])

    def _start(self, number: int) -> _Worker:
        ours, theirs = Pipe()
        on_gpu = self._settings.device == "cuda"
        said = tempfile.TemporaryFile()  # noqa: SIM115  # closed by stop()
        # -I: neither the working directory nor the environment decides what it imports; a session of its own:
        # Ctrl-C reaches this process, which then lets the groups end
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, json.dumps([sys.path, {"descriptor": theirs.fileno()}])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            pass_fds=[theirs.fileno()],
            env=os.environ | ({_VISIBLE: visible_gpu(number)} if on_gpu else {}),
            start_new_session=True,
        )
        theirs.close()
        return _Worker(
            number=number,
            device=f"cuda:{number}" if on_gpu else self._settings.device,
            process=process,
            connection=ours,
            said=said,
        )


def opening(settings: DrawingSettings, *, count: int) -> Opening:
    """Draws in so many processes; one of them is this one."""
    return settings.open if count == 1 else lambda jobs: _open(settings, jobs, count=count)


@contextmanager
def _open(settings: DrawingSettings, jobs: Sequence[Job], *, count: int) -> Iterator[Drawing]:
    drawing = WorkersDrawing(settings)
    try:
        drawing.start(min(count, len(jobs)), longest_prompts(jobs))
        yield drawing
    finally:
        drawing.stop()


def _speaking(workers: Sequence[_Worker]) -> list[_Worker]:
    """Those that have something to say, or have died; waits until there is one."""
    spoke = wait([worker.connection for worker in workers])
    return [worker for worker in workers if worker.connection in spoke]


def visible_gpu(number: int) -> str:
    """What the number-th worker may see: that one of the GPUs that this process sees, in CUDA's own words."""
    visible = os.environ.get(_VISIBLE)
    return visible.split(",")[number] if visible else str(number)
