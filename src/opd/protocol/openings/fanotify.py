"""Openings by the kernel's own notices: every file that is opened on a marked file system, by whichever name.

A notice holds a process and an open descriptor of the file, so that neither a link nor a mount nor a removal hides
which file it was. What is not seen: a file that was open before, and /proc, /sys and /dev.

At first whole file systems are marked, and the notices of other processes than the tree's passed over. A tree that
has mounts of its own has those marked instead, as soon as its program is seen: then the notices are its alone, and
nothing that others do costs anybody anything.

Needs CAP_SYS_ADMIN in the machine's first user namespace.
"""

import ctypes
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from opd.protocol.openings.kinship import Kin, Kinship, mounts_with_files
from opd.protocol.openings.sighting import Sighting

_CLOSE_ON_EXEC, _NONBLOCKING, _UNLIMITED_QUEUE = 0x1, 0x2, 0x10
_ADD, _FLUSH, _MOUNT, _FILE_SYSTEM, _HERE = 0x1, 0x80, 0x10, 0x100, -100
_OPEN, _OPEN_TO_EXECUTE, _OVERFLOW = 0x20, 0x1000, 0x4000
_NOTICE = struct.Struct("=IBBHQii")  # length, version, reserved, header length, what, descriptor, process
_VERSION = 3
_BUFFER_BYTES = 1 << 16
_BETWEEN_READS_SECONDS = 0.05  # where nothing has to be caught alive: the kernel makes one of equal notices meanwhile
# Without waiting and without a trace: a notice's descriptor is opened anew, also of a FIFO.
_DESCRIPTOR_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOATIME
_DELETED = " (deleted)"


class NotAllowed(OSError):
    """The kernel has no such notices, or not for this process."""


