"""Duplicates are found, the first stays, and a file full of them is noted."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.files import read_lines
from opd.train.corpus.duplicates import Repetition, Sameness, digits, groups, repeats, repetition
from opd.train.corpus.problems import Problem, read_corpus
from opd.train.corpus.symbols import symbol_form
from opd.train.corpus.texts import canonical


def problems(*texts: str, answers: tuple[str, ...] = ()) -> list[Problem]:
    filled = [*answers, *[None] * (len(texts) - len(answers))]
    return [
        Problem(row=row, name=f"p{row}", text=text, answer=answer)
        for row, (text, answer) in enumerate(zip(texts, filled, strict=True))
    ]


@given(st.lists(st.sampled_from(["a b", "a  b", "a-b", "a+b", "c"]), max_size=12), st.sampled_from(Sameness))
def test_what_stays_is_the_first_of_each_form(texts: list[str], same: Sameness) -> None:
    form = {
        Sameness.EXACT: lambda text: text,
        Sameness.SYMBOLS: lambda text: text.replace("  ", " "),
        Sameness.WORDS: lambda text: "a b" if text[0] == "a" else text,
    }[same]
    seen: set[str] = set()
    dropped = []
    for row, text in enumerate(texts):
        if form(text) in seen:
            dropped.append(row)
        seen.add(form(text))
    found = repeats(problems(*texts), same)
    assert [repeat.dropped.row for repeat in found] == dropped
    assert all(form(repeat.first.text) == form(repeat.dropped.text) for repeat in found)
    assert all(repeat.first.row < repeat.dropped.row for repeat in found)


def test_a_sign_makes_another_problem_unless_words_alone_are_compared() -> None:
    both = problems("Roots of $z^4-z^2+1$", "Roots of $z^4+z^2+1$")
    assert not repeats(both, Sameness.SYMBOLS)
    assert [repeat.dropped.row for repeat in repeats(both, Sameness.WORDS)] == [1]


def test_groups_whose_answers_differ_are_told() -> None:
    (group,) = groups(problems("p", "p", "p", "q", answers=("6", "64", "6 ", "1")), Sameness.EXACT)
    assert group.answers == ("6", "64")
    assert group.disagrees
    assert [repeat.record(Sameness.EXACT)["answers_agree"] for repeat in repeats(group.problems, Sameness.EXACT)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(("repeated", "accidental"), [(1, False), (2, True)])
def test_more_than_one_percent_of_repeated_problems_is_no_chance(repeated: int, accidental: bool) -> None:
    """E62: a file that holds its problems many times over is an accident of its making."""
    texts = [f"Compute {n}+1." for n in range(100 - repeated)]
    found = repetition(texts + texts[:repeated])
    assert (found.problems, found.repeated, found.accidental) == (100, repeated, accidental)
    assert found.example == (100 - repeated, 0)
    assert str(found).startswith(f"{repeated} of 100 problems ({repeated}.0%) repeat an earlier one")


def test_no_problems_are_no_repetition() -> None:
    assert repetition([]) == Repetition(problems=0, repeated=0, example=None)
    assert not repetition([]).accidental


def test_a_file_with_every_problem_a_hundred_times_is_counted() -> None:
    """E62: 1.79 million rows that were 17 thousand; another file that held every problem 32 times."""
    found = repetition([f"Compute {n}." for n in range(10)] * 100)
    assert (found.repeated, found.share) == (990, 0.99)


@pytest.mark.patient
def test_of_17917_rows_17398_are_different_by_exact_text(shared: Path) -> None:
    """E62: as many rows, exact copies and respellings as the public file has, of its own problems."""
    texts = [str(row["problem"]) for row in read_lines(shared / "data" / "dapo_math_unique.jsonl")]
    respelt = [f"{text} " for text in texts[:1_003]]  # other texts of the same words
    rows = [*texts, *respelt, *texts[-519:]]
    problems = [Problem(row=row, name=str(row), text=text, answer=None) for row, text in enumerate(rows)]
    left = {same: len(rows) - len(repeats(problems, same)) for same in (Sameness.EXACT, Sameness.WORDS)}
    assert (len(rows), left) == (17_917, {Sameness.EXACT: 17_398, Sameness.WORDS: 16_395})
    assert repetition(rows).accidental


def test_the_first_that_repeats_is_shown_with_what_it_repeats() -> None:
    """Row 3 is row 1 in another spelling, and row 4 is row 0 again."""
    texts = ["Find $x$.", "Find \\dfrac{1}{2}.", "Find $y$.", "Find $\\frac{1}{2}$.", "Find $x$."]
    assert repetition(texts) == Repetition(problems=5, repeated=2, example=(3, 1))


PIECES = st.sampled_from(
    [
        "1",
        "2",
        "12",
        "1,000",
        "²",
        "½",
        "\\dfrac",
        "\\frac",
        "{",
        "}",
        "$",
        "x",
        " ",
        "\\left(",
        "(",
        "Find",
        "find",
        "。",
    ]
)


@given(st.lists(st.lists(PIECES, max_size=5).map("".join), max_size=30))
def test_the_count_is_that_of_the_forms_of_all_texts(texts: list[str]) -> None:
    """The short way, by digits first, against the long one."""
    found = repetition(texts)
    assert found.repeated == len(texts) - len({symbol_form(text) for text in texts})
    if found.example is not None:
        later, earlier = found.example
        assert earlier < later
        assert symbol_form(texts[later]) == symbol_form(texts[earlier])
    assert all(digits(symbol_form(text)) == digits(text) for text in texts)


@pytest.mark.patient
def test_rows_of_the_reference_data_repeat_in_another_spelling_and_never_by_words(shared: Path) -> None:
    """E62: 233 of the 15,285 rows that the reference trains on; so its recipe says that they may."""
    rows = read_lines(shared / "data" / "dapo_math_unique.jsonl")
    texts = [str(row["problem"]) for row in rows if row["projection"] == "train"]
    found = repetition(texts)
    assert (found.problems, found.repeated) == (15_285, 233)
    assert found.accidental
    assert len({canonical(text) for text in texts}) == len(texts)


@pytest.mark.patient
def test_the_unique_rows_of_dapo_hold_257_problems_again_in_another_spelling(shared: Path) -> None:
    """Measured here: \\dots for \\ldots, a_{1} for a_1. By words alone there is none: the file was made so."""
    corpus = read_corpus(shared / "data" / "dapo_math_unique.jsonl")
    assert not repeats(corpus.problems, Sameness.WORDS)
    assert len(repeats(corpus.problems, Sameness.SYMBOLS)) == 257
