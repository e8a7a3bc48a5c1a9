"""GPUs for one attempt at a time: chosen, claimed, and shown to its programs; two attempts never share one.

    <temporary>/opd-gpus/GPU-3f2a….lock     held while an attempt's stage has that GPU
    CUDA_VISIBLE_DEVICES                    how its programs find it

A GPU on which a stranger's process computes is not taken: what would be measured there is not the attempt alone. No
process of a stranger is ever ended.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from opd.protocol import driver
from opd.protocol.supervision.processes import command_of
from opd.records.errors import OpdError

VISIBLE = "CUDA_VISIBLE_DEVICES"
_ASKED_SECONDS = 60.0  # a driver that wakes a GPU from sleep takes some ten


class DeviceTaken(OpdError):
    """Too few GPUs are free; the message says who has them."""

    exit_code = 75  # EX_TEMPFAIL: try again when they are done


@contextmanager
def claimed(count: int, *, who: str, folder: Path | None = None) -> Iterator[Mapping[str, str]]:
    """Inside, so many GPUs are the attempt's: the variables that show them to its programs. None for a count of 0.

    Raises `DeviceTaken`, which names each holder, when too few are free.
    """
    if count == 0:
        yield {VISIBLE: ""}
        return
    place = folder or Path(tempfile.gettempdir()) / "opd-gpus"
    place.mkdir(mode=0o777, exist_ok=True)
    taken: list[str] = []
    with ExitStack() as held:
        chosen: list[str] = []
        for uuid, strangers in _gpus().items():
            if len(chosen) == count:
                break
            if strangers:
                taken.append(f"{uuid}: {'; '.join(strangers)}")
            elif (holder := _claim(place / f"{uuid}.lock", who, held)) is not None:
                taken.append(f"{uuid}: {holder}")
            else:
                chosen.append(uuid)
        if len(chosen) < count:
            others = "; ".join(taken) or "there are no others"
            raise DeviceTaken(f"{count} GPUs are needed, and {len(chosen)} are free ({others}); try again later")
        yield {VISIBLE: ",".join(chosen)}


def _claim(path: Path, who: str, held: ExitStack) -> str | None:
    """Who has it; None: it is ours until `held` closes."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 4096, 0).decode("utf-8", "replace").strip()
        os.close(descriptor)
        return holder or "another attempt"
    held.callback(os.close, descriptor)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{who}, process {os.getpid()}\n".encode(), 0)
    return None


def _gpus() -> dict[str, list[str]]:
    """Each GPU by its id, with the processes that compute on it."""
    found: dict[str, list[str]] = {uuid: [] for (uuid,) in _ask("--query-gpu=uuid")}
    for uuid, pid in _ask("--query-compute-apps=gpu_uuid,pid"):
        if uuid in found:
            found[uuid].append(f"process {pid} ({command_of(int(pid)) or 'of another container'})")
    return found


def _ask(query: str) -> list[list[str]]:
    if not driver.is_installed():
        raise DeviceTaken(f"the task needs a GPU, and there is no {driver.PROGRAM}: no NVIDIA driver is here")
    if (rows := driver.rows(query, limit_seconds=_ASKED_SECONDS)) is None:
        raise DeviceTaken(f"{driver.PROGRAM} gives no answer; look at the machine's driver")
    return rows