class Notices:
    """Notices of this machine's file systems, from its making on; `close` ends them."""

    def __init__(self, *, queue_is_limited: bool = False) -> None:
        """Raises `NotAllowed`."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.fanotify_mark.argtypes = (
            ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p,
        )  # fmt: skip
        flags = _CLOSE_ON_EXEC | _NONBLOCKING | (0 if queue_is_limited else _UNLIMITED_QUEUE)
        self.descriptor = self._libc.fanotify_init(flags, _DESCRIPTOR_FLAGS)
        if self.descriptor < 0:
            number = ctypes.get_errno()
            raise NotAllowed(number, f"fanotify: {os.strerror(number)}")
        self.devices: set[int] = set()
        self.without: dict[str, str] = {}  # file systems that can't be marked, with the reason
        for point in mounts_with_files("self").values():
            self._mark(point)

    def covers(self, path: Path) -> bool:
        """Whether the file system of this path is marked."""
        return path.stat().st_dev in self.devices

    def read(self) -> list[tuple[int, int, int]]:
        """What, descriptor and process of notices that are there now. Raises `OSError` for one that is lost."""
        try:
            data = os.read(self.descriptor, _BUFFER_BYTES)
        except BlockingIOError:
            return []
        found, place = [], 0
        while place < len(data):
            length, version, _, _, what, descriptor, process = _NOTICE.unpack_from(data, place)
            assert version == _VERSION, f"fanotify: notices of version {version}, and {_VERSION} is understood"
            found.append((what, descriptor, process))
            place += length
        return found

    def narrow(self, pid: int, mounts: Iterable[str]) -> bool:
        """Whether notices from now on come from these mounts of this process alone; else all is as it was."""
        root = f"/proc/{pid}/root"
        if not all(self._marked(_MOUNT, f"{root}{point}") for point in mounts):
            self._libc.fanotify_mark(self.descriptor, _FLUSH | _MOUNT, 0, _HERE, None)
            return False
        self._libc.fanotify_mark(self.descriptor, _FLUSH | _FILE_SYSTEM, 0, _HERE, None)
        return True

    def stop(self) -> None:
        """No more notices than those that wait to be read."""
        for kind in (_MOUNT, _FILE_SYSTEM):
            self._libc.fanotify_mark(self.descriptor, _FLUSH | kind, 0, _HERE, None)

    def close(self) -> None:
        """What was not read is gone."""
        os.close(self.descriptor)

    def _mark(self, point: str) -> None:
        try:
            device = Path(point).stat().st_dev
        except OSError:
            return  # not to be reached from here, so not to be shown to anybody either
        if device in self.devices:
            return
        if self._marked(_FILE_SYSTEM, point):
            self.devices.add(device)
        else:
            self.without[point] = os.strerror(ctypes.get_errno())

    def _marked(self, kind: int, path: str) -> bool:
        what = _OPEN | _OPEN_TO_EXECUTE
        done: int = self._libc.fanotify_mark(self.descriptor, _ADD | kind, what, _HERE, os.fsencode(path))
        return done == 0


class Watcher:
    """A thread that reads the notices and gives each sighting of the tree with this mark to `seen`."""

    def __init__(self, notices: Notices, *, mark: str, seen: Callable[[Sighting], None]) -> None:
        self._notices = notices
        self._kinship = Kinship(mark)
        self._seen = seen
        self._undecided: list[tuple[Kin | None, Sighting]] = []  # from before the tree's root was known
        self._narrowed = False
        self.lost = 0  # notices that could not be read; each may stand for several
        self.overflowed = False
        self.broken: BaseException | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, notices are read as they come; at the end those that are left."""
        over, wake = os.pipe()
        thread = threading.Thread(target=self._run, args=(over,), name="opened files", daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.close(wake)
            thread.join()
            os.close(over)
            self._settle()
        if self.broken is not None:
            raise self.broken

    def _run(self, over: int) -> None:
        try:
            poll = select.poll()
            poll.register(self._notices.descriptor, select.POLLIN)
            poll.register(over, select.POLLHUP)
            last = False
            while not last:
                last = any(descriptor == over for descriptor, _ in poll.poll())
                if last:
                    self._notices.stop()  # else one would read for ever where others open files without end
                while self._take():
                    pass
                if self._narrowed and not last:
                    time.sleep(_BETWEEN_READS_SECONDS)
        except BaseException as error:
            self.broken = error
            raise

    def _take(self) -> bool:
        """Whether there was anything to read."""
        try:
            notices = self._notices.read()
        except OSError:  # the file of the first notice can't be opened anew, and the kernel has dropped it
            self.lost += 1
            return True
        for what, descriptor, pid in notices:
            if what & _OVERFLOW:
                self.overflowed = True
            elif descriptor < 0:
                self.lost += 1
            else:
                self._look_and_close(what, descriptor, pid)
        return bool(notices)

    def _look_and_close(self, what: int, descriptor: int, pid: int) -> None:
        try:
            self._look(what, descriptor, pid)
        except OSError:
            self.lost += 1
        finally:
            os.close(descriptor)

    def _look(self, what: int, descriptor: int, pid: int) -> None:
        if pid in {0, os.getpid()}:  # 0: outside of this process namespace
            return
        at = time.time()
        executed = bool(what & _OPEN_TO_EXECUTE)
        kin = self._kinship.of(pid)  # first of all, for it may be about to end
        mount = _mount_of(descriptor) if kin is None or self._kinship.mounts else None
        if mount in self._kinship.mounts:
            belongs: bool | None = True  # whoever it was: nobody else has these mounts
        elif kin:
            belongs = self._kinship.belongs(kin, executes=executed)
            self._narrow(pid)
        else:
            belongs = False if self._kinship.mounts else None
        if belongs is False:
            return
        status = os.fstat(descriptor)
        sighting = Sighting(
            path=_path_of(descriptor, status, self._kinship.mounts.get(mount) if mount else None),
            device=status.st_dev,
            inode=status.st_ino,
            executed=executed,
            realtime=at,
            certain=belongs is True,
            by=kin.name if kin else "",
        )
        if belongs:
            self._seen(sighting)
        else:
            self._undecided.append((kin, sighting))

    def _narrow(self, pid: int) -> None:
        if self._kinship.mounts and not self._narrowed:
            self._narrowed = self._notices.narrow(pid, self._kinship.mounts.values())

    def _settle(self) -> None:
        """What could not be told when it was seen: now the root is known, and who is its descendant."""
        for kin, sighting in self._undecided:
            belongs = self._kinship.belongs(kin) if kin else None
            if belongs is not False:
                self._seen(replace(sighting, certain=belongs is True))
        self._undecided.clear()


def _path_of(descriptor: int, status: os.stat_result, mount_point: str | None) -> str:
    """By the program's own mounts. When those are gone the system gives the path below the mount alone."""
    path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    if status.st_nlink == 0:
        path = path.removesuffix(_DELETED)
    if mount_point is None or path == mount_point or path.startswith(mount_point.rstrip("/") + "/"):
        return path
    return mount_point if path == "/" else mount_point + path


def _mount_of(descriptor: int) -> int | None:
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("mnt_id:")).split()[1])
    return None
