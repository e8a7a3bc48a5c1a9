r"""A file of responses graded line by line, in bounded memory.

    {"id": "q7/2", "response": "… \\boxed{12}.", "gold": "12"}                        a line that goes in
    {"id": "q7/2", "verdict": "correct", "correct": true, "extracted": "12", …}      the line that comes out

The whole file is looked at before the first line is graded, so that a mistake in it costs nothing and leaves
nothing half written. Only the ids, as digests, and a batch of lines are in memory.
"""

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from opd.grading.grader import Graded, Grader
from opd.records.errors import AskedWrongly

_MOST_ROWS = 512  # of a batch
_MOST_CHARACTERS = 4_000_000  # of a batch, unless one response alone has more


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line that goes in; other keys than these are passed over."""

    id: str | int
    response: str
    gold: str
    cut_short: bool = False
    """The length limit ended the response."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the lines so far came to."""

    verdicts: Counter[str] = field(default_factory=Counter)
    inside_reasoning: int = 0
    """Boxes that stood inside the reasoning."""
    agreements: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """Of the first and the second grader, by whether each says correct; empty without a second one."""

    @property
    def rows(self) -> int:
        """How many lines were graded."""
        return self.verdicts.total()


class Sheet:
    """A file of responses that was looked through and found to be in order. Use `opened`."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name

    def rows(self) -> Iterator[Row]:
        """The lines of the file, in order; blank ones are passed over. Raises `AskedWrongly` for a bad one."""
        for _, row in self._placed():
            yield row

    def _placed(self) -> Iterator[tuple[str, Row]]:
        self._file.seek(0)
        for number, line in enumerate(self._file, start=1):
            if line.strip():
                place = f"{self._name}, line {number}"
                yield place, _row(line, place=place)

    def check(self) -> None:
        """Nothing, when every line can be graded and names its response alone; else `AskedWrongly`."""
        seen: set[bytes] = set()
        for place, row in self._placed():
            key = hashlib.blake2b(json.dumps(row.id).encode(), digest_size=16).digest()
            if key in seen:
                raise AskedWrongly(f"{place}: id {row.id!r} stands there a second time; give each response its own")
            seen.add(key)

    def graded(self, grader: Grader, second: Grader | None, tally: Tally) -> Iterator[dict[str, Any]]:
        """The lines that come out, in the order of those that went in; `tally` counts them."""
        for batch in self._batches():
            cases = [(row.response, row.gold, row.cut_short) for row in batch]
            firsts = grader.graded(cases)
            seconds = [None] * len(cases) if second is None else second.graded(cases)
            for row, first, other in zip(batch, firsts, seconds, strict=True):
                tally.verdicts[first.judgement.verdict] += 1
                tally.inside_reasoning += first.judgement.inside_reasoning
                values = {"id": row.id} | _values(first)
                if other is not None:
                    tally.agreements[first.judgement.verdict.correct, other.judgement.verdict.correct] += 1
                    values["second"] = {"by": other.judgement.by} | _values(other)
                yield values

    def _batches(self) -> Iterator[list[Row]]:
        batch: list[Row] = []
        characters = 0
        for row in self.rows():
            if batch and (len(batch) == _MOST_ROWS or characters + len(row.response) > _MOST_CHARACTERS):
                yield batch
                batch, characters = [], 0
            batch.append(row)
            characters += len(row.response)
        if batch:
            yield batch


@contextmanager
def opened(path: Path) -> Iterator[Sheet]:
    """The sheet that a file holds, looked through; a pipe is copied to a temporary file first."""
    with _file(path) as file:
        sheet = Sheet(file, str(path))
        sheet.check()
        yield sheet


def _file(path: Path) -> IO[bytes]:
    """A file that can be read from its start more than once."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise AskedWrongly(f"{path} does not exist") from None
    except IsADirectoryError:
        raise AskedWrongly(f"{path} is a folder; name a file of JSON Lines") from None
    if path.is_file():
        return file
    copy = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    with file:
        shutil.copyfileobj(file, copy)
    return copy


def _row(line: bytes, *, place: str) -> Row:
    try:
        values = json.loads(line.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise AskedWrongly(f"{place} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise AskedWrongly(f"{place} is not a JSON object with id, response and gold: {line[:60]!r}")
    missing = [key for key in ("id", "response", "gold") if key not in values]
    if missing:
        raise AskedWrongly(f"{place} has no {' and no '.join(missing)}; it has {', '.join(values) or 'nothing'}")
    if not isinstance(values["id"], str | int) or isinstance(values["id"], bool):
        raise AskedWrongly(f"{place}: id = {_shown(values['id'])} is neither text nor a whole number")
    for key in ("response", "gold"):
        if not isinstance(values[key], str):
            raise AskedWrongly(f"{place}: {key} = {_shown(values[key])} is not text; put it in quotes")
    cut_short = values.get("cut_short", False)
    if not isinstance(cut_short, bool):
        raise AskedWrongly(f"{place}: cut_short = {_shown(cut_short)} is neither true nor false")
    return Row(id=values["id"], response=values["response"], gold=values["gold"], cut_short=cut_short)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; a key that stands there twice would be read as its last value alone."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands there twice")
    return found


def _shown(value: object) -> str:
    return json.dumps(value)[:60]


def _values(graded: Graded) -> dict[str, Any]:
    judgement = graded.judgement
    return {
        "verdict": judgement.verdict.value,
        "correct": judgement.verdict.correct,
        "extracted": judgement.extracted,
        "stage": judgement.stage,
        "reason": judgement.reason,
        "seconds": round(graded.seconds, 6),
    }
