"""Whether a patch keeps the rules: its form, the paths that it touches, and what it brings.

Names and modes are judged before anything is applied, contents by the tree that base and patch give. All reasons are
said at once, while the explorer can still mend them.
"""

import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from opd.protocol.patches.contents import judge_content, judge_name
from opd.protocol.patches.objects import NO_MODE
from opd.protocol.patches.patch import FILE_MODES, apply
from opd.protocol.patches.refusals import Refusal, Refused, Rule
from opd.protocol.patches.sections import Section, sections_of
from opd.protocol.patches.source import Tree, shown
from opd.records.tasks import Surface

_MODES = {"120000": "a symbolic link", "160000": "a submodule"}
_REMEDIES = {
    Rule.WEIGHTS: "take it out: formal training starts from the given models alone",
    Rule.COMPILED: "take it out, and submit its source",
    Rule.DATA: "take it out: formal training has the given data alone; code may make what it needs while it runs",
    Rule.TEXT: "write it as UTF-8 text",
}


def check(patch: bytes, base: Tree, surface: Surface) -> tuple[Refusal, ...]:
    """Every reason against this patch; none when it may be sealed.

    An empty patch has the one reason `Rule.CHANGED`, which a replay of the reference leaves out of account.
    """
    if not patch:
        return (_refusal("", Rule.CHANGED, "nothing was changed", "change something, or say no-candidate"),)
    if len(patch) > surface.largest_patch_bytes:
        found = f"the patch has {len(patch):,} bytes, and the task allows {surface.largest_patch_bytes:,}"
        return (_refusal("", Rule.PATCH_SIZE, found, "take out what is not source"),)
    try:
        sections = sections_of(patch)
        if refusals := tuple(one for section in sections for one in _by_name(section, surface)):
            return refusals
        tree = apply(patch, base)
    except Refused as error:
        return error.refusals
    touched = [_place(section) for section in sections]
    kept = [path for path in touched if path in tree]
    return (*_by_content(kept, base, tree, surface), *_by_case(kept, tree))


def _by_name(section: Section, surface: Surface) -> Iterator[Refusal]:
    path, change = _place(section), section.change
    name = os.fsdecode(change.path)
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or "\0" in name:
        yield _refusal(name, Rule.PATH, "not a relative path that leads down", "name it from the workspace's root")
        return
    if steering := next((part for part in parts if part.casefold().startswith(".git")), None):
        yield _refusal(path, Rule.GIT_FILE, f"{steering!r} changes what git reads and writes", "take it out")
        return
    for mode in sorted({change.old_mode, change.new_mode} - FILE_MODES.keys() - {NO_MODE}):
        found = f"{_MODES.get(mode, 'no plain file')} (mode {mode})"
        yield _refusal(path, Rule.MODE, found, "put a plain file there")
    if not surface.covers(name):
        remedy = f"undo it; the task allows {', '.join(surface.editable)}"
        yield _refusal(path, Rule.SURFACE, _frozen(name, surface), remedy)
    if change.new_mode != NO_MODE:
        yield from _by_kind(section, surface)


def _by_kind(section: Section, surface: Surface) -> Iterator[Refusal]:
    """What stands against the file that a section leaves behind, before its content is seen."""
    path, name = _place(section), os.fsdecode(section.change.path)
    if judged := judge_name(name):
        yield _refusal(path, judged.rule, judged.found, _REMEDIES[judged.rule])
    elif section.change.old_mode == NO_MODE and PurePosixPath(name).suffix not in surface.suffixes:
        found = f"a new file that is called {PurePosixPath(name).suffix or 'without an ending'}"
        yield _refusal(path, Rule.SUFFIX, found, f"the task allows {', '.join(surface.suffixes)}")
    elif section.is_binary:
        yield _refusal(path, Rule.TEXT, "a binary file", _REMEDIES[Rule.TEXT])


def _by_content(paths: Iterable[PurePosixPath], base: Tree, tree: Tree, surface: Surface) -> Iterator[Refusal]:
    for path in paths:
        content, before = tree[path].content, base[path].content if path in base else b""
        if len(content) > max(surface.largest_file_bytes, len(before)):
            found = f"{len(content):,} bytes, and the task allows {surface.largest_file_bytes:,}"
            yield _refusal(path, Rule.FILE_SIZE, found, "divide it, or take out what is not source")
        judged = judge_content(content)
        if judged and judged != judge_content(before):  # what the base is, its edit may be
            yield _refusal(path, judged.rule, judged.found, _REMEDIES[judged.rule])


def _by_case(paths: Iterable[PurePosixPath], tree: Tree) -> Iterator[Refusal]:
    """Names that are one on a disk which folds case or composes accents, so that one file would hide another."""
    spelled: dict[str, set[PurePosixPath]] = {}
    for path in tree:
        for place in (path, *path.parents[:-1]):
            spelled.setdefault(_folded(place), set()).add(place)
    for path in paths:
        for place in (path, *path.parents[:-1]):
            if others := spelled[_folded(place)] - {place}:
                found = f"{shown(place)!r} and {shown(min(others))!r} differ in case or accents alone"
                yield _refusal(path, Rule.CASE, found, "rename it")
                break


def _folded(path: PurePosixPath) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", str(path)).casefold())


def _frozen(name: str, surface: Surface) -> str:
    return "a frozen file" if surface.is_frozen(name) else "outside of what may be changed"


def _place(section: Section) -> PurePosixPath:
    return PurePosixPath(os.fsdecode(section.change.path))


def _refusal(path: PurePosixPath | str, rule: Rule, found: str, remedy: str) -> Refusal:
    return Refusal(path=shown(PurePosixPath(path)) if path else "", rule=rule, found=found, remedy=remedy)
