"""A final's questions, in every wording that their file has; read at the evaluator's side and kept in memory."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opd.protocol.at_hand import question_file
from opd.protocol.contamination.needles import Question
from opd.records.errors import AskedWrongly
from opd.records.fields import users_turn, value_in, written
from opd.records.files import read_lines
from opd.records.tasks import Measure

_PROBLEMS = ("problem", "question", "prompt")  # and what begins so: problem_alt is another wording
_ANSWERS = ("answer", "gold", "reward_model.ground_truth", "extra_info.answer", "solution")
_SOLVED = "####"  # behind it stands the answer of a worked solution


def final_questions(measure: Measure, *, beside: Sequence[Path] = ()) -> tuple[Question, ...]:
    """All of them, in order; `beside` are further folders that their files may lie in.

    Raises `AskedWrongly` where they are not at hand, and `AnswerIsNo` where they are others.
    """
    files = [question_file(source, measure, beside=beside) for source in measure.files]
    return tuple(question for path in files for question in _questions(path))


def problems(path: Path) -> Iterator[str]:
    """The problems of a file of training rows: texts of the same kind that are no secret."""
    for row in read_lines(path):
        yield from list(_wordings(row))[:1]


def _questions(path: Path) -> Iterator[Question]:
    for number, row in enumerate(read_lines(path), start=1):
        wordings = tuple(dict.fromkeys(_wordings(row)))
        if not wordings:
            names = ", ".join(_PROBLEMS)
            raise AskedWrongly(f"{path}, line {number}: no text in any of {names}; it has {', '.join(sorted(row))}")
        yield Question(wordings=wordings, answer=_answer(row))


def _wordings(row: Mapping[str, Any]) -> Iterator[str]:
    for name in (*_PROBLEMS, *sorted(key for key in row if key.startswith(_PROBLEMS) and key not in _PROBLEMS)):
        text = users_turn(value_in(row, name))
        if text is not None and text.strip():
            yield text.strip()


def _answer(row: Mapping[str, Any]) -> str:
    """Its gold answer; empty where there is none that could be looked for."""
    texts = (written(value_in(row, name)) for name in _ANSWERS)
    return next((text.rpartition(_SOLVED)[2].strip() for text in texts if text), "")
