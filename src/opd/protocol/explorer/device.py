"""The device: shared by training probes, alone for an evaluation; and a line for each second, how busy it was.

device.lock           a shared lock for each training command, the exclusive one for an evaluation
device.lock.holder    who has it exclusively, for whoever is refused
device.jsonl          a second each: processor time of the explorer's processes, of each GPU what its driver says
"""

import fcntl
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.protocol import driver
from opd.records.settings import Settings

IDLE_SHARE = 0.05  # of a window: below it the device does nothing
WINDOW_SECONDS = 5.0  # what is looked at together: one second alone may fall between two looks at a busy process
_ASKED_SECONDS = 10.0
_GPU_FIELDS = "index,uuid,utilization.gpu,memory.used,power.draw"


class DeviceTaken(Exception):
    """Somebody else has the device; the message names who."""


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
    """Of the explorer, alive."""
    cpu_share: NonNegativeFloat
    """Processor seconds in this second, of all of them together."""
    evaluating: bool
    """Whether a proxy evaluation has the device."""
    gpus: tuple[Gpu, ...] = ()

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


class DeviceLock:
    """The lock, made anew in a folder that the explorer can read and not write."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "device.lock"
        self._holder = folder / "device.lock.holder"
        self.path.touch()

    @contextmanager
    def alone(self, holder: str) -> Iterator[None]:
        """Inside, nobody trains on the device; raises `DeviceTaken` when somebody does."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DeviceTaken(self._who()) from None
        self._holder.write_text(holder, encoding="utf-8")
        try:
            yield
        finally:
            self._holder.unlink(missing_ok=True)
            os.close(descriptor)

    def _who(self) -> str:
        if self._holder.exists():
            return self._holder.read_text(encoding="utf-8").strip()
        return "a training command of yours (started by on-device)"


class Gpus:
    """What the driver says of the attempt's own GPUs, once a second; others are none of its business."""

    def __init__(self, uuids: Collection[str]) -> None:
        self._uuids = uuids
        self.now: tuple[Gpu, ...] = ()

    def look(self) -> tuple[Gpu, ...]:
        """The GPUs at this moment."""
        pids = _pids()
        rows = driver.rows(f"--query-gpu={_GPU_FIELDS}", limit_seconds=_ASKED_SECONDS) or ()  # a missing line is seen
        whole = (_gpu(row, pids) for row in rows if len(row) == len(_GPU_FIELDS.split(",")))
        return tuple(gpu for gpu in whole if gpu.uuid in self._uuids)

    def watch(self, over: Event, *, seconds: float = 1.0) -> None:
        """Keeps `now` fresh until `over`: a look takes a while, and the ledger must not wait for it."""
        while self._uuids and driver.is_installed() and not over.wait(seconds):
            self.now = self.look()


def _pids() -> dict[str, tuple[int, ...]]:
    """By GPU, which processes compute on it."""
    found: dict[str, tuple[int, ...]] = {}
    rows = driver.rows("--query-compute-apps=gpu_uuid,pid", limit_seconds=_ASKED_SECONDS) or ()
    for uuid, pid in (row for row in rows if len(row) == 2):
        found[uuid] = (*found.get(uuid, ()), int(pid))
    return found


def _gpu(row: Sequence[str], pids: dict[str, tuple[int, ...]]) -> Gpu:
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
