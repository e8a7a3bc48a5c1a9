"""Folders that a stranger filled: opened without following anything, read with a limit, trusted in nothing.

Every file is opened by its name in the folder's own descriptor, so that no link and no renamed folder leads
elsewhere, and without waiting, so that no FIFO holds anybody up. What a stranger did is `Strange`; what the machine
did, such as a disk that can't be read, is an `OSError` and passes through.
"""

import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.records.checkpoints import Rule

_KINDS = {
    errno.ELOOP: (Rule.LINK, "a symbolic link"),
    errno.ENXIO: (Rule.SPECIAL, "a socket or a FIFO"),
    errno.ENODEV: (Rule.SPECIAL, "a device that is not there"),
    errno.EACCES: (Rule.UNREADABLE, "closed to its reader"),
}


class Strange(Exception):  # what it says, not that somebody erred
    """A rule that a stranger's file breaks."""

    def __init__(self, rule: Rule, says: str) -> None:
        super().__init__(says)
        self.rule = rule
        self.says = says


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """An open folder."""

    path: Path
    descriptor: int
    follows: bool  # links are followed: in a folder of our own, such as one of a hub's cache

    def names(self, *, most: int) -> list[str]:
        """All names in it, in order; `Strange` when there are more than `most`."""
        found: list[str] = []
        with os.scandir(self.descriptor) as entries:
            for entry in entries:
                if len(found) == most:
                    raise Strange(Rule.ENTRIES, f"more than {most:,} entries; a checkpoint has a handful")
                found.append(entry.name)
        return sorted(found)

    def status(self, name: str) -> os.stat_result:
        """What stands under a name, a link not followed."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=self.follows)

    @contextmanager
    def file(self, name: str) -> Iterator[int]:
        """A descriptor to read a regular file by; `Strange` for anything else but a name that is not there."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if self.follows else os.O_NOFOLLOW)
        try:
            descriptor = os.open(name, flags, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno not in _KINDS:
                raise
            rule, what = _KINDS[error.errno]
            raise Strange(rule, f"it is {what}; a checkpoint consists of plain files") from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Strange(Rule.SPECIAL, "it is no file; a checkpoint consists of plain files")
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, name: str, *, largest: int) -> bytes:
        """A file's bytes; `Strange` when there are more than `largest`."""
        with self.file(name) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > largest:
                raise Strange(Rule.SIZE, f"{size:,} bytes; at most {largest:,} are read")
            return read_exactly(descriptor, offset=0, size=size)

    def object(self, name: str, *, largest: int) -> dict[str, Any]:
        """The JSON object that a file holds; `Strange` when it holds something else."""
        return parse_object(self.read(name, largest=largest))


@contextmanager
def opened(path: Path, *, follows: bool = False) -> Iterator[Folder]:
    """The folder, open; `Strange` when the path is a link or no folder."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except (NotADirectoryError, FileNotFoundError) as error:  # a link is none either, when not followed
        raise Strange(Rule.SPECIAL, f"{path.name} is not a folder") from error
    try:
        yield Folder(path=path, descriptor=descriptor, follows=follows)
    finally:
        os.close(descriptor)


def read_exactly(descriptor: int, *, offset: int, size: int) -> bytes:
    """So many bytes from there; `Strange` when the file has become shorter."""
    room = bytearray(size)
    read_into(memoryview(room), descriptor, offset=offset)
    return bytes(room)


def read_into(room: memoryview, descriptor: int, *, offset: int) -> None:
    """The room, of bytes, is full of what the file holds from there; `Strange` when the file has become shorter."""
    while room:
        count = os.preadv(descriptor, [room], offset)
        if not count:
            raise Strange(Rule.CHANGED, "it became shorter while it was read; nobody may write to it now")
        room = room[count:]
        offset += count


def parse_object(text: bytes) -> dict[str, Any]:
    """The object that JSON text stands for; `Strange` for anything else, and for a key that is given twice."""
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise Strange(Rule.JSON, f"it is not JSON ({str(error)[:80]})") from error
    if not isinstance(value, dict):
        raise Strange(Rule.JSON, f"it holds a {type(value).__name__}, not an object")
    return value


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers may each take another of two values under one key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        double = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise Strange(Rule.JSON, f"the key {double[:80]!r} is given twice")
    return found
