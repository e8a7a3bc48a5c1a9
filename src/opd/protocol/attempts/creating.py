"""A new attempt: everything that it will be judged by is written down before anything happens.

run.json           who, on which task, judged by which install
task.lock.json     the task, resolved
inputs.lock.json   each fixed input with its digest
base/              sealed: the tree that the explorer begins with and that a patch applies to
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import opd
from opd.protocol.attempts.attempt import BASE, EVENTS, RUN, TASK_LOCK, Attempt
from opd.protocol.attempts.events import Events
from opd.protocol.attempts.sealing import seal_record
from opd.protocol.attempts.verify import founding
from opd.protocol.clock import now
from opd.protocol.explorer.adapters import adapter_of, check_reachable, names
from opd.protocol.inputs import Inputs, find, lock
from opd.protocol.install import install_sha256
from opd.protocol.packages import catalogue
from opd.protocol.packages.package import base_tree
from opd.protocol.patches.source import SourceFile, Tree, digest_of, write
from opd.records.attempts import Identity
from opd.records.errors import AskedWrongly
from opd.records.files import PARTIAL, check_writable, write_json
from opd.records.receipts import NO_HEAD, begin, sealed
from opd.records.tasks import Task
from opd.records.trees import Kind, meant

TREE = "tree"

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explorer:
    """Who explores."""

    harness: str
    command: tuple[str, ...]
    model: str | None = None
    effort: str | None = None
    endpoint: Path | None = None  # a Unix socket at which its model answers
    shown: tuple[Path, ...] = ()  # read-only, at their own paths, beside the files that the command names


def create(
    task_name: str | Path, runs: Path, explorer: Explorer, *, given: Mapping[str, Path], again: int = 1
) -> Attempt:
    """A new attempt below `runs`, named harness__task__model__effort, with `__2` … for a further one of the same.

    `given` says where a fixed input lies, by its role. Raises `AskedWrongly` for a task, an input or a name that
    can't be used, or an attempt that is there already, and `AnswerIsNo` for an input that isn't what the task pins.
    """
    task, task_folder = catalogue.find(task_name)
    if explorer.harness in names():  # else nobody explores here, and a patch comes from outside
        check_reachable(adapter_of(explorer.harness), task.contract, endpoint=explorer.endpoint)
    case = _case(explorer, task, again)
    folder = runs / case
    check_writable(folder)
    if folder.exists():
        raise AskedWrongly(f"{folder} is there already; a further attempt of the same case is --again {again + 1}")
    base = base_tree(task, task_folder)
    partial = folder.with_name(f"{case}{PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)  # of a `new` that was killed: nothing had happened in it
    partial.mkdir(parents=True)
    try:
        _fill(partial, task, find(task.contract, given, made_in=partial), base, explorer, case)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    partial.rename(folder)
    return Attempt(folder)


def _fill(partial: Path, task: Task, inputs: Inputs, base: Tree, explorer: Explorer, case: str) -> None:
    """The files of a new attempt; run.json, which makes the folder one, comes last but for the log."""
    identity = Identity(
        case=case,
        task=task.short_name,
        task_sha256=task.digest,
        harness=explorer.harness,
        command=tuple(str(path.resolve()) if (path := Path(word)).is_file() else word for word in explorer.command),
        shown=_shown(explorer),
        endpoint=str(explorer.endpoint.absolute()) if explorer.endpoint else None,
        model=explorer.model,
        effort=explorer.effort,
        opd_version=opd.__version__,
        install_sha256=install_sha256(),
        base_sha256=digest_of(base),
        created_utc=now().utc,
    )
    write_json(partial / TASK_LOCK, task.resolved())
    lock(partial, inputs)
    _seal_base(partial / BASE, base, identity)
    write_json(partial / RUN, identity.resolved())
    Events(partial / EVENTS).add("created", actor="operator", case=case, files=founding(partial))


def base_of(attempt: Attempt) -> Tree:
    """The tree that this attempt began with, as it was sealed; raises `AnswerIsNo` when it was changed."""
    folder = attempt.folder / BASE
    files = [meant(entry.path) for entry in sealed(folder).files if entry.kind is Kind.FILE]
    tree = {
        PurePosixPath(path.relative_to(TREE)): SourceFile(
            content=(folder / path).read_bytes(), executable=bool((folder / path).stat().st_mode & 0o100)
        )
        for path in files
    }
    if digest_of(tree) != attempt.identity.base_sha256:
        raise AskedWrongly(f"{folder} is not the tree that the attempt began with; somebody changed it")
    return tree


def _seal_base(folder: Path, base: Tree, identity: Identity) -> None:
    write(base, begin(folder) / TREE)
    seal_record(
        folder,
        kind="base",
        outcome="sealed",
        made_from={"task": identity.task_sha256, "install": identity.install_sha256},
        events=NO_HEAD,
    )


def _shown(explorer: Explorer) -> tuple[str, ...]:
    """The paths of what an explorer is shown besides; raises `AskedWrongly` for one that isn't there."""
    missing = [str(path) for path in explorer.shown if not path.exists()]
    if missing:
        raise AskedWrongly(f"{missing[0]}, which the explorer is to be shown, does not exist")
    named = (Path(word) for word in explorer.command)
    files = [path for path in named if path.is_file()]
    return tuple(dict.fromkeys(str(path.resolve()) for path in (*files, *explorer.shown)))


def _case(explorer: Explorer, task: Task, again: int) -> str:
    parts = [explorer.harness, task.short_name, explorer.model or "none", explorer.effort or "none"]
    for part in parts:
        if _PART.fullmatch(part) is None or "__" in part:
            raise AskedWrongly(
                f"{part!r} can't be part of a case id: letters, digits, . _ -, no two _ in a row, ≤ 64"
            )
    return "__".join(parts) + ("" if again == 1 else f"__{again}")
