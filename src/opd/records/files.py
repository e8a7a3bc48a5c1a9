"""Reading and writing files so that what looks whole is whole.

A file is written under a temporary name, flushed to the disk, and renamed. A folder is filled under
`<name>.partial`, flushed, marked by `.complete`, which holds the digest of every file, and renamed last.

    checkpoint-20.partial/    being written, or left by a crash: never read
    checkpoint-20/            renamed into place in one step, when everything is on the disk
        config.json …
        .complete             {"files": {"config.json": "sha256…"}}
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from opd.records.errors import AskedWrongly

COMPLETE = ".complete"
PARTIAL = ".partial"
_HALF = b"\\ud"  # how JSON escapes each half of a character beyond 16 bits, which alone is none
_NOT_JSON = (ValueError, RecursionError)  # also numbers of thousands of digits, and lists in lists without end


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no blanks, so that equal values have equal digests; NaN is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: object) -> str:
    """SHA-256, in hexadecimal, of a JSON value's canonical form."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256(path: Path) -> str:
    """SHA-256, in hexadecimal, of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_in(folder: Path) -> list[Path]:
    """Every regular file under a folder, in order; the mark itself is left out."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != COMPLETE)


def tree(folder: Path) -> dict[str, str]:
    """The digest of each of these files, by its relative path."""
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files_in(folder)}


@contextmanager
def whole(path: Path, *, parents: bool = True) -> Iterator[Path]:
    """A temporary path to write; when the block ends well, the file holds that, and otherwise what it held before.

    `parents`: folders that are missing are made; without it a folder that has vanished is `FileNotFoundError`.
    """
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}{PARTIAL}")
    try:
        with _naming(path):
            yield temporary
            _sync(temporary)
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def write_text(path: Path, text: str, *, parents: bool = True) -> None:
    """The file holds exactly this text, or what it held before: never a part of either; see `whole`."""
    with whole(path, parents=parents) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object, *, parents: bool = True) -> None:
    """The file holds this value, indented for people, written whole or not at all; see `whole`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", parents=parents)


def read_json(path: Path) -> Any:
    """The value that a JSON file holds; a missing or damaged file is named in the error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AskedWrongly(f"{path} does not exist") from None
    except _NOT_JSON as error:
        raise AskedWrongly(f"{path} is not JSON: {error}") from error


def object_in(data: bytes) -> dict[str, Any] | None:
    """The object that a stranger's bytes of JSON stand for; None for any other value, and for what is damaged."""
    try:
        value = json.loads(data)
    except _NOT_JSON:
        return None
    return value if isinstance(value, dict) else None


def append_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """The values are added to a JSON Lines file in one write, and are on the disk when this returns."""
    lines = "".join(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n" for value in values)
    with _naming(path), path.open("a", encoding="utf-8") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def note_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """The values are added to a JSON Lines file in one write; a power cut may lose them, a killed process does not.

    For what is written every second, where waiting for a disk would be felt.
    """
    lines = "".join(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n" for value in values)
    with path.open("a", encoding="utf-8") as file:
        file.write(lines)


def read_lines(path: Path, *, torn_end: bool = False, whole_text: bool = False) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file, in order; blank lines are passed over.

    With `torn_end` so is a last line without its end, as a crash leaves it. Any other damaged line is `AskedWrongly`
    that names it; with `whole_text` so is one that holds half of a character, which can be written to no file.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip() and (line.endswith(b"\n") or not torn_end):
                    yield _object(line, place=f"{path}, line {number}", whole_text=whole_text)
    except FileNotFoundError:
        raise AskedWrongly(f"{path} does not exist") from None
    except IsADirectoryError as error:
        raise AskedWrongly(f"{path} is not a JSON Lines file: {error}") from error


def drop_torn_line(path: Path) -> None:
    """The file ends with a whole line: what a crash left behind the last line end is cut off."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)


def existing_parent(folder: Path) -> Path:
    """The folder that is there already, of this one and those above it: where its disk can be tried."""
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.is_dir())


def check_writable(folder: Path) -> None:
    """Nothing, when the folder can be made, or is one that can be written to; else `AskedWrongly`."""
    try:
        folder.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:  # a name that is too long, or below a file
        raise AskedWrongly(f"{folder} can't be a folder: {error.strerror}; name another place") from error
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise AskedWrongly(f"{folder}: {there} is not a folder; name another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise AskedWrongly(f"{folder}: {there} can't be written to; name another place")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Inside, no other process that asks the same is at work in the folder; `AskedWrongly` when one is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AskedWrongly(f"another process is at work in {folder}; wait for it, or name another folder") from None
    except OSError:
        pass  # a file system without locks
    try:
        yield
    finally:
        os.close(descriptor)


def begun(folder: Path) -> Path:
    """An empty folder that `publish` gives this name later; for those who can't fill it inside its block."""
    partial = folder.with_name(f"{folder.name}{PARTIAL}")
    with suppress(FileNotFoundError):  # and nothing else: a disk that fails is to be named by its own number
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    return partial


@contextmanager
def publish(folder: Path, *, filled: bool = False) -> Iterator[Path]:
    """A folder to fill; when the block ends well it stands under its own name, whole and marked.

    When the block fails, or the process dies, nothing stands under that name. `filled`: it is the one that `begun`
    gave, and stays for another try when the block fails.
    """
    if folder.exists():
        raise AskedWrongly(f"{folder} exists already and is never overwritten; name another folder")
    partial = folder.with_name(f"{folder.name}{PARTIAL}") if filled else begun(folder)
    try:
        with _naming(folder):
            yield partial
            for path in partial.rglob("*"):
                _sync(path)
            write_json(partial / COMPLETE, {"files": tree(partial)})
            partial.replace(folder)
    except BaseException:
        if not filled:
            shutil.rmtree(partial, ignore_errors=True)
        raise
    _sync(folder.parent)


def discard(folder: Path) -> None:
    """The folder is gone. It loses its name first, so that what a crash leaves of it is never taken for whole."""
    partial = folder.with_name(f"{folder.name}{PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)
    folder.replace(partial)
    shutil.rmtree(partial)


def is_complete(folder: Path) -> bool:
    """Whether the folder was published: its mark is there, and every file that it names still is."""
    return (folder / COMPLETE).is_file() and not lost(folder)


def lost(folder: Path) -> list[Path]:
    """Files that a published folder's mark names and that are gone; none where it has no mark."""
    mark = folder / COMPLETE
    named = read_json(mark)["files"] if mark.is_file() else ()
    return [folder / name for name in named if not (folder / name).is_file()]


def _object(line: bytes, *, place: str, whole_text: bool) -> dict[str, Any]:
    try:
        text = line.decode("utf-8")
        value = json.loads(text)
        if whole_text and _HALF in line.lower():
            canonical_json(value).encode()
    except UnicodeEncodeError as error:
        raise AskedWrongly(f"{place} holds half of a character ({error.object[error.start]!a}); mend it") from error
    except _NOT_JSON as error:
        what = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
        raise AskedWrongly(f"{place} is not {what}: {error}") from error
    if not isinstance(value, dict):
        raise AskedWrongly(f"{place} is not a JSON object: {text.strip()[:60]}")
    return value


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A write that fails says which file it was about; the system does so only where a file is opened."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
