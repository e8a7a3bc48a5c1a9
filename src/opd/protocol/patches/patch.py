"""What was changed in a workspace, as bytes that give exactly that again, or nothing.

    derive     workspace, base → patch          from what is on the disk
    apply      patch, base → tree               all of it at its very place, or `Refused`
    prove      patch, base, workspace → reasons none, when base and patch are the workspace
    checkout   patch, base → a fresh folder     the tree of a formal replay

There is one way to apply a patch: `git apply` to an index that holds the base. Afterwards every path that the patch
names has the ids and modes that it says, before and after, and every other path has its own; so an offset, a context
that fits elsewhere, a lost line or another line end can't pass.
"""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from opd.protocol.patches.collection import collect
from opd.protocol.patches.objects import NO_MODE, Change, DoesNotApply, Objects, store
from opd.protocol.patches.refusals import Refusal, Refused, Rule
from opd.protocol.patches.sections import Section, sections_of
from opd.protocol.patches.source import SourceFile, Tree, digest_of, shown, write
from opd.records.errors import AnswerIsNo
from opd.records.trees import entries, tree_digest

FILE_MODES = {"100644": False, "100755": True}  # whether the file is executable

_AGAIN = "derive the patch from the workspace again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A patch, and what of the workspace it does not carry."""

    patch: bytes = field(repr=False)
    """Empty when nothing was changed."""
    refusals: tuple[Refusal, ...]
    """Any one of them means that the patch is not the workspace."""


def derive(workspace: Path, base: Tree, *, outputs: Collection[PurePosixPath] = ()) -> Derived:
    """The patch from the base to what is on the disk.

    The workspace's own repository is not asked: commits, index, attributes, ignored names and configuration in it
    change nothing. Binary files, modes, odd names and missing line ends are carried. The same trees give the same
    bytes. `outputs` are folders that programs write to; they are no part of a submission.
    """
    collected = collect(workspace, base=base, outputs=outputs)
    before, after = _without_common(base, collected.files)
    if not before and not after:
        return Derived(patch=b"", refusals=collected.refusals)
    with store() as objects:
        patch = objects.diff(objects.put(before), objects.put(after))
    return Derived(patch=patch, refusals=collected.refusals)


def apply(patch: bytes, base: Tree) -> Tree:
    """The base with the patch in it; raises `Refused` for one that doesn't fit it exactly. No file is touched."""
    if not patch:
        return base
    sections = sections_of(patch)
    with store() as objects:
        try:
            changes = objects.apply(patch, objects.put(_around(sections, base)))
        except DoesNotApply as error:
            refusal = Refusal(path="", rule=Rule.APPLIES, found=f"the patch doesn't apply: {error}", remedy=_AGAIN)
            raise Refused([refusal]) from error
        if refusals := tuple(_bent(sections, changes)):
            raise Refused(refusals)
        return _patched(base, changes, objects)


def prove(
    patch: bytes, base: Tree, workspace: Path, *, outputs: Collection[PurePosixPath] = ()
) -> tuple[Refusal, ...]:
    """The paths at which base and patch are not what is on the disk now; none when all agrees."""
    try:
        tree = apply(patch, base)
    except Refused as error:
        return error.refusals
    collected = collect(workspace, base=tree, outputs=outputs)
    known = {one.path for one in collected.refusals}
    paths = sorted(
        path for path in tree.keys() | collected.files.keys() if tree.get(path) != collected.files.get(path)
    )
    return collected.refusals + tuple(
        Refusal(path=shown(path), rule=Rule.REPRODUCES, found=_difference(path, tree, collected.files), remedy=_AGAIN)
        for path in paths
        if shown(path) not in known
    )


def checkout(patch: bytes, base: Tree, folder: Path, *, tree_sha256: str | None = None) -> str:
    """The digest of the new folder, which holds base and patch and nothing else; read back from the disk.

    Raises `Refused` for a patch that doesn't apply, and `AnswerIsNo` for a tree that is not `tree_sha256`, the one
    recorded; nothing is written then.
    """
    tree = apply(patch, base)
    digest = digest_of(tree)
    if tree_sha256 is not None and digest != tree_sha256:
        raise AnswerIsNo(
            f"base and patch give the tree {digest[:12]}…, and {tree_sha256[:12]}… was recorded; "
            "another base or another patch than the submission's"
        )
    write(tree, folder)
    if (found := tree_digest(entries(folder))) != digest:
        raise AnswerIsNo(f"{folder} was written as {digest[:12]}… and reads as {found[:12]}…; look at its disk")
    return digest


