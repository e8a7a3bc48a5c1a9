"""A file in numbers, counted again by hand."""

import json
from pathlib import Path

import pytest

from opd.train.corpus.description import AnswerKind, answer_kind, describe, lengths
from opd.train.corpus.duplicates import Sameness
from opd.train.corpus.problems import read_corpus

ROWS = [
    {"problem": "Solve. Find x-1.", "answer": "3", "id": "a"},
    {"problem": "Solve. Find x+1.", "answer": "4", "id": "b", "note": " "},
    {"problem": "Solve. Find  x-1.", "answer": "5", "id": "c", "note": None},
    {"problem": r"Solve. Box \boxed{{}}.", "answer": "", "id": "d", "note": "n"},
    {"problem": "Solve. 求 x.", "answer": "1/2", "id": "e"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def test_the_numbers_are_those_of_the_file(path: Path) -> None:
    """E38: the row that shows doubled braces is named."""
    said = describe(read_corpus(path), count_tokens=lambda text: len(text.split()))
    assert (said.rows, said.blank_problems) == (5, 0)
    assert {field.name: (field.rows, field.blank) for field in said.fields} == {
        "problem": (5, 0),
        "answer": (5, 1),
        "id": (5, 0),
        "note": (3, 2),
    }
    assert {same: one.rows for same, one in said.repeated.items()} == {
        Sameness.EXACT: 0,
        Sameness.SYMBOLS: 1,
        Sameness.WORDS: 2,
    }
    assert said.repeated[Sameness.SYMBOLS].examples == (("a", "c"),)
    assert said.answers == {AnswerKind.INTEGER: 3, AnswerKind.BLANK: 1, AnswerKind.FRACTION: 1}
    assert said.doubled_braces == ("d",)
    assert said.rows_with_cjk == 1
    assert said.shared_beginning == "Solve. "
    assert said.shared_end == "."
    assert said.tokens is not None
    assert (said.tokens.least, said.tokens.most, said.tokens.mean) == (3, 3, 3.0)
    assert json.loads(json.dumps(said.record()))["characters"]["most"] == 22


def test_percentiles_are_members() -> None:
    said = lengths([5, 1, 2, 100, 3])
    assert (said.least, said.median, said.mean, said.percentile_95, said.most) == (1, 3, 22.2, 5, 100)
    assert lengths([7]).percentile_95 == 7
    assert lengths(list(range(101))).percentile_95 == 95


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("-12", AnswerKind.INTEGER),
        ("025", AnswerKind.INTEGER),
        ("3.5", AnswerKind.DECIMAL),
        (r"-\dfrac{3}{4}", AnswerKind.FRACTION),
        (r"\frac34", AnswerKind.FRACTION),
        ("(C)", AnswerKind.CHOICE),
        (r"\text{(A)}", AnswerKind.CHOICE),
        (r"so \boxed{3}", AnswerKind.BOXED),
        ("(3, 4)", AnswerKind.EXPRESSION),
        (" ", AnswerKind.BLANK),
        (None, AnswerKind.NONE),
    ],
)
def test_kinds_of_answers(answer: str | None, kind: AnswerKind) -> None:
    assert answer_kind(answer) is kind


def test_math500_has_the_answers_that_were_counted_before(shared: Path) -> None:
    """311 integers and 48 fractions without a sign and with both braces; 3 have a sign and 5 are written \\frac43."""
    said = describe(read_corpus(shared / "data" / "math500.jsonl"))
    assert (said.answers[AnswerKind.INTEGER], said.answers[AnswerKind.FRACTION]) == (311, 48 + 3 + 5)


@pytest.mark.patient
def test_dapo_has_2963_chinese_rows_and_integers_alone(shared: Path) -> None:
    said = describe(read_corpus(shared / "data" / "dapo_math_unique.jsonl"))
    assert said.rows_with_cjk == 2_963
    assert said.answers == {AnswerKind.INTEGER: 16_395}
