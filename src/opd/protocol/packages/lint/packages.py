"""A rendered package against its own task.toml, byte for byte and mode for mode, and what of a folder leads out."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from opd.protocol.packages import folders
from opd.protocol.packages.lint.findings import Finding, Rule
from opd.protocol.packages.package import BUILT_WORKSPACE, render
from opd.protocol.patches.source import Tree, entries_of
from opd.records.tasks import Task
from opd.records.trees import Entry, entries

_INSTRUCTION = "instruction.md"
_JUDGES = frozenset({"tests", "declaration.py"})  # the explorer does not get these


def is_package(folder: Path) -> bool:
    """Whether the folder is a rendered package, or means to be one, and not the source of one."""
    return (folder / BUILT_WORKSPACE).is_dir()


def judge_folder(folder: Path) -> Iterator[Finding]:
    """What keeps a folder from being a closed tree of files and folders."""
    for path, what in folders.faults(folder):
        yield Finding(rule=Rule.ESCAPING_PATH, path=path, message=f"{what}; remove it")


def judge_package(task: Task, folder: Path, base: Tree) -> Iterator[Finding]:
    """Each path at which a package is not what its task.toml renders to, with the workspace that it brings."""
    rendered = {entry.path: entry for entry in entries_of(render(task, base))}
    there = {entry.path: entry for entry in entries(folder)}
    if not folders.has(folder, _INSTRUCTION):
        message = "there is no instruction.md; render the package again"
        yield Finding(rule=Rule.EMPTY_INSTRUCTION, path=_INSTRUCTION, message=message)
    for path in sorted(rendered.keys() | there.keys()):
        if (what := _difference(rendered.get(path), there.get(path))) is not None:
            yield Finding(rule=Rule.STALE_PACKAGE, path=path, message=f"{what}; render the package again")


def told(folder: Path) -> Mapping[str, str]:
    """The texts of a package that the explorer may come to read, by path."""
    return dict(folders.texts(folder, leave_out=_JUDGES))


def _difference(rendered: Entry | None, there: Entry | None) -> str | None:
    if rendered == there:
        return None
    if there is None:
        return "task.toml renders to it, and it is not there"
    if rendered is None:
        return f"task.toml does not render to this {there.kind}"
    if rendered.kind is not there.kind:
        return f"is a {there.kind}, and task.toml renders to a {rendered.kind}"
    if rendered.mode != there.mode and rendered.sha256 == there.sha256:
        return f"has mode {there.mode:o}, and task.toml renders to {rendered.mode:o}"
    return "is not what task.toml renders to"
