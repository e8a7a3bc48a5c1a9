"""Receipts: a folder that says of itself, for good, how it came about and what is in it.

    formal/attempt-001.partial/     being filled, or left by a crash: history, never a result
    formal/attempt-001/             renamed into place in one step, when everything is on the disk
        outcome.json …              what the stage wrote
        receipt.json                who, when, from what, how it ended, and every file with size, mode and digest
        .complete                   written last: {"kind": …, "receipt_sha256": …}

A folder without `.complete`, or with one that does not fit its receipt, is not believed. Nothing is ever renamed
over something else, and no file of a sealed folder is written again.
"""

import ctypes
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import COMPLETE, PARTIAL, read_json, sha256, write_json
from opd.records.settings import Settings, validated
from opd.records.trees import Entry, Kind, differing, entries, meant

RECEIPT = "receipt.json"

_NOREPLACE = 1  # of renameat2
_HERE = -100  # AT_FDCWD
_WRITE_BITS = 0o222


class Head(Settings):
    """Where the attempt's log ended at some time; see `opd.protocol.attempts.events`."""

    seq: int
    sha256: str
    """Of the last line's bytes, without its end; 64 zeros before the first."""


NO_HEAD = Head(seq=0, sha256="0" * 64)
"""Of a log without a line."""


class Receipt(Settings):
    """`receipt.json` of a sealed folder."""

    schema_version: Literal[1] = 1
    kind: str
    """Which stage it ends: explore, submission, formal, validation, final, ruling …"""
    outcome: str
    """How it ended, in the stage's own words."""
    because: str | None
    """One sentence, for people; null where the outcome says all."""
    began_utc: str
    ended_utc: str
    active_seconds: float
    """Of a monotonic clock: sleep of the machine is left out."""
    opd_version: str
    made_from: dict[str, str]
    """SHA-256 of what went in, by what it is: `task`, `patch`, `submission/receipt.json` …"""
    events: Head
    """The line of the attempt's events.jsonl that was the last when this was written."""
    files: tuple[Entry, ...]
    """All that is in the folder but this file and `.complete`."""


class Sealed(Settings):
    """`.complete`."""

    kind: str
    receipt_sha256: str


def begin(folder: Path) -> Path:
    """A new folder to fill, which `seal` puts in place under the name given.

    Raises `AskedWrongly` when there is one already, sealed or begun: it is never used again.
    """
    check_free(folder)
    partial = partial_of(folder)
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.mkdir()
    except FileExistsError:
        raise AskedWrongly(f"{partial} was begun already; `opd attempt resume` seals what is in it") from None
    return partial


def check_free(folder: Path) -> None:
    """Nothing, where no folder of this name is there or begun; else `AskedWrongly`."""
    if os.path.lexists(folder):
        raise AskedWrongly(f"{folder} exists already and is never overwritten; the next try has the next number")
    if os.path.lexists(partial_of(folder)):
        raise AskedWrongly(f"{partial_of(folder)} was begun already; `opd attempt resume` seals what is in it")


def partial_of(folder: Path) -> Path:
    """Where a folder is filled before it is sealed."""
    return folder.with_name(f"{folder.name}{PARTIAL}")


def seal(folder: Path, receipt: Receipt) -> Receipt:
    """The receipt as written, with the folder's files in it, after the folder stands under its own name.

    Each step leaves something that `finish_sealing` or a new `seal` can go on from.
    """
    partial = partial_of(folder)
    for left in (RECEIPT, f"{RECEIPT}{PARTIAL}"):  # of a seal that a crash ended
        (partial / left).unlink(missing_ok=True)
    _protect(partial)
    receipt = receipt.model_copy(update={"files": entries(partial)})
    for one in receipt.files:
        if one.kind in {Kind.FILE, Kind.FOLDER}:
            _sync(partial / meant(one.path))
    write_json(partial / RECEIPT, receipt.resolved())
    _rename_to_new(partial, folder)
    _sync(folder.parent)
    finish_sealing(folder)
    return receipt


def finish_sealing(folder: Path) -> None:
    """The mark of a folder that was renamed into place just before a crash."""
    receipt = folder / RECEIPT
    write_json(folder / COMPLETE, Sealed(kind=read_receipt(folder).kind, receipt_sha256=sha256(receipt)).resolved())


def read_receipt(folder: Path) -> Receipt:
    """The receipt of a folder; raises `AskedWrongly` for a missing or damaged one."""
    path = folder / RECEIPT
    return validated(Receipt, read_json(path), source=str(path))


def is_sealed(folder: Path) -> bool:
    """Whether the mark is there and fits the receipt. The files are not looked at: see `faults`."""
    try:
        mark = validated(Sealed, read_json(folder / COMPLETE), source=str(folder / COMPLETE))
        return mark.receipt_sha256 == sha256(folder / RECEIPT) and mark.kind == read_receipt(folder).kind
    except (AskedWrongly, OSError):
        return False


def sealed(folder: Path) -> Receipt:
    """The receipt of a sealed folder; raises `AnswerIsNo` when it is not sealed."""
    if not is_sealed(folder):
        raise AnswerIsNo(f"{folder} is not sealed: its {COMPLETE} is missing or does not fit its {RECEIPT}")
    return read_receipt(folder)


def faults(folder: Path, *, called: str | None = None) -> tuple[str, ...]:
    """What is not as the receipt says, after every file has been read again; empty for a folder that is whole.

    Each begins with the folder's name, or with what it is `called`.
    """
    called = called or folder.name
    if not is_sealed(folder):
        return (f"{called}: {COMPLETE} is missing or does not fit {RECEIPT}",)
    said = read_receipt(folder).files
    found = entries(folder, leave_out=(RECEIPT, COMPLETE))
    before, after = ({entry.path: entry for entry in one} for one in (said, found))
    return tuple(f"{called}/{path}: {_change(before.get(path), after.get(path))}" for path in differing(said, found))


def made_from(paths: Mapping[str, Path]) -> dict[str, str]:
    """The digest of each of these files, for `Receipt.made_from`."""
    return {name: sha256(path) for name, path in paths.items()}


def _change(before: Entry | None, after: Entry | None) -> str:
    if before is None:
        return "was put in afterwards"
    if after is None:
        return "is gone"
    changes = [(name, getattr(before, name), getattr(after, name)) for name in ("kind", "mode", "bytes", "sha256")]
    return ", ".join(
        f"{name} was {_said(name, old)}, is {_said(name, new)}" for name, old, new in changes if old != new
    )


def _said(name: str, value: object) -> str:
    return f"{value:o}" if name == "mode" else f"{value!s:.12}"


def _protect(folder: Path) -> None:
    """Nobody writes to the files by mistake: a copy that shares bytes with one shall not change it."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o7777 & ~_WRITE_BITS)


def _rename_to_new(source: Path, target: Path) -> None:
    """`source` stands under the name `target`, which nothing had; `AskedWrongly` when something had."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(_HERE, os.fsencode(source), _HERE, os.fsencode(target), _NOREPLACE)
    if done == 0:
        return
    number = ctypes.get_errno()
    if number in {errno.ENOSYS, errno.EINVAL}:  # a file system that can't: a folder replaces at most an empty one
        if os.path.lexists(target):
            number = errno.EEXIST
        else:
            source.rename(target)
            return
    if number == errno.EEXIST:
        raise AskedWrongly(f"{target} exists already and is never overwritten")
    raise OSError(number, os.strerror(number), str(source), None, str(target))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
