"""Duplicates are found, the first stays, and a file full of them is noted."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.train.corpus.duplicates import Sameness, duplicates_note, groups, repeats
from opd.train.corpus.problems import Problem, read_corpus


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


@pytest.mark.parametrize(("repeated", "noted"), [(1, False), (2, True)])
def test_more_than_one_percent_of_repeated_prompts_is_noted(repeated: int, noted: bool) -> None:
    """E62: a file that holds its problems many times over is an accident of its making."""
    texts = [f"Compute {n}+1." for n in range(100 - repeated)]
    note = duplicates_note(texts + texts[:repeated])
    assert (note is not None) == noted
    if note is not None:
        assert note.startswith("2 of 100 problems (2.0%) repeat an earlier one")


def test_no_problems_are_no_duplicates() -> None:
    assert duplicates_note([]) is None


def test_a_file_with_every_problem_a_hundred_times_is_noted() -> None:
    """E62."""
    assert "(99.0%)" in str(duplicates_note([f"Compute {n}." for n in range(10)] * 100))


@pytest.mark.patient
def test_the_unique_rows_of_dapo_hold_257_problems_again_in_another_spelling(shared: Path) -> None:
    """Measured here: \\dots for \\ldots, a_{1} for a_1. By words alone there is none: the file was made so."""
    corpus = read_corpus(shared / "data" / "dapo_math_unique.jsonl")
    assert not repeats(corpus.problems, Sameness.WORDS)
    assert len(repeats(corpus.problems, Sameness.SYMBOLS)) == 257
