"""What a run began from, as digests of files: a resumed run goes on from the same student and teacher, or not at all.

Every file of a model's directory is hashed once, at the beginning, several at a time; a directory that is several of
them, student or teacher, is read once. SHA-256 takes about a second a gigabyte and core, and leaves the files where
loading finds them, in the page cache.
"""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from pydantic import Field

from opd.records.errors import AskedWrongly
from opd.records.files import files_in, sha256
from opd.records.settings import Settings
from opd.train.teachers import TeacherName, role

LARGEST_THREADS = 16  # by then a disk is slower than the cores
# what a model is read from; a README that was added makes no other model
_READ = ("*.safetensors", "*.json", "*.jinja", "*.model", "tokenizer*", "vocab*", "merges*")

Files = dict[str, str]


class Origins(Settings):
    """SHA-256 of the files of the directories, by relative path."""

    student: Files
    teacher: Files = {}
    """Of the only teacher; empty where there are several."""
    teachers: dict[str, Files] = Field(default={}, exclude_if=lambda some: not some)
    """Of each of several, by its name."""

    @property
    def by_role(self) -> dict[str, Files]:
        """Those of each model, under what it is called in messages."""
        taught = {role(name): files for name, files in self.teachers.items()} or {role(None): self.teacher}
        return {"student": self.student} | taught


class Beginning(Settings):
    """`began.json`: what a run began with, and has to find when it is taken up again, before its first state too."""

    data: str
    """SHA-256 of the training file."""
    models: Origins


def origins_of(student: Path, teachers: Mapping[TeacherName, Path]) -> Origins:
    """The digests of the files in the directories, several of which may be one."""
    folders = {student, *teachers.values()}
    paths = sorted({path for folder in folders for path in files_in(folder)})
    with ThreadPoolExecutor(min(LARGEST_THREADS, os.cpu_count() or 1)) as pool:
        found = dict(zip(paths, pool.map(sha256, paths), strict=True))
    of = {
        folder: {path.relative_to(folder).as_posix(): found[path] for path in files_in(folder)} for folder in folders
    }
    several = {name: of[folder] for name, folder in teachers.items() if name is not None}
    return Origins(student=of[student], teacher=of[teachers[None]] if None in teachers else {}, teachers=several)


def check_same(before: Origins, now: Origins, *, places: Mapping[str, str]) -> None:
    """Nothing, when all models are those that the run began with; else `AskedWrongly` with what differs (E59).

    `places` are their references, by role, for the message.
    """
    found = [
        f"the {who} {place} has changed: {'; '.join(differing)}"
        for who, place in places.items()
        if (differing := list(_differing(before.by_role[who], now.by_role[who])))
    ]
    if found:
        raise AskedWrongly(
            f"{'. '.join(found)}. A run goes on from the models that it began with: bring those files back, or begin "
            "a new run in another folder"
        )


def _differing(before: Files, now: Files) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name) or not any(fnmatch(name, pattern) for pattern in _READ):
            continue
        if name not in now:
            yield f"{name} is gone"
        elif name not in before:
            yield f"{name} is new"
        else:
            yield f"{name} has SHA-256 {now[name]}, the run began with {before[name]}"
