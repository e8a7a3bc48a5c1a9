"""The questions of a benchmark, read from its files and checked against what it declares.

A file is looked for where `--data` says; in the package, for `opd:<task>/<file>`; under its path and below `data/`;
and then on the hub, where the benchmark names a place there. What its declaration leaves open, its digest and which
of several fields are read, is taken down from the file that is found.
"""

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
from opd.records.fields import value_in, written
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


def pinned(benchmark: Benchmark, data: Path | None = None, *, fetch: Download = download) -> Benchmark:
    """The benchmark with everything declared that its files left open, as the files say that are used.

    Raises `AskedWrongly` when such a file is missing, has another number of questions, or has none of the fields.
    """
    files = tuple(
        _taken_down(file, _place(file, benchmark, data, fetch), name=benchmark.name) if file.is_open else file
        for file in benchmark.files
    )
    return benchmark.model_copy(update={"files": files})


def is_at_hand(benchmark: Benchmark) -> bool:
    """Whether each file stands under its path, below `data/` or in the package."""
    return all(file.data.startswith(SHIPPED) or _here(file) is not None for file in benchmark.files)


def read_questions(benchmark: Benchmark, data: Path | None = None, *, fetch: Download = download) -> list[Question]:
    """The questions, in the order of the files; `data` is the file, or the folder of the files, when elsewhere.

    Raises `AskedWrongly` when a file is missing, is another one, or has a gold answer that can't be used.
    """
    numbers = count()
    questions: list[Question] = []
    for file in pinned(benchmark, data, fetch=fetch).files:
        path = _checked(file, _place(file, benchmark, data, fetch), name=benchmark.name)
        found = list(_questions(file, path, numbers))
        _refuse_other_count(file, path, len(found), name=benchmark.name)
        questions += found
    _refuse_repeated(questions, benchmark.name)
    return questions[: benchmark.questions]


def _place(file: QuestionFile, benchmark: Benchmark, data: Path | None, fetch: Download) -> Path:
    if data is not None:
        return _given(file, benchmark, data)
    if file.data.startswith(SHIPPED):
        return locate(file.data)
    if (path := _here(file)) is not None:
        return path
    if file.hub is not None:
        return fetch(file.hub)
    raise AskedWrongly(f"{file.data} is not here and not in data/; give --data ({benchmark.name} is {_which(file)})")


def _here(file: QuestionFile) -> Path | None:
    places = (Path(file.data).expanduser(), DATA / file.data)
    return next((path for path in places if path.is_file()), None)


def _which(file: QuestionFile) -> str:
    """How to tell that a file is the one that is meant."""
    return f"a file of {file.rows} questions" if file.sha256 is None else f"the file with SHA-256 {file.sha256}"


def _given(file: QuestionFile, benchmark: Benchmark, data: Path) -> Path:
    if data.is_dir():
        return data / Path(file.data).name
    if len(benchmark.files) > 1:
        names = " and ".join(Path(one.data).name for one in benchmark.files)
        raise AskedWrongly(f"{data}: {benchmark.name} has {len(benchmark.files)} files, {names}; give their folder")
    return data


def _taken_down(file: QuestionFile, path: Path, *, name: str) -> QuestionFile:
    """The file's declaration with its digest, and each field by the name that the first row has for it."""
    if not path.is_file():
        raise AskedWrongly(f"{path} does not exist; {name} needs {_which(file)}")
    rows = list(read_lines(path))
    _refuse_other_count(file, path, len(rows), name=name)
    fields = {field: _found(getattr(file, field), rows[0], path=path) for field in ("id", "problem", "answer")}
    return file.model_copy(update={"sha256": file.sha256 or sha256(path), **fields})


def _found(field: str, row: Mapping[str, Any], *, path: Path) -> str:
    """The first of the alternatives that the row has; the last one may be none at all."""
    names = field.split("|")
    if len(names) == 1:
        return field
    found = next((name for name in names if name in row or not name), None)
    if found is None:
        raise AskedWrongly(f"{path}: its first row has no {' and no '.join(names)}; it has {sorted(row)}")
    return found


def _checked(file: QuestionFile, path: Path, *, name: str) -> Path:
    if not path.is_file():
        raise AskedWrongly(f"{path} does not exist; {name} needs {_which(file)}")
    if (found := sha256(path)) != file.sha256:
        raise AskedWrongly(f"{path} has SHA-256 {found}; {name} is the file with {file.sha256}")
    return path


def _refuse_other_count(file: QuestionFile, path: Path, found: int, *, name: str) -> None:
    if found != file.rows:
        raise AskedWrongly(f"{path} has {found} questions, {name} has {file.rows} there")


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
    """A field as text, by the rules of `records/fields.py`."""
    if (text := written(value_in(values, field))) is None:
        raise AskedWrongly(f"{place}: no text in field {field!r}; it has {sorted(values)}")
    return text


def _refuse_repeated(questions: Sequence[Question], name: str) -> None:
    """An id names one question, over all files: a score would take two for one."""
    twice = [name for name, times in Counter(question.id for question in questions).items() if times > 1]
    if twice:
        raise AskedWrongly(
            f"{name}: {len(twice)} ids stand there more than once, {twice[0]} first; each names a question "
            '(id = "" takes the numbers of the rows instead)'
        )
