"""A patch as lines for a page: which file, which line before and after, added, removed or beside.

A patch is a stranger's text. It is shown and never applied here; what a line is follows from the counts of its hunk
and not from how it looks, so that a removed line of dashes is no new file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
MOST_LINES = 2_000  # of all files together; a page must open on a phone
LONGEST = 400  # characters of a line
_FOLDS_FROM = 40  # lines of one file: more are folded


class Mark(StrEnum):
    """What a line of a patch is; the value is the name of its colour."""

    ADDED = "added"
    REMOVED = "removed"
    BESIDE = "beside"
    HUNK = "hunk"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, with its numbers; None where it stands on that side not at all."""

    mark: Mark
    before: int | None
    after: int | None
    text: str

    @property
    def sign(self) -> str:
        """Plus, minus or a blank: the colour alone would not do."""
        return {Mark.ADDED: "+", Mark.REMOVED: "\N{MINUS SIGN}"}.get(self.mark, " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a patch does to one file."""

    path: str
    lines: tuple[Line, ...]
    left_out: int  # lines that are not shown

    @property
    def added(self) -> int:
        """Lines shown as added."""
        return sum(line.mark is Mark.ADDED for line in self.lines)

    @property
    def removed(self) -> int:
        """Lines shown as removed."""
        return sum(line.mark is Mark.REMOVED for line in self.lines)

    @property
    def folds(self) -> bool:
        """Whether it is too long to stand open."""
        return len(self.lines) > _FOLDS_FROM


def changed_files(patch: str, *, most: int = MOST_LINES) -> tuple[Changed, ...]:
    """The files of a patch as git writes it, in order; beyond `most` lines they are counted and not shown."""
    found: list[Changed] = []
    path, lines = "", list[Line]()
    left = most
    for name, line in _walk(patch):
        if name is not None:
            if path:
                found.append(_whole(path, lines, left))
                left = max(0, left - len(lines))
            path, lines = name, []
        if line is not None:
            lines.append(line)
    if path or lines:
        found.append(_whole(path or "patch", lines, left))
    return tuple(found)


def _whole(path: str, lines: list[Line], left: int) -> Changed:
    return Changed(path=path, lines=tuple(lines[:left]), left_out=max(0, len(lines) - left))


def _walk(patch: str) -> Iterator[tuple[str | None, Line | None]]:
    """The name of a file where one begins, and each line that is shown."""
    before = after = owed_before = owed_after = 0
    for text in patch.split("\n"):
        if owed_before > 0 or owed_after > 0:
            mark = {"+": Mark.ADDED, "-": Mark.REMOVED, "\\": Mark.OTHER}.get(text[:1], Mark.BESIDE)
            old, new = mark in {Mark.REMOVED, Mark.BESIDE}, mark in {Mark.ADDED, Mark.BESIDE}
            yield (
                None,
                Line(
                    mark=mark,
                    before=before if old else None,
                    after=after if new else None,
                    text=text[1 : 1 + LONGEST],
                ),
            )
            before, after = before + old, after + new
            owed_before, owed_after = owed_before - old, owed_after - new
        elif hunk := _HUNK.match(text):
            before, after = int(hunk[1]), int(hunk[3])
            owed_before, owed_after = int(hunk[2] or 1), int(hunk[4] or 1)
            yield None, Line(mark=Mark.HUNK, before=None, after=None, text=text[:LONGEST])
        elif text.startswith("diff --git "):
            yield _name(text), None
        elif text and not text.startswith(("index ", "--- ", "+++ ")):
            yield None, Line(mark=Mark.OTHER, before=None, after=None, text=text[:LONGEST])


def _name(header: str) -> str:
    """`run.sh` of `diff --git a/run.sh b/run.sh`; where the two differ, the second."""
    return header.rpartition(" b/")[2][:LONGEST] or header[:LONGEST]
