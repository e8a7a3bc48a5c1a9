"""A tree of source files, held in memory: read once, so that what was hashed is what is used.

Only what git keeps of a file counts: its path, its bytes, and whether its owner may run it. Folders are what the
paths imply. On the disk such a tree has the modes 0644, 0755 and, for folders, 0755, whatever the umask.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from opd.records.errors import AskedWrongly
from opd.records.trees import Entry, Kind, tree_digest, written

PLAIN_MODE, EXECUTABLE_MODE, FOLDER_MODE = 0o644, 0o755, 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file without its name."""

    content: bytes = field(repr=False)
    executable: bool = False

    @property
    def mode(self) -> int:
        """Its permission bits on the disk."""
        return EXECUTABLE_MODE if self.executable else PLAIN_MODE


Tree = Mapping[PurePosixPath, SourceFile]


def entries_of(tree: Tree) -> tuple[Entry, ...]:
    """The entries that `records.trees.entries` finds in the folder after `write`, folders included."""
    found = [Entry(path=shown(path), kind=Kind.FOLDER, mode=FOLDER_MODE) for path in folders_of(tree)]
    found += [_entry(path, file) for path, file in tree.items()]
    return tuple(sorted(found, key=lambda entry: entry.path))


def digest_of(tree: Tree) -> str:
    """SHA-256 over paths, modes and bytes: the `tree_digest` of the folder after `write`."""
    return tree_digest(entries_of(tree))


def folders_of(paths: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """The folders that these paths lie in, each after the one that it lies in."""
    return sorted({folder for path in paths for folder in path.parents if folder.name})


def shown(path: PurePosixPath) -> str:
    """A path as text that has every path once, whatever bytes are in it; see `records.trees.written`."""
    return written(Path(path))


def changed_paths(before: Tree, after: Tree) -> tuple[str, ...]:
    """The paths at which two trees differ, in order, as `shown` writes them."""
    return tuple(sorted(shown(path) for path in {*before, *after} if before.get(path) != after.get(path)))


def write(tree: Tree, folder: Path) -> None:
    """The folder, which is new or empty, holds exactly these files.

    Raises `AskedWrongly` for a folder with something in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if next(folder.iterdir(), None) is not None:
        raise AskedWrongly(f"{folder} is not empty; a tree is written into a new folder")
    for place in folders_of(tree):
        (folder / place).mkdir()
        (folder / place).chmod(FOLDER_MODE)
    for path, file in tree.items():
        with (folder / path).open("xb") as target:
            target.write(file.content)
        (folder / path).chmod(file.mode)


def _entry(path: PurePosixPath, file: SourceFile) -> Entry:
    digest = hashlib.sha256(file.content).hexdigest()
    return Entry(path=shown(path), kind=Kind.FILE, mode=file.mode, bytes=len(file.content), sha256=digest)
