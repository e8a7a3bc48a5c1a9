"""The source as it stood when a measurement began: its digest, and what was changed, beside the measurement.

Read as a submission is, so that nothing in the workspace is followed, believed or run. What can't be read is said,
and the measurement goes on.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pydantic import NonNegativeInt

from opd.protocol.patches.collection import collect
from opd.protocol.patches.objects import store
from opd.protocol.patches.source import SourceFile, Tree, changed_paths, digest_of
from opd.records.settings import Settings
from opd.records.tasks import Surface

PATCH = "workspace.patch"
LARGEST_CHANGED_BYTES = (
    4 << 20
)  # of the files that differ: a change of source is far below, and a diff takes a moment
LARGEST_PATCH_BYTES = 1 << 20
MOST_PATHS = 1_000  # changed, that are named


class Workspace(Settings):
    """What of the workspace counts: the base's files, and those that a submission may bring."""

    tree_sha256: str | None
    """As `Submission.patched_sha256` of the same source, and as `Identity.base_sha256` of an unchanged one."""
    changed_paths: tuple[str, ...]
    """Against the base, in order."""
    passed_over: NonNegativeInt
    """Other names in it: what a submission may not bring, links, special files."""
    patch: str | None
    """The file beside this record that gives this source from the base; null where nothing differs, and as below."""
    patch_sha256: str | None
    patch_bytes: NonNegativeInt
    missing: str | None
    """Why there is no digest, or no patch of a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The record, and the patch that it names."""

    workspace: Workspace
    patch: bytes = field(repr=False)


def snapshot(workspace: Path, base: Tree, *, surface: Surface, outputs: Collection[PurePosixPath]) -> Snapshot:
    """What stands there now. Raises `OSError` where the disk fails."""
    collected = collect(workspace, base=base, outputs=outputs)
    files = {path: file for path, file in collected.files.items() if path in base or _may_be_brought(path, surface)}
    changed = changed_paths(base, files)
    before, after = _differing(base, files), _differing(files, base)
    size = sum(len(file.content) for file in (*before.values(), *after.values()))
    patch, missing = b"", None
    if size > LARGEST_CHANGED_BYTES:
        missing = f"{size:,} bytes of files differ, and no patch of more than {LARGEST_CHANGED_BYTES:,} is made"
    elif changed:
        with store() as objects:
            patch = objects.diff(objects.put(before), objects.put(after))
        if len(patch) > LARGEST_PATCH_BYTES:
            missing = f"the patch has {len(patch):,} bytes, and {LARGEST_PATCH_BYTES:,} are kept"
    record = Workspace(
        tree_sha256=digest_of(files),
        changed_paths=changed[:MOST_PATHS],
        passed_over=len(collected.files) - len(files) + len(collected.refusals),
        patch=PATCH if patch and not missing else None,
        patch_sha256=hashlib.sha256(patch).hexdigest() if patch else None,
        patch_bytes=len(patch),
        missing=missing,
    )
    return Snapshot(workspace=record, patch=b"" if missing else patch)


def no_snapshot(why: str) -> Snapshot:
    """The record of a source that was not read."""
    record = Workspace(
        tree_sha256=None, changed_paths=(), passed_over=0, patch=None, patch_sha256=None, patch_bytes=0, missing=why
    )
    return Snapshot(workspace=record, patch=b"")


def _may_be_brought(path: PurePosixPath, surface: Surface) -> bool:
    return surface.covers(str(path)) and path.suffix in surface.suffixes


def _differing(one: Tree, other: Tree) -> dict[PurePosixPath, SourceFile]:
    return {path: file for path, file in one.items() if other.get(path) != file}
