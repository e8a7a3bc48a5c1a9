"""A folder as the list of what is in it, and one digest over that list: names, kinds, permissions, sizes, bytes.

Two folders with the same digest hold the same files with the same bytes and modes, the same links to the same
places and the same empty folders. Times and owners are not looked at.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path

from pydantic import NonNegativeInt

from opd.records.files import sha256
from opd.records.settings import Settings

READERS = 4  # files hashed at once: SHA-256 of one stream is slower than a disk
_PERMISSIONS = 0o7777
_ESCAPE = re.compile(rb"\\(\\|x[0-9a-f]{2})")


class Kind(StrEnum):
    """What stands under a name."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a device, a FIFO, a socket


class Entry(Settings):
    """One name in a folder."""

    path: str
    """Relative, with slashes; see `written`."""
    kind: Kind
    mode: NonNegativeInt
    """Permission bits; of a link 0."""
    bytes: NonNegativeInt = 0
    """Size of a file."""
    sha256: str = ""
    """Of a file's bytes, or of the place that a link names; empty for folders and others."""


def entries(folder: Path, *, leave_out: Iterable[str] = (), names: Iterable[str] = ()) -> tuple[Entry, ...]:
    """All that is in a folder, links not followed, in the order of the names' bytes.

    `leave_out` are relative paths that are passed over with all below them, `names` are names that are, wherever they
    stand. Raises `OSError` for what can't be read.
    """
    found = list(_walk(folder, folder, frozenset(leave_out), frozenset(os.fsencode(name) for name in names)))
    with ThreadPoolExecutor(READERS) as pool:
        return tuple(pool.map(_entry, found))


def tree_digest(found: Iterable[Entry]) -> str:
    """SHA-256, in hexadecimal, over a folder's entries, in whatever order they come."""
    outer = hashlib.sha256()
    for one in sorted(found, key=lambda entry: entry.path):
        outer.update(f"{one.path}\0{one.kind}\0{one.mode:o}\0{one.bytes}\0{one.sha256}\n".encode())
    return outer.hexdigest()


def differing(these: Iterable[Entry], those: Iterable[Entry]) -> tuple[str, ...]:
    """The paths, in order, at which two folders differ: there in one only, or another thing in the other."""
    left, right = ({entry.path: entry for entry in one} for one in (these, those))
    return tuple(sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path)))


def written(path: Path) -> str:
    r"""A relative path as text that has every path once: what is not UTF-8 stands as `\xff`, a backslash as `\\`."""
    return os.fsencode(path.as_posix()).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def meant(text: str) -> Path:
    """The relative path that `written` wrote so."""
    return Path(os.fsdecode(_ESCAPE.sub(_unescaped, text.encode())))


def _unescaped(found: re.Match[bytes]) -> bytes:
    return b"\\" if found[1] == b"\\" else bytes.fromhex(found[1][1:].decode())


def _walk(folder: Path, root: Path, left_out: frozenset[str], names: frozenset[bytes]) -> Iterator[tuple[Path, str]]:
    for name in sorted(set(os.listdir(os.fsencode(folder))) - names):  # noqa: PTH208  names as bytes, whatever they are
        path = folder / os.fsdecode(name)
        text = written(path.relative_to(root))
        if text in left_out:
            continue
        yield path, text
        if stat.S_ISDIR(path.lstat().st_mode):
            yield from _walk(path, root, left_out, names)


def _entry(found: tuple[Path, str]) -> Entry:
    path, text = found
    status = path.lstat()
    mode = status.st_mode & _PERMISSIONS
    if stat.S_ISREG(status.st_mode):
        return Entry(path=text, kind=Kind.FILE, mode=mode, bytes=status.st_size, sha256=sha256(path))
    if stat.S_ISLNK(status.st_mode):
        place = hashlib.sha256(os.readlink(os.fsencode(path))).hexdigest()  # noqa: PTH115  as bytes
        return Entry(path=text, kind=Kind.LINK, mode=0, sha256=place)
    return Entry(path=text, kind=Kind.FOLDER if stat.S_ISDIR(status.st_mode) else Kind.OTHER, mode=mode)
