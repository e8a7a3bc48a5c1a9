"""What the device did while a program of strangers ran: a line for each second, and each process that was seen.

device.jsonl       a `Second` each: processor time of the program, of each GPU what its driver says
processes.jsonl    each process when it is first seen
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.protocol import driver
from opd.protocol.clock import now
from opd.protocol.supervision.processes import Life
from opd.protocol.supervision.usage import Sample
from opd.protocol.threads import beside
from opd.records.files import note_lines
from opd.records.settings import Settings

DEVICE, PROCESSES = "device.jsonl", "processes.jsonl"
IDLE_SHARE = 0.05  # of a window: below it the device does nothing
WINDOW_SECONDS = 5.0  # what is looked at together: one second alone may fall between two looks at a busy process
_LOOK_SECONDS = 2.0  # between two looks at all processes
_ASKED_SECONDS = 10.0
_GPU_FIELDS = "index,uuid,utilization.gpu,memory.used,power.draw"


class Gpu(Settings):
    """What the driver says of one GPU."""

    index: NonNegativeInt
    uuid: str
    busy: NonNegativeFloat | None
    """Share of the last second with a kernel at work; null where the driver doesn't say."""
    memory_bytes: NonNegativeInt | None
    watts: NonNegativeFloat | None
    pids: tuple[int, ...] = ()
    """Processes with a context on it."""


class Second(Settings):
    """A line of device.jsonl."""

    monotonic: float
    utc: str
    processes: NonNegativeInt
    """Of the program, alive."""
    cpu_share: NonNegativeFloat
    """Processor seconds in this second, of all of them together."""
    evaluating: bool
    """Whether a proxy evaluation has the device; of a formal try never."""
    gpus: tuple[Gpu, ...] = ()
    """The attempt's own, and any other on which one of the program's processes computes."""
    other_gpus: NonNegativeInt | None = None
    """How many more the machine has; null where there is no driver, or it gave no answer yet."""

    @property
    def busy_share(self) -> float:
        """How busy the device was: the busiest GPU where there are some, else the processors."""
        if self.evaluating:
            return 1.0
        return max((gpu.busy or 0.0 for gpu in self.gpus), default=self.cpu_share)

    @property
    def is_idle(self) -> bool:
        """Whether the device did nothing, as far as one second tells."""
        return self.busy_share < IDLE_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one look at the GPUs gave; as in `Second`."""

    gpus: tuple[Gpu, ...]
    others: int | None


class Gpus:
    """What the driver says, once a second, of the attempt's own GPUs and of any other that its program computes on.

    Of the rest it keeps the number alone: what strangers do on their own GPUs is none of an attempt's business.
    """

    def __init__(self, uuids: Collection[str], *, own: Callable[[], Collection[int]]) -> None:
        self._uuids = uuids
        self._own = own
        self.now = Looked(gpus=(), others=None)

    def look(self) -> Looked:
        """The GPUs at this moment; `own` gives the program's processes."""
        pids = _pids()
        rows = driver.rows(f"--query-gpu={_GPU_FIELDS}", limit_seconds=_ASKED_SECONDS)
        if rows is None:
            return Looked(gpus=(), others=None)
        every = tuple(_gpu(row, pids) for row in rows if len(row) == len(_GPU_FIELDS.split(",")))
        own = frozenset(self._own())
        seen = tuple(gpu for gpu in every if gpu.uuid in self._uuids or not own.isdisjoint(gpu.pids))
        return Looked(gpus=seen, others=len(every) - len(seen))

    def watch(self, over: Event, *, seconds: float = 1.0) -> None:
        """Keeps `now` fresh until `over`: a look takes a while, and whoever writes a line must not wait for it."""
        while driver.is_installed() and not over.wait(seconds):
            self.now = self.look()


class Recorder:
    """Writes both files of one try; is told of each look of the supervisor.

    `gpus` are the ids of the attempt's own, `living` gives the program's processes, `evaluating` whether the device
    is a measurement's.
    """

    def __init__(
        self,
        folder: Path,
        *,
        gpus: Collection[str],
        living: Callable[[], tuple[Life, ...]],
        evaluating: Callable[[], bool] = lambda: False,
    ) -> None:
        self._device, self._seen_file = folder / DEVICE, folder / PROCESSES
        self._living = living
        self._evaluating = evaluating
        self._alive: frozenset[int] = frozenset()
        self._gpus = Gpus(gpus, own=lambda: self._alive)
        self._known: set[tuple[int, int]] = set()
        self._before: Sample | None = None
        self._looked = 0.0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, the driver is asked once a second, by a thread: an answer takes longer than a tick may."""
        with beside(self._gpus.watch, name="gpus"):
            yield

    def add(self, sample: Sample) -> tuple[Second, float]:
        """The line that was written for this look, and how many seconds it stands for."""
        before, self._before = self._before, sample
        seconds = sample.active_seconds - (before.active_seconds if before else 0.0)
        used = sample.cpu_seconds - (before.cpu_seconds if before else 0.0)
        at, looked = now(), self._gpus.now
        second = Second(
            monotonic=at.monotonic,
            utc=at.utc,
            processes=sample.processes,
            cpu_share=round(max(0.0, used) / seconds, 3) if seconds > 0 else 0.0,
            evaluating=self._evaluating(),
            gpus=looked.gpus,
            other_gpus=looked.others,
        )
        note_lines(self._device, [second.resolved()])
        if at.monotonic - self._looked >= _LOOK_SECONDS:
            self._looked = at.monotonic
            self._note_new(at.utc)
        return second, seconds

    def _note_new(self, utc: str) -> None:
        living = self._living()
        self._alive = frozenset(life.pid for life in living)
        new = [life for life in living if (life.pid, life.start_ticks) not in self._known]
        self._known |= {(life.pid, life.start_ticks) for life in new}
        if new:
            note_lines(self._seen_file, [{"at": utc, **life.resolved()} for life in new])


def _pids() -> dict[str, tuple[int, ...]]:
    """By GPU, which processes compute on it."""
    found: dict[str, tuple[int, ...]] = {}
    rows = driver.rows("--query-compute-apps=gpu_uuid,pid", limit_seconds=_ASKED_SECONDS) or ()
    for uuid, pid in (row for row in rows if len(row) == 2 and row[1].isdecimal()):
        found[uuid] = (*found.get(uuid, ()), int(pid))
    return found


def _gpu(row: list[str], pids: dict[str, tuple[int, ...]]) -> Gpu:
    index, uuid, busy, memory, watts = row
    numbers = [_number(text) for text in (busy, memory, watts)]
    return Gpu(
        index=int(index),
        uuid=uuid,
        busy=None if numbers[0] is None else numbers[0] / 100,
        memory_bytes=None if numbers[1] is None else round(numbers[1] * (1 << 20)),
        watts=numbers[2],
        pids=pids.get(uuid, ()),
    )


def _number(text: str) -> float | None:
    """None for `[N/A]`."""
    try:
        return float(text)
    except ValueError:
        return None
