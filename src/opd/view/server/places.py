"""Files below the given folders, and none beside them: opened name by name, and no link followed.

A path is never taken from a request alone. It comes from the index, which found it, and from names in records, which
may be a stranger's. So it is opened from its root down, each part without following a link, and what then is open is
looked at: a folder, a FIFO or a device is no file. What a name leads to in between two looks makes no difference.
"""

import errno
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from opd.view.server.answers import Gone, Unreadable

_STEP = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE = _STEP | os.O_NONBLOCK  # a FIFO without a writer opens at once, and is then refused
_LINK = {errno.ELOOP, errno.ENOTDIR}  # what a link comes to where none is followed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What tells that a file is still the one that was read."""

    device: int
    inode: int
    size: int  # bytes
    changed_ns: int  # POSIX, nanoseconds

    def grew_from(self, before: "Stamp") -> bool:
        """Whether this may be the same file with something added at its end."""
        return (self.device, self.inode) == (before.device, before.inode) and self.size >= before.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder below a root."""

    root: Path  # absolute, without links
    inside: PurePosixPath  # relative to it

    def __post_init__(self) -> None:
        if self.inside.is_absolute() or ".." in self.inside.parts:
            raise Gone(f"{self.inside} leads out of its folder")

    @property
    def path(self) -> Path:
        """Where it is, for what takes paths only."""
        return self.root / self.inside

    def at(self, *names: str) -> "Place":
        """What lies below it; a name may have several parts. Raises `Gone` for one that leads out."""
        if any("\0" in name for name in names):
            raise Gone(f"{'/'.join(names)!a} is no name of a file")
        return Place(root=self.root, inside=self.inside.joinpath(*names))

    def open(self, *, buffering: int = -1) -> BinaryIO:
        """The file, for reading. Raises `Gone` where none is, and `Unreadable` for a link and all that is no file."""
        with ExitStack() as stack:
            descriptor = self._descend(stack)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(f"{self.path} is no file")
            return os.fdopen(os.dup(descriptor), "rb", buffering)

    def read(self, *, most: int) -> bytes:
        """All of the file; raises `Unreadable` for one of more than so many bytes."""
        with self.open() as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise Unreadable(f"{self.path} has more than {most:,} bytes, too many for a page")
        return data

    def names(self) -> list[str]:
        """What lies in the folder, in order; nothing where there is no such folder."""
        try:
            with ExitStack() as stack:
                return sorted(os.listdir(self._descend(stack, file=False)))  # noqa: PTH208  an open folder
        except (Gone, Unreadable):
            return []

    def stamp(self) -> Stamp | None:
        """Of the file; None where there is none that may be read."""
        try:
            with self.open() as file:
                return stamp_of(file)
        except (Gone, Unreadable, OSError):
            return None

    def why_closed(self) -> str | None:
        """Why a file or folder that is there can't be read, in a sentence; None where it can be.

        None as well where nothing is, and for a link, which is not followed. What is closed and what isn't there have
        neither a `stamp` nor `names`; a page must not show them alike.
        """
        try:
            with ExitStack() as stack:
                self._descend(stack)
        except (Gone, FileNotFoundError):
            return None
        except Unreadable as error:
            cause = error.__cause__
            return None if isinstance(cause, OSError) and cause.errno in _LINK else str(error)
        except OSError as error:  # of the root
            return f"{self.root} can't be read: {error.strerror}"
        return None

    def _descend(self, stack: ExitStack, *, file: bool = True) -> int:
        parts = self.inside.parts
        descriptor = _kept(stack, os.open(self.root, _STEP | os.O_DIRECTORY))
        for depth, part in enumerate(parts, start=1):
            last = file and depth == len(parts)
            try:
                step = os.open(part, _FILE if last else _STEP | os.O_DIRECTORY, dir_fd=descriptor)
            except FileNotFoundError:
                raise Gone(f"{self.path} is not there") from None
            except OSError as error:  # EACCES: no right to it; ENXIO: a socket
                also = "; links are not followed" if error.errno in _LINK else ""
                raise Unreadable(f"{self.path} can't be read: {error.strerror}{also}") from error
            descriptor = _kept(stack, step)
        return descriptor


def stamp_of(file: BinaryIO) -> Stamp:
    """Of an open file."""
    status = os.fstat(file.fileno())
    return Stamp(device=status.st_dev, inode=status.st_ino, size=status.st_size, changed_ns=status.st_mtime_ns)


def _kept(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor
