"""Which folders are runs, how to find them, and whether somebody is at work in one.

    runs/train/            recipe.json, written first; run.json or failure.json last
    runs/scores/start/     protocol.json, written first; score.json last
    runs/attempts/…/       run.json and task.lock.json; every stage seals its own folder

A run is what its files say. Nothing is ever written here: a run is not told that it is looked at.
"""

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from opd.records.errors import AskedWrongly
from opd.records.files import COMPLETE, PARTIAL, read_json

STAGES = ("explore", "submission", "formal", "validation", "final", "audit", "report")
"""The folders of an attempt in which tries lie, or, of the submission, which is one itself."""

_LOCKS = Path("/proc/locks")
_LEASE, _LEASE_LOCK = "lease.json", "lease.lock"
_UNHEARD_SECONDS = 15.0  # three beats of an attempt's holder
_NEVER_ENTERED = {"rollouts", "state", "generations", "sinks", "__pycache__", "node_modules"}


class Kind(StrEnum):
    """What a folder is a run of."""

    TRAIN = "train"
    SCORE = "score"
    ATTEMPT = "attempt"


class State(StrEnum):
    """What has become of a run, worked out from its files and its lock at one moment."""

    RUNNING = "running"  # a living process holds its lock
    FINISHED = "finished"
    INTERRUPTED = "interrupted"  # it was asked to end, and did, before its end
    FAILED = "failed"
    LEFT = "left"  # begun and never ended, and nobody is at work: its process was killed
    WAITING = "waiting"  # an attempt at which nobody is at work, with nothing half-done and more to do
    DAMAGED = "damaged"  # what would say how it ended can't be read

    @property
    def ended(self) -> bool:
        """Whether nothing more will come by itself."""
        return self is not State.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A run, by the path by which it was reached."""

    path: Path
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A folder that can't be looked into: whether it is a run, and what lies in it, is not known."""

    path: Path
    why: str  # as the system says it: `Permission denied`

    def __str__(self) -> str:
        return f"{self.path} can't be looked into: {self.why}"


def kind_of(path: Path) -> Kind | None:
    """What the folder is a run of; None for any other, for a link, and for one that can't be looked into."""
    try:
        return _kind(path)
    except OSError:
        return None


def find(
    roots: Sequence[Path], *, deepest: int = 6, closed: Callable[[Closed], object] = lambda _: None
) -> tuple[Folder, ...]:
    """The runs at and below these folders, by path and number, each once, at most `deepest` folders down.

    Links, hidden folders and half-made ones are never entered, nor is what lies in a checkpoint, in a score or in an
    attempt, which holds runs of its own. Raises `AskedWrongly` for a root that is no folder. What vanishes meanwhile
    is passed over, and so is a folder that can't be looked into, of which `closed` is told.
    """
    for root in roots:
        if not root.is_dir():
            raise AskedWrongly(f"{root} is no folder; name one that runs lie in, or a run")
    seen: set[tuple[int, int]] = set()
    found = [one for root in roots for one in _below(root, left=deepest, seen=seen, closed=closed, named=True)]
    return tuple(sorted(found, key=lambda one: by_number(str(one.path))))


def by_number(text: str) -> list[tuple[str, int]]:
    """A key that sorts `step-30` before `step-120`."""
    parts = re.split(r"([0-9]+)", text)
    return [(before, int(number or 0)) for before, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]


def opened(path: Path) -> Folder:
    """The run in this folder; raises `AskedWrongly`, with what is there instead, when there is none."""
    try:
        kind = _kind(path.resolve())
    except OSError as error:
        raise AskedWrongly(f"{path} can't be looked into: {error.strerror}") from error
    if kind is not None:
        return Folder(path=path, kind=kind)
    if not os.path.lexists(path):
        raise AskedWrongly(f"{path} does not exist; name the folder of a training run, a score or an attempt")
    if not path.is_dir():
        near = kind_of(path.parent)
        hint = f"; its folder {path.parent} is one" if near else ""
        raise AskedWrongly(f"{path} is a file, and a run is a folder{hint}")
    below = find([path], deepest=3)
    hint = f"; below it are {', '.join(str(one.path) for one in below[:3])}" if below else ""
    raise AskedWrongly(f"{path} is no run (no recipe.json, protocol.json, score.json or task.lock.json){hint}")


def is_at_work(folder: Folder) -> bool:
    """Whether a living process of this host holds the run, or one of another host was heard of just now.

    A training run or an evaluation on another host that shares the folder, or in another container, is not seen: its
    files go on changing, and that is all.
    """
    if folder.kind is Kind.ATTEMPT:
        return _is_locked(folder.path / _LEASE_LOCK) or _is_heard(folder.path / _LEASE)
    return _is_locked(folder.path)


def state_of(folder: Folder) -> State:
    """What has become of the run; nothing raises for what is damaged."""
    try:
        return _STATE[folder.kind](folder)
    except (AskedWrongly, KeyError, TypeError, AttributeError, OSError):
        return State.DAMAGED


def tries(attempt: Path) -> Iterator[Path]:
    """The folders of an attempt that a stage has filled or is filling, stage by stage, in order of their names."""
    for stage in STAGES:
        folder = attempt / stage
        if stage == "submission":
            yield from (one for one in (folder, folder.with_name(f"{stage}{PARTIAL}")) if one.is_dir())
        elif folder.is_dir():
            yield from sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())


def read_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds; raises `AskedWrongly` for a missing or damaged file, and another value."""
    try:
        value = read_json(path)
    except OSError as error:
        raise AskedWrongly(f"{path} can't be read: {error.strerror}") from error
    if not isinstance(value, dict):
        raise AskedWrongly(f"{path} holds a {type(value).__name__}, not an object")
    return value


def _kind(path: Path) -> Kind | None:
    """As `kind_of`; raises OSError for a folder that can't be looked into."""
    if path.is_symlink() or not path.is_dir():
        return None
    if _holds(path, "task.lock.json") and _holds(path, "run.json"):
        return Kind.ATTEMPT
    if _holds(path, "recipe.json"):
        return Kind.TRAIN
    return Kind.SCORE if _holds(path, "score.json") or _is_claimed(path) else None


def _below(
    path: Path,
    *,
    left: int,
    seen: set[tuple[int, int]],
    closed: Callable[[Closed], object],
    named: bool = False,
) -> Iterator[Folder]:
    """What is at and below a path; a link is followed where a person named it."""
    kind: Kind | None = None
    names: list[os.DirEntry[str]] = []
    try:
        status = path.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        kind = _kind(path.resolve() if named else path)
        if kind not in {Kind.SCORE, Kind.ATTEMPT} and left > 0:
            names = sorted(os.scandir(path), key=_name)
    except (FileNotFoundError, NotADirectoryError):  # it vanished
        return
    except OSError as error:
        closed(Closed(path=path, why=error.strerror or str(error)))
    if kind is not None:
        yield Folder(path=path, kind=kind)
    for entry in names:
        if _may_enter(entry, of_run=kind is not None):
            yield from _below(path / entry.name, left=left - 1, seen=seen, closed=closed)


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _may_enter(entry: os.DirEntry[str], *, of_run: bool) -> bool:
    name = entry.name
    if name.startswith(".") or name.endswith(PARTIAL) or name in _NEVER_ENTERED:
        return False
    if of_run and name.startswith("checkpoint-"):
        return False
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _holds(folder: Path, name: str) -> bool:
    path = folder / name
    return path.is_file() and not path.is_symlink()


def _is_claimed(folder: Path) -> bool:
    """Whether an evaluation has begun here: other programs may write a protocol.json too."""
    if not _holds(folder, "protocol.json"):
        return False
    try:
        return {"protocol", "model_digest"} <= read_object(folder / "protocol.json").keys()
    except AskedWrongly:
        return _holds(folder, "samples.jsonl")


def _is_locked(path: Path) -> bool:
    """Whether somebody holds the lock of a file or folder, by the kernel's list where there is one.

    To ask for the lock itself, if only for an instant, would refuse a run that begins in that instant.
    """
    try:
        status = path.lstat()
        holders = _held_locks(status.st_ino)
    except OSError:
        return False
    if holders is None or (holders and status.st_dev not in holders):
        return _is_refused(path)  # no list, or a file system whose devices the kernel numbers otherwise
    return bool(holders)


def _held_locks(inode: int) -> list[int] | None:
    """The devices on which a file of this number is locked for one alone; None without a list.

    1: FLOCK  ADVISORY  WRITE 21759 fe:00:2424860 0 EOF
    """
    try:
        lines = [line.split() for line in _LOCKS.read_text(encoding="ascii").splitlines()]
    except OSError:
        return None
    places = [fields[5].split(":") for fields in lines if len(fields) > 5 and fields[1::2][:2] == ["FLOCK", "WRITE"]]
    return [os.makedev(int(major, 16), int(minor, 16)) for major, minor, number in places if int(number) == inode]


def _is_refused(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _is_heard(lease: Path) -> bool:
    """Whether the holder is on another host and was heard of just now; one on this host would hold the lock."""
    try:
        values = read_object(lease)
        silent = abs(time.time() - float(values["heard"]["realtime"]))
        return bool(values["host"] != os.uname().nodename and silent < _UNHEARD_SECONDS)
    except (AskedWrongly, KeyError, TypeError, ValueError):
        return False


def _train_state(folder: Folder) -> State:
    """What marks an end is looked for first: a run that is over is not asked for its lock."""
    if _holds(folder.path, "run.json"):
        stop = read_object(folder.path / "run.json")["stop"]
        return State.INTERRUPTED if stop == "interrupted" else State.FINISHED
    if _holds(folder.path, "failure.json"):
        signal = read_object(folder.path / "failure.json")["signal"]
        return State.FAILED if signal is None else State.INTERRUPTED
    if is_at_work(folder):
        return State.RUNNING
    read_object(folder.path / "recipe.json")
    return State.LEFT


def _score_state(folder: Folder) -> State:
    if _holds(folder.path, "score.json"):
        read_object(folder.path / "score.json")["mean"]
        return State.FINISHED
    return State.RUNNING if is_at_work(folder) else State.LEFT


def _attempt_state(folder: Folder) -> State:
    if is_at_work(folder):
        return State.RUNNING
    read_object(folder.path / "run.json")["case"]
    found = list(tries(folder.path))
    if any(one.name.endswith(PARTIAL) or not (one / COMPLETE).is_file() for one in found):
        return State.LEFT
    return State.FINISHED if found and found[-1].parent.name == "report" else State.WAITING


_STATE = {Kind.TRAIN: _train_state, Kind.SCORE: _score_state, Kind.ATTEMPT: _attempt_state}
