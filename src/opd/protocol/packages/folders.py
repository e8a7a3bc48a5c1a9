"""Reading a task's folder, whoever made it: nothing of it runs, no link leads out of it, and reading ends.

A file is read up to a size; a link is followed as far as it stays inside; devices and FIFOs are named, never opened;
a walk stops after so many names.
"""

import os
import stat
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from opd.records.errors import AskedWrongly

LARGEST_TEXT_BYTES = 1 << 20  # a task's longest text has some tens of kilobytes
MOST_NAMES = 20_000
DEEPEST = 40


def read_text(folder: Path, name: str, *, largest_bytes: int = LARGEST_TEXT_BYTES) -> str:
    """The text of a file in the folder; raises `AskedWrongly`, naming the reason, for whatever is none."""
    path = folder / name
    if (fault := _unreadable(folder, path, largest_bytes)) is not None:
        raise AskedWrongly(f"{path} {fault}")
    with path.open("rb") as file:
        content = file.read(largest_bytes + 1)
    if len(content) > largest_bytes:
        raise AskedWrongly(f"{path} grows beyond {largest_bytes:,} bytes while it is read; it is not read")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AskedWrongly(f"{path} is not UTF-8 at byte {error.start:,}; it is not read") from error


def has(folder: Path, name: str) -> bool:
    """Whether anything of this name is in the folder, be it a broken link."""
    return os.path.lexists(folder / name)


def texts(folder: Path, *, leave_out: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """The relative path and the text of every file that is a text of bounded size; the rest is passed over.

    `leave_out` are names in the folder itself that are passed over too, with all below them.
    """
    for path, inside in islice(_walk(folder, ""), MOST_NAMES):
        if inside.partition("/")[0] in leave_out or path.is_symlink() or not path.is_file():
            continue
        try:
            yield inside, read_text(folder, inside)
        except AskedWrongly:
            continue


def faults(folder: Path) -> Iterator[tuple[str, str]]:
    """The relative path and the fault of what keeps the folder from being a closed tree of files."""
    for number, (path, inside) in enumerate(_walk(folder, "")):
        if number == MOST_NAMES:
            yield inside, f"comes after {MOST_NAMES:,} other names; no more are looked at"
            return
        if (what := _fault(folder, path, inside)) is not None:
            yield inside, what


def size_bytes(folder: Path) -> int | None:
    """How many bytes the folder's files have together; None for one with too many names to be counted."""
    total = 0
    for number, (path, _) in enumerate(_walk(folder, "")):
        if number == MOST_NAMES:
            return None
        status = path.lstat()
        total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total


def _unreadable(folder: Path, path: Path, largest_bytes: int) -> str | None:
    """Why a file is not read, or None."""
    try:
        real = path.resolve(strict=True)
        status = real.stat()
    except FileNotFoundError:
        return "is a link that leads nowhere; it is not read" if path.is_symlink() else "does not exist"
    except (OSError, RuntimeError) as error:  # a circle of links is a RuntimeError up to Python 3.12
        return f"can't be followed ({getattr(error, 'strerror', None) or error}); it is not read"
    if not real.is_relative_to(folder.resolve()):
        return "leads out of the folder; it is not read"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file; it is not read"
    if status.st_size > largest_bytes:
        return f"has {status.st_size:,} bytes, more than the {largest_bytes:,} of a text here; it is not read"
    return None


def _walk(folder: Path, prefix: str) -> Iterator[tuple[Path, str]]:
    """Every name below the folder, links not followed, in order; a folder that lies too deep is not entered."""
    with os.scandir(folder) as there:
        found = sorted(there, key=lambda entry: entry.name)
    for entry in found:
        inside = f"{prefix}{entry.name}"
        yield Path(entry.path), inside
        if entry.is_dir(follow_symlinks=False) and inside.count("/") < DEEPEST:
            yield from _walk(Path(entry.path), f"{inside}/")


def _fault(folder: Path, path: Path, inside: str) -> str | None:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return "is a link that leads nowhere or in a circle"
        if not real.is_relative_to(folder.resolve()):
            return f"is a link that leads out of the task, to {path.readlink()}"
        return "is a link to a folder that it lies in" if path.parent.resolve().is_relative_to(real) else None
    if stat.S_ISDIR(mode):
        return f"lies {DEEPEST} folders deep; no deeper is looked" if inside.count("/") >= DEEPEST else None
    return None if stat.S_ISREG(mode) else "is neither a file nor a folder"
