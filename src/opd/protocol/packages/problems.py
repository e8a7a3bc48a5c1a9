"""The training problems as the phases get them: the rows that take part, and no others.

What a task leaves out of a file, a benchmark's own problems for instance, is then not to be had by editing a recipe.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.fields import value_in
from opd.records.files import sha256, whole
from opd.records.tasks import DataInput


def choose(data: DataInput, path: Path, out: Path) -> None:
    """The new file `out` holds the rows of `path` that take part, or all of it where the task leaves nothing out.

    `path` may hold nothing but those rows already. Raises `AnswerIsNo` when it is neither that file nor the one that
    the task pins, or the rows are not those.
    """
    if (found := sha256(path)) not in {data.sha256, data.given_sha256}:
        raise AnswerIsNo(f"{path} has SHA-256 {found[:12]}…, and the task pins {data.sha256[:12]}…; bring that file")
    taken, rows = hashlib.sha256(), 0
    with whole(out) as temporary, temporary.open("wb") as file:
        for line in chosen(path, data.where):
            taken.update(line)
            rows += bool(line.strip())
            file.write(line)
        if (taken.hexdigest(), rows) != (data.given_sha256, data.rows):
            raise AnswerIsNo(
                f"{path}: where {dict(data.where)} are {rows:,} rows with SHA-256 {taken.hexdigest()[:12]}…, and the "
                f"task says {data.rows:,} with {data.given_sha256[:12]}…; correct the task"
            )


def chosen(path: Path, where: Mapping[str, str]) -> Iterator[bytes]:
    """The lines of a JSON Lines file, as they are, whose fields have these values; all lines without conditions."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not where or _fits(_row(path, number, line), where):
                yield line


def _fits(row: Mapping[str, object], where: Mapping[str, str]) -> bool:
    return all(value_in(row, field) == value for field, value in where.items())


def _row(path: Path, number: int, line: bytes) -> Mapping[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise AskedWrongly(f"{path}, line {number}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise AskedWrongly(f"{path}, line {number}: not a JSON object, and `where` asks for its fields")
    return row
