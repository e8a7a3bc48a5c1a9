"""What is in a workspace, read from the disk while its owner may still be at work in it, and may mean harm.

Every folder and file is opened by its last name alone, below the open folder that it was listed in, and never through
a link. So no name, however it is swapped in the meantime, leads out of the workspace: of a single name, O_NOFOLLOW
says what `openat2` would by RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, and every kernel has it.
What is not a regular file, has a second name, or changes while it is read becomes a refusal: nothing is waited for.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NoReturn

from opd.protocol.patches.refusals import Refusal, Rule
from opd.protocol.patches.source import SourceFile, Tree, shown

REPOSITORY = ".git"  # of the workspace: whatever it has become, it is neither read nor believed

# Sources are far below these; what is above them is not read, so that nobody's memory is filled.
LARGEST_FILE_BYTES = 16 << 20
MOST_CHANGED_BYTES = 64 << 20
MOST_NAMES = 100_000
MOST_DEPTH = 64  # folders in folders

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WAIT = "end what writes to it, and submit again"
_SWAPPED = {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ESTALE}  # another thing than was listed
_SPECIAL = {stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO swapped in doesn't wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The regular files of a workspace, and what in it was refused and is therefore not among them."""

    files: Tree
    refusals: tuple[Refusal, ...]


def collect(workspace: Path, *, base: Tree, outputs: Collection[PurePosixPath] = ()) -> Collected:
    """The files as they are on the disk, whatever the workspace's own repository says of them.

    A file that is as in `base` is the very object of `base`, so that only what changed takes memory. `outputs` are
    the folders that programs write to: they are left out with all below them.
    """
    walk = _Walk(base=base, outputs=frozenset(outputs))
    with suppress(_TooMuch), _opened(str(workspace), _FOLDER) as folder:
        walk.folder(folder, PurePosixPath())
    return Collected(files=walk.files, refusals=tuple(walk.refusals))


class _TooMuch(Exception):
    """The walk has come to its bounds, said so, and ends."""


@dataclass(slots=True, kw_only=True)
class _Walk:
    base: Tree
    outputs: frozenset[PurePosixPath]
    files: dict[PurePosixPath, SourceFile] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    names: int = 0
    changed_bytes: int = 0

    def folder(self, folder: int, place: PurePosixPath) -> None:
        if len(place.parts) > MOST_DEPTH:
            self.stop(place, f"lies in more than {MOST_DEPTH} folders")
        with os.scandir(folder) as listing:
            names = sorted(entry.name for entry in islice(listing, MOST_NAMES - self.names + 1))
        if not names and place.name:
            self.refuse(
                place, Rule.EMPTY_FOLDER, "an empty folder, which a patch can't carry", "remove it, or fill it"
            )
        for name in names:
            self.name(folder, name, place / name)

    def name(self, folder: int, name: str, path: PurePosixPath) -> None:
        self.names += 1
        if self.names > MOST_NAMES:
            self.stop(path, f"is one name too many: the workspace has more than {MOST_NAMES:,}")
        if str(path) == REPOSITORY or path in self.outputs:
            return
        if name.casefold() == REPOSITORY:
            self.refuse(path, Rule.REPOSITORY, "a repository of its own", "remove it; its files may stay")
            return
        try:
            self.open(folder, name, path)
        except PermissionError:
            self.refuse(path, Rule.READABLE, "can't be read", "chmod u+r it, and its folder u+rx")
        except OSError as error:
            if error.errno not in _SWAPPED:
                raise
            self.refuse(path, Rule.STEADY, f"changed when it was opened ({error.strerror})", _WAIT)

    def open(self, folder: int, name: str, path: PurePosixPath) -> None:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            with _opened(name, _FOLDER, folder) as inner:
                self.folder(inner, path)
        elif stat.S_ISREG(mode):
            with _opened(name, _FILE, folder) as file:
                self.file(file, path)
        elif stat.S_ISLNK(mode):
            self.refuse(path, Rule.LINK, "a symbolic link", "put the file itself there")
        else:
            self.refuse(path, Rule.SPECIAL, f"a {_SPECIAL.get(stat.S_IFMT(mode), 'special file')}", "remove it")

    def file(self, file: int, path: PurePosixPath) -> None:
        before, known = os.fstat(file), self.base.get(path)
        if not stat.S_ISREG(before.st_mode):
            self.refuse(path, Rule.STEADY, "was a file, and then was none", _WAIT)
            return
        if before.st_nlink > 1:
            found = f"one of {before.st_nlink} hard links to the same file"
            self.refuse(path, Rule.HARD_LINK, found, "put a copy there: cp it, and move the copy over it")
            return
        if before.st_size > LARGEST_FILE_BYTES and (known is None or len(known.content) != before.st_size):
            found = f"{before.st_size:,} bytes, which is more than the {LARGEST_FILE_BYTES:,} that are read"
            self.refuse(path, Rule.FILE_SIZE, found, "move it out of the workspace: a submission is source")
            return
        with open(file, "rb", buffering=0, closefd=False) as reader:
            content = reader.read(before.st_size + 1)
        if _version(os.fstat(file)) != _version(before) or len(content) != before.st_size:
            self.refuse(path, Rule.STEADY, "changed while it was read", _WAIT)
            return
        self.keep(path, SourceFile(content=content, executable=bool(before.st_mode & stat.S_IXUSR)), known)

    def keep(self, path: PurePosixPath, file: SourceFile, known: SourceFile | None) -> None:
        if file == known:
            self.files[path] = known
            return
        self.changed_bytes += len(file.content)
        if self.changed_bytes > MOST_CHANGED_BYTES:
            self.stop(path, f"brings what was changed to more than {MOST_CHANGED_BYTES:,} bytes")
        self.files[path] = file

    def refuse(self, path: PurePosixPath, rule: Rule, found: str, remedy: str) -> None:
        self.refusals.append(Refusal(path=shown(path), rule=rule, found=found, remedy=remedy))

    def stop(self, path: PurePosixPath, found: str) -> NoReturn:
        remedy = "move what is no source out of the workspace; nothing behind this was looked at"
        self.refuse(path, Rule.BOUNDED, found, remedy)
        raise _TooMuch


@contextmanager
def _opened(name: str, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _version(status: os.stat_result) -> tuple[int, ...]:
    """What a write changes."""
    return status.st_mode, status.st_nlink, status.st_size, status.st_mtime_ns, status.st_ctime_ns
