"""The questions of a benchmark, read from its files and checked against what it declares.

A file is looked for where `--data` says; in the package, for `opd:<task>/<file>`; under its path and below `data/`;
and then on the hub, where the benchmark names a place there.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.hub import Download, download
from opd.grading.grader import check_gold
from opd.records.errors import AskedWrongly
from opd.records.files import read_lines, sha256
from opd.records.places import SHIPPED, locate

DATA = Path("data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of a benchmark."""

    row: int  # in the benchmark, over all of its files: the noise of its samples follows from it
    id: str
    problem: str
    gold: str


def read_questions(benchmark: Benchmark, data: Path | None = None, *, fetch: Download = download) -> list[Question]:
    """The questions, in the order of the files; `data` is the file, or the folder of the files, when elsewhere.

    Raises `AskedWrongly` when a file is missing, is another one, or has a gold answer that can't be used.
    """
    numbers = count()
    questions: list[Question] = []
    for file in benchmark.files:
        path = _checked(file, _place(file, benchmark, data, fetch), name=benchmark.name)
        found = list(_questions(file, path, numbers))
        if len(found) != file.rows:
            raise AskedWrongly(f"{path} has {len(found)} questions, {benchmark.name} has {file.rows} there")
        questions += found
    _refuse_repeated(questions, benchmark.name)
    return questions[: benchmark.questions]


def _place(file: QuestionFile, benchmark: Benchmark, data: Path | None, fetch: Download) -> Path:
    if data is not None:
        return _given(file, benchmark, data)
    if file.data.startswith(SHIPPED):
        return locate(file.data)
    for path in (Path(file.data).expanduser(), DATA / file.data):
        if path.is_file():
            return path
    if file.hub is not None:
        return fetch(file.hub)
    raise AskedWrongly(f"{file.data} is not here and not in data/; give --data (the file has SHA-256 {file.sha256})")


def _given(file: QuestionFile, benchmark: Benchmark, data: Path) -> Path:
    if data.is_dir():
        return data / Path(file.data).name
    if len(benchmark.files) > 1:
        names = " and ".join(Path(one.data).name for one in benchmark.files)
        raise AskedWrongly(f"{data}: {benchmark.name} has {len(benchmark.files)} files, {names}; give their folder")
    return data


def _checked(file: QuestionFile, path: Path, *, name: str) -> Path:
    if not path.is_file():
        raise AskedWrongly(f"{path} does not exist; {name} needs the file with SHA-256 {file.sha256}")
    if (found := sha256(path)) != file.sha256:
        raise AskedWrongly(f"{path} has SHA-256 {found}; {name} is the file with {file.sha256}")
    return path


def _questions(file: QuestionFile, path: Path, numbers: Iterator[int]) -> Iterator[Question]:
    for line, values in enumerate(read_lines(path)):
        place, row = f"row {line} of {path}", next(numbers)
        gold = _text(values, file.answer, place=place)
        if file.answer_after:
            _, mark, gold = gold.rpartition(file.answer_after)
            if not mark:
                raise AskedWrongly(f"{place}: no {file.answer_after!r} in field {file.answer!r}")
        check_gold(gold)
        yield Question(
            row=row,
            id=_text(values, file.id, place=place) if file.id else str(row),
            problem=_text(values, file.problem, place=place),
            gold=gold.strip(),
        )


def _text(values: Mapping[str, Any], field: str, *, place: str) -> str:
    """A field as text; a number is written as JSON writes it, a whole one without a point (27.0 is 27)."""
    value = values.get(field)
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AskedWrongly(f"{place}: no text in field {field!r}; it has {sorted(values)}")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else json.dumps(value)


def _refuse_repeated(questions: Sequence[Question], name: str) -> None:
    """An id names one question, over all files: a score would take two for one."""
    twice = [name for name, times in Counter(question.id for question in questions).items() if times > 1]
    if twice:
        raise AskedWrongly(
            f"{name}: {len(twice)} ids stand there more than once, {twice[0]} first; each names a question "
            '(id = "" takes the numbers of the rows instead)'
        )
