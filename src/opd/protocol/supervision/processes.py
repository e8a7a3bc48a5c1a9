"""Processes, told apart for certain, and ended for certain.

A process is its number together with the moment when it began and the start of the machine that both belong to:
numbers are used again. One whose parent has not yet taken in its exit status keeps its number and is dead.
"""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import NonNegativeInt, PositiveInt

from opd.protocol.clock import boot_id
from opd.records.settings import Settings

MARK = "OPD_ATTEMPT_MARK"  # a variable that everything which an attempt starts inherits

_PROC = Path("/proc")
_DEAD = frozenset("ZXx")
_LONGEST_COMMAND = 300  # characters of a command line that are kept
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BETWEEN_LOOKS_SECONDS = 0.002
_GONE = (FileNotFoundError, ProcessLookupError)  # what a file below /proc says of a process that has just ended


class Life(Settings):
    """One process, from its start to its end."""

    pid: PositiveInt
    start_ticks: NonNegativeInt
    """When it began, in clock ticks since the machine started."""
    boot_id: str
    """Which start of the machine that was."""
    command: str = ""
    """Its command line when it was looked at: for people. A process can change it, so nothing is told by it."""

    def lives(self) -> bool:
        """Whether this very process runs on this machine now; a zombie doesn't."""
        stat = _stat(self.pid)
        return (
            stat is not None
            and stat.state not in _DEAD
            and stat.start_ticks == self.start_ticks
            and self.boot_id == boot_id()
        )

    def signal(self, number: int) -> bool:
        """Whether it got this signal; never a stranger that has taken over its number."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if not self.lives():  # looked at after the handle was taken, so both mean the same process
                return False
            signal.pidfd_send_signal(handle, number)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    def forbid_forks(self) -> None:
        """It starts no further process, where it isn't root's; nothing happens to a stranger with its number."""
        if self.lives():  # a limit that is lowered can't be raised again, so this looks first
            with suppress(OSError):
                resource.prlimit(self.pid, resource.RLIMIT_NPROC, (0, 0))


class _Stat:
    """What `/proc/PID/stat` says: the name in it may hold blanks and brackets, so it is cut at the last one."""

    __slots__ = ("cpu_ticks", "parent", "start_ticks", "state")

    def __init__(self, text: str) -> None:
        fields = text[text.rindex(")") + 2 :].split()
        self.state = fields[0]
        self.parent = int(fields[1])
        self.cpu_ticks = sum(int(field) for field in fields[11:15])  # its own, and of children it has waited for
        self.start_ticks = int(fields[19])


def life_of(pid: int) -> Life:
    """The process of this number; raises `ProcessLookupError` where none lives."""
    if (life := find(pid)) is None:
        raise ProcessLookupError(f"there is no living process {pid}")
    return life


def find(pid: int) -> Life | None:
    """The process of this number; None where there is none, or a dead one."""
    stat = _stat(pid)
    if stat is None or stat.state in _DEAD:
        return None
    return Life(pid=pid, start_ticks=stat.start_ticks, boot_id=boot_id(), command=command_of(pid))


def command_of(pid: int) -> str:
    """Its command line on one line, cut where it is long; the name in brackets where it has none; "" when gone."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        text = " ".join(word.decode(errors="replace") for word in words).strip()
        return " ".join(text.split())[:_LONGEST_COMMAND] or f"[{(_PROC / str(pid) / 'comm').read_text().strip()}]"
    except OSError:
        return ""


def descendants(pid: int) -> tuple[int, ...]:
    """The children of a process, their children, and so on; zombies too. What is orphaned belongs to its adopter."""
    found: dict[int, None] = {}
    due = [pid]
    while due:
        for child in children(due.pop()):
            if child not in found:
                found[child] = None
                due.append(child)
    return tuple(found)


def children(pid: int) -> list[int]:
    """The children of a process, by all of its threads."""
    folder = _PROC / str(pid) / "task"
    found: list[int] = []
    try:
        for thread in folder.iterdir():
            with suppress(*_GONE):
                found += map(int, (thread / "children").read_text().split())
    except _GONE:
        pass
    return found


def numbers() -> list[int]:
    """The number of every process that can be seen from here."""
    return [int(place.name) for place in _PROC.iterdir() if place.name.isdecimal()]


def marked(mark: str) -> tuple[Life, ...]:
    """Every living process, but this one, that was started with this `OPD_ATTEMPT_MARK` in its environment.

    A process can wipe its own environment; one that did is not found. Others' processes can't be looked into.
    """
    sought = f"{MARK}={mark}".encode()
    found = []
    for pid in numbers():
        with suppress(OSError):
            if pid != os.getpid() and sought in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(find(pid))
    return tuple(filter(None, found))


def lives_of(pids: Iterable[int]) -> tuple[Life, ...]:
    """Those of these processes that live."""
    return tuple(life for pid in pids if (life := find(pid)) is not None)


def cpu_seconds(pid: int) -> float:
    """Processor time that it used, with what its ended children did; 0 when it is gone."""
    stat = _stat(pid)
    return stat.cpu_ticks / _TICKS_A_SECOND if stat else 0.0


def memory_bytes(pid: int) -> int:
    """Memory of its own that it holds, without what it shares with files and others; 0 when it is gone."""
    try:
        fields = (_PROC / str(pid) / "statm").read_text().split()
    except OSError:
        return 0
    return max(0, int(fields[1]) - int(fields[2])) * _PAGE_BYTES


def end(who: Callable[[], Iterable[Life]], *, patience_seconds: float = 5.0) -> tuple[Life, ...]:
    """Kills whoever is named, asks again, and so on until nobody is; gives those whom it couldn't end in time.

    Asked again because a process may fork while it is being looked at. One that was seen can start no further
    process, where it isn't root's: so a chain of processes, each of which starts the next and ends, is caught up.
    """
    ending = time.monotonic() + patience_seconds
    while living := tuple(who()):
        for life in living:
            life.forbid_forks()
            life.signal(signal.SIGKILL)
        if time.monotonic() >= ending:
            return tuple(life for life in living if life.lives())
        time.sleep(_BETWEEN_LOOKS_SECONDS)
    return ()


def _stat(pid: int) -> _Stat | None:
    try:
        return _Stat((_PROC / str(pid) / "stat").read_text(errors="replace"))
    except (*_GONE, ValueError):
        return None