def _without_common(one: Tree, other: Tree) -> tuple[Tree, Tree]:
    """Both without the files that they share: the patch between them is the same, and sooner made."""
    common = {path for path, file in one.items() if other.get(path) == file}
    left, right = ({path: file for path, file in tree.items() if path not in common} for tree in (one, other))
    return left, right


def _around(sections: Iterable[Section], base: Tree) -> Tree:
    """The files of the base that a patch can touch, or collide with: no other one need be given to git."""
    touched = {_inside(section.change.path) for section in sections}
    above = {folder for path in touched for folder in path.parents}
    return {path: base[path] for path in base if path in touched or path in above or touched & set(path.parents)}


def _bent(sections: Iterable[Section], changes: Iterable[Change]) -> Iterable[Refusal]:
    """Where what git made of a patch is not what the patch says of itself."""
    made = {change.path: change for change in changes}
    for section in sections:
        said = section.change
        did = made.pop(said.path, None)
        if did is None or not _agree(said, did):
            yield Refusal(
                path=_shown(said.path),
                rule=Rule.APPLIES,
                found=f"the patch says {_words(said)}, and applying it gives {_words(did) if did else 'no change'}",
                remedy=_AGAIN,
            )
    for path, did in made.items():
        found = f"the patch does not name it, and applying it gives {_words(did)}"
        yield Refusal(path=_shown(path), rule=Rule.APPLIES, found=found, remedy=_AGAIN)


def _agree(said: Change, did: Change) -> bool:
    if (said.old_mode, said.new_mode) != (did.old_mode, did.new_mode):
        return False
    if not said.new_id:  # the mode alone
        return did.old_id == did.new_id
    return (said.old_id, said.new_id) == (did.old_id, did.new_id)


def _words(change: Change) -> str:
    old, new = (one[:12] or "the same" for one in (change.old_id, change.new_id))
    return f"{old} ({change.old_mode}) → {new} ({change.new_mode})"


def _patched(base: Tree, changes: Iterable[Change], objects: Objects) -> Tree:
    tree = dict(base)
    for change in changes:
        tree.pop(_inside(change.path), None)
    kept = [change for change in changes if change.new_mode != NO_MODE]
    if refusals := [
        Refusal(path=_shown(change.path), rule=Rule.MODE, found=f"mode {change.new_mode}", remedy="make it a file")
        for change in kept
        if change.new_mode not in FILE_MODES
    ]:
        raise Refused(refusals)
    _refuse_below_files(kept, tree)
    contents = objects.read({change.new_id for change in kept})
    for change in kept:
        content, executable = contents[change.new_id], FILE_MODES[change.new_mode]
        tree[_inside(change.path)] = SourceFile(content=content, executable=executable)
    return tree


def _refuse_below_files(kept: Iterable[Change], tree: Tree) -> None:
    """No file stands where a folder has to be: not every git sees one that lies several folders above."""
    files = {_inside(change.path) for change in kept} | tree.keys()
    for change in kept:
        if above := files & set(_inside(change.path).parents):
            found = f"lies below {shown(min(above))}, which is a file"
            raise Refused([Refusal(path=_shown(change.path), rule=Rule.APPLIES, found=found, remedy=_AGAIN)])


def _inside(path: bytes) -> PurePosixPath:
    return PurePosixPath(os.fsdecode(path))


def _shown(path: bytes) -> str:
    return shown(_inside(path))


def _difference(path: PurePosixPath, tree: Tree, files: Tree) -> str:
    made, there = tree.get(path), files.get(path)
    if made is None:
        return "is in the workspace, and base and patch don't give it"
    if there is None:
        return "comes from base and patch, and is not in the workspace"
    if made.content == there.content:
        return f"has mode {there.mode:o} in the workspace, and base and patch give {made.mode:o}"
    return (
        f"has {len(there.content):,} bytes in the workspace that are not the {len(made.content):,} of base and patch"
    )
