"""The problems of a data file: each with its row, its name, and its answer, wherever the file keeps them.

{"id": …, "problem": "Find x.", "answer": "3"}                          as in most files
{"prompt": [{"role": "user", "content": "Find x."}], "reward_model": {"ground_truth": "3"}}   as some trainers do
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from opd.records.errors import AskedWrongly
from opd.records.fields import users_turn, value_in, written
from opd.records.settings import Settings
from opd.train.corpus.texts import Words, words, words_and_characters
from opd.train.prompts.rows import read_rows

PROBLEM_FIELDS = ("problem", "question", "prompt")
ANSWER_FIELDS = ("answer", "reward_model.ground_truth", "gold", "solution")
NAME_FIELDS = ("id", "unique_id", "uuid")


class Fields(Settings):
    """Where a file keeps what is read from it; a dot leads into a value. What is not given is looked for."""

    problem: str | None = None
    """The field with the problem's text or chat; else the first that there is of problem, question, prompt."""
    answer: str | None = None
    """The field with the answer; else answer, reward_model.ground_truth, gold or solution; or none."""
    name: str | None = None
    """The field that names a row; else id, unique_id or uuid; or its place in the file."""


class Reading(Settings):
    """How a file is read when nothing else is asked of it."""

    fields: Fields = Fields()
    """Where the file keeps problem, answer and name."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One row as a problem. No slots: its words are kept once they have been asked for."""

    row: int  # place in the file, from 0
    name: str
    text: str
    answer: str | None
    teacher: str | None = None  # that a training row names

    @cached_property
    def words(self) -> Words:
        """The words of the public projections."""
        return words(self.text)

    @cached_property
    def parts(self) -> Words:
        """The words, and CJK characters one by one."""
        return words_and_characters(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A file: its rows as they stand, and the problem of each."""

    path: Path
    rows: Sequence[Mapping[str, Any]]
    problems: Sequence[Problem]
    fields: Fields  # as they were found


def read_corpus(path: Path, fields: Fields | None = None) -> Corpus:
    """All rows of a file, with their problems.

    Raises `AskedWrongly` when there is no row, no field with the problem, or a row in which it is not text.
    """
    rows = list(read_rows(path))
    if not rows:
        raise AskedWrongly(f"{path} has no rows")
    found = _found(fields or Fields(), rows, path)
    return Corpus(
        path=path, rows=rows, problems=[_problem(found, n, row, path) for n, row in enumerate(rows)], fields=found
    )


def _found(fields: Fields, rows: Sequence[Mapping[str, Any]], path: Path) -> Fields:
    """The fields with every one that was left open looked up; answer and name may stay open."""

    def first(given: str | None, candidates: Sequence[str]) -> str | None:
        names = candidates if given is None else [given]
        there = next((name for name in names if any(value_in(row, name) is not None for row in rows)), None)
        if given is not None and there is None:
            raise AskedWrongly(f"{path} has no field {given!r}; it has {', '.join(sorted(rows[0]))}")
        return there

    problem = first(fields.problem, PROBLEM_FIELDS)
    if problem is None:
        raise AskedWrongly(
            f"{path} has none of the fields {', '.join(PROBLEM_FIELDS)}; it has {', '.join(sorted(rows[0]))}: "
            "name the one with the problem, as in --set fields.problem=text"
        )
    return Fields(problem=problem, answer=first(fields.answer, ANSWER_FIELDS), name=first(fields.name, NAME_FIELDS))


def _problem(fields: Fields, row: int, values: Mapping[str, Any], path: Path) -> Problem:
    assert fields.problem is not None, "looked up before"
    text = users_turn(value_in(values, fields.problem))
    if text is None:
        raise AskedWrongly(
            f"row {row} of {path}: field {fields.problem!r} holds no text and no chat with a user's turn"
        )
    answer, name = (_text(values, field) for field in (fields.answer, fields.name))
    return Problem(row=row, name=f"row {row}" if name is None else name, text=text, answer=answer)


def _text(values: Mapping[str, Any], field: str | None) -> str | None:
    """What is neither text nor number is shown as Python has it; None where there is nothing."""
    value = None if field is None else value_in(values, field)
    return None if value is None else written(value) or str(value)
