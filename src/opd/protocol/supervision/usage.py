"""What a program uses, looked at from outside now and then, and the limits that only looking can hold."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opd.protocol.sandbox.cgroups import Group
from opd.protocol.sandbox.launch import Launch
from opd.protocol.sandbox.view import Limits
from opd.protocol.supervision import processes

SPARED_BYTES = 1 << 30  # of the disk: a program that fills it ends before the machine does

_SHARE = 200  # looking takes at most this part of the time: 0.5 % of a core
_LONGEST_PAUSE_SECONDS = 2.0  # between looks at processes, of however many: some limits are held by nothing else
_BLOCK_BYTES = 512  # the unit of st_blocks, on every file system


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look."""

    active_seconds: float  # since the program was started
    left_seconds: float | None  # until the deadline; None without one
    processes: int
    memory_bytes: int  # of their own, all together
    cpu_seconds: float
    printed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is looked at on the disk while a program runs."""

    folders: tuple[Path, ...] = ()
    folder_bytes: int | None = None  # the most that each may hold
    free_bytes: int = 0  # what is to be left of the file system of each


@dataclass(slots=True)
class _Seldom:
    """A look that is left out while it would take too large a share of the time."""

    look: Callable[[], None]
    longest_pause_seconds: float = float("inf")
    due: float = 0.0

    def __call__(self) -> None:
        began = time.monotonic()
        if began >= self.due:
            self.look()
            ended = time.monotonic()
            self.due = ended + min(_SHARE * (ended - began), self.longest_pause_seconds)


class Meter:
    """Looks at everything below a first process."""

    def __init__(
        self, *, pid: int, group: Group | None, limits: Limits, watch: Watch, scratch: tuple[Path, ...]
    ) -> None:
        self._pid = pid
        self._group = group
        self._limits = limits
        self._watch = watch
        self._most_bytes = dict.fromkeys(watch.folders, watch.folder_bytes)
        self._most_bytes |= dict.fromkeys(scratch, limits.scratch_bytes)
        self._folder_bytes: dict[Path, int] = {}
        self._looks = (
            _Seldom(self._look_at_processes, longest_pause_seconds=_LONGEST_PAUSE_SECONDS),
            _Seldom(self._look_at_folders),
        )
        self.pids: tuple[int, ...] = ()
        self.most_processes = 0
        self.memory_bytes = 0
        self.cpu_seconds = 0.0

    def look(self) -> None:
        """The figures are as new as their share of the time allows."""
        for look in self._looks:
            look()

    def passed(self) -> str | None:
        """Which limit has been passed, as far as only looking holds it; None: none."""
        held = self._group.held if self._group else {}
        figures = {"processes": len(self.pids), "memory_bytes": self.memory_bytes}
        for name, figure in figures.items():
            most = getattr(self._limits, name)
            if most is not None and name not in held and figure > most:
                return f"{name}: {figure:,}, and {most:,} are allowed"
        for folder, size in self._folder_bytes.items():
            most = self._most_bytes[folder]
            if most is not None and size > most:
                return f"{folder} holds {size:,} bytes, and {most:,} are allowed"
        for folder in self._watch.folders:
            if (free := _free_bytes(folder)) < self._watch.free_bytes:
                return f"{free:,} bytes are free for {folder}, and {self._watch.free_bytes:,} are to be left"
        return None

    def members(self) -> tuple[int, ...]:
        """Everything below the first process now; zombies too."""
        if self._group is not None:
            return tuple(pid for pid in self._group.members() if pid != self._pid)
        return processes.descendants(self._pid)

    def _look_at_processes(self) -> None:
        self.pids = self.members()
        self.most_processes = max(self.most_processes, len(self.pids))
        self.memory_bytes = sum(map(processes.memory_bytes, self.pids))
        used = sum(map(processes.cpu_seconds, (self._pid, *self.pids)))
        self.cpu_seconds = max(self.cpu_seconds, used)

    def _look_at_folders(self) -> None:
        self._folder_bytes = {
            folder: folder_bytes(folder) for folder, most in self._most_bytes.items() if most is not None
        }


def held_by(launch: Launch, by_group: Mapping[str, str]) -> dict[str, str]:
    """What holds each limit that was asked for."""
    limits = launch.orders.limits
    asked = {name: getattr(limits, name) for name in ("processes", "memory_bytes", "file_bytes", "scratch_bytes")}
    otherwise = {
        "processes": "looks" if os.geteuid() == 0 else "RLIMIT_NPROC and looks",  # it doesn't hold for root
        "memory_bytes": "RLIMIT_DATA of each process, and looks",
        "file_bytes": "RLIMIT_FSIZE",
        "scratch_bytes": "size of the file system in memory" if launch.own_processes else "looks",
    }
    return {name: by_group.get(name, otherwise[name]) for name, most in asked.items() if most is not None}


def folder_bytes(folder: Path) -> int:
    """What a folder and all below it take on the disk; what vanishes meanwhile counts nothing."""
    total = 0
    due = [str(folder)]
    while due:
        with suppress(OSError), os.scandir(due.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        due.append(entry.path)
    return total


def _free_bytes(folder: Path) -> int:
    """What an ordinary user may still write there."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
