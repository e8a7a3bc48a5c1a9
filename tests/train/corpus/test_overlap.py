"""Overlap with an evaluation set: by definition on small texts, by recorded pairs on real ones."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.train.corpus.comparison import Verdict
from opd.train.corpus.overlap import Decontamination, Found, Overlap, overlap
from opd.train.corpus.problems import Corpus, Fields, Problem, read_corpus

TEXT = st.lists(st.sampled_from(["red", "blue", "green"]), max_size=7).map(" ".join)
SMALL = Decontamination(run_words=2, shingle_words=2, near_jaccard=0.5, covered_share=0.75, stock_rows=3)


def problems(texts: list[str], answers: list[str] | None = None) -> list[Problem]:
    given_answers = answers or [None] * len(texts)
    return [
        Problem(row=row, name=f"p{row}", text=text, answer=answer)
        for row, (text, answer) in enumerate(zip(texts, given_answers, strict=True))
    ]


def corpus(texts: list[str], answers: list[str] | None = None) -> Corpus:
    return Corpus(
        path=Path("bench.jsonl"), rows=[{}] * len(texts), problems=problems(texts, answers), fields=Fields()
    )


def windows(words: list[str], length: int) -> set[str]:
    return {" ".join(words[i : i + length]) for i in range(len(words) - length + 1)}


def by_definition(training: list[str], evaluation: list[str]) -> list[tuple[int, int, Found, float, int, int]]:
    """Every pair, compared outright, with its measures."""
    texts_with = Counter(run for text in set(training) for run in windows(text.split(), 2))
    found = []
    for row, ours in enumerate(training):
        for place, theirs in enumerate(evaluation):
            a, b = ours.split(), theirs.split()
            if not a or not b:
                continue
            shingles_a, shingles_b = windows(a, 2) or {ours}, windows(b, 2) or {theirs}
            jaccard = len(shingles_a & shingles_b) / len(shingles_a | shingles_b)
            shared = windows(a, 2) & windows(b, 2)
            stock = sum(texts_with[run] >= 3 for run in shared)
            covered = windows(b, 2) and len(shared) / len(windows(b, 2)) >= 0.75 and len(shared) > stock
            long = len(a) > 1 and len(b) > 1  # a single word is no shingle of a longer text
            if a == b:
                kind = Found.SAME_WORDS
            elif long and (f" {theirs} " in f" {ours} " or f" {ours} " in f" {theirs} "):
                kind = Found.CONTAINED
            elif jaccard >= 0.5:
                kind = Found.NEAR
            elif covered:
                kind = Found.COVERED
            else:
                continue
            found.append((row, place, kind, pytest.approx(jaccard), len(shared), stock))
    return found


@given(st.lists(TEXT, max_size=8), st.lists(TEXT, min_size=1, max_size=4))
def test_the_index_finds_the_pairs_that_a_comparison_of_all_finds(training: list[str], evaluation: list[str]) -> None:
    found = overlap(problems(training), corpus(evaluation), SMALL)
    assert [
        (one.training.row, one.evaluation.row, one.found, one.jaccard, one.shared_runs, one.stock_runs)
        for one in found.pairs
    ] == by_definition(training, evaluation)
    runs = set().union(*(windows(text.split(), 2) for text in evaluation))
    assert found.rows_sharing_a_run == sum(bool(windows(text.split(), 2) & runs) for text in training)


def test_a_sign_is_seen_where_the_words_are_the_same() -> None:
    found = overlap(problems(["Roots of $z^4-z^2+1=0$?"], ["12"]), corpus(["Roots of $z^4+z^2+1=0$?"], ["6"]), SMALL)
    (pair,) = found.pairs
    assert (pair.found, pair.comparison.verdict, pair.removed) == (Found.SAME_WORDS, Verdict.CHANGED, False)
    assert pair.record()["differences"] == ["of z ^ 4 [+ → -] z ^ 2 +"]


def test_problems_too_short_for_a_run_are_still_found() -> None:
    found = overlap(problems(["Compute $2+2$.", "Sum?"]), corpus(["compute 2 + 2", "sum"]), Decontamination())
    assert [(pair.found, pair.comparison.verdict) for pair in found.pairs] == [(Found.SAME_WORDS, Verdict.SAME)] * 2
    assert [pair.coverage for pair in found.pairs] == [None, None]


def test_a_translation_is_found_by_its_mathematics() -> None:
    chinese = "已知 $x^2+3xy+y^2=60$，其中 $x$ 和 $y$ 是实数，求 $xy$ 的最大值。"
    english = "Given $x^2 + 3xy + y^2 = 60$, where $x$ and $y$ are real numbers, find the largest value of $xy$."
    (pair,) = overlap(problems([chinese]), corpus([english]), Decontamination()).pairs
    assert (pair.found, pair.comparison.verdict, pair.removed) == (
        Found.SAME_FORMULAS,
        Verdict.TRANSLATED,
        True,
    )


def test_a_changed_problem_goes_only_when_its_answer_is_the_same() -> None:
    texts, bench = ["What is the sum of 5 and 7?", "What is the sum of 6 and 7?"], ["What is the sum of 4 and 8?"]
    settings = SMALL.model_copy(update={"near_jaccard": 0.4})
    found = overlap(problems(texts, ["12", "13"]), corpus(bench, [" 12"]), settings)
    assert [(pair.comparison.verdict, pair.answers_agree, pair.removed) for pair in found.pairs] == [
        (Verdict.CHANGED, True, True),
        (Verdict.CHANGED, False, False),
    ]
    unknown = overlap(problems(texts, ["12", "13"]), corpus(bench), settings)
    assert [(pair.answers_agree, pair.removed) for pair in unknown.pairs] == [(None, False), (None, False)]


def test_repeating_a_row_makes_no_phrase_of_it_stock() -> None:
    """A file that holds a benchmark problem a hundred times must not hide it as a phrase that many rows share."""
    found = overlap(problems(["red blue green red"] * 100), corpus(["red blue green red"]), SMALL)
    assert found.stock_phrases == ()
    assert len(found.pairs) == 100
    assert found.counts()["removed_rows"] == 100


def test_a_phrase_of_many_problems_is_stock_and_counted() -> None:
    texts = [f"red blue {n} {n + 1}" for n in range(5)]
    found = overlap(problems(texts), corpus(["red blue and no more"]), SMALL)
    assert found.stock_phrases == (("red blue", 5),)
    assert (found.rows_sharing_a_run, found.rows_sharing_more_than_stock) == (5, 0)
    assert found.pairs == ()


@pytest.fixture(scope="module")
def dapo_math500(shared: Path) -> Overlap:
    training = read_corpus(shared / "data" / "dapo_math_unique.jsonl")
    return overlap(training.problems, read_corpus(shared / "data" / "math500.jsonl"), Decontamination())


@pytest.mark.patient
def test_the_recorded_pairs_of_dapo_and_math500_are_found(dapo_math500: Overlap, shared: Path) -> None:
    recorded = json.loads((shared / "data" / "overlap_with_math500.json").read_text(encoding="utf-8"))
    expected = {
        (one["train_id"], one["eval_id"], one["kind"]): one["jaccard_3word"]
        for one in recorded
        if one["train_file"] == "dapo_math_unique"
    }
    listed = {Found.SAME_WORDS, Found.CONTAINED, Found.NEAR}
    found = {
        (one.training.name, one.evaluation.name, one.found.value): round(one.jaccard, 3)
        for one in dapo_math500.pairs
        if one.found in listed
    }
    assert Counter(kind for _, _, kind in found) == {"same_words": 7, "contained": 2, "near": 15}
    assert found == pytest.approx(expected, abs=1e-3)
    assert dapo_math500.rows_sharing_a_run == 1_340


def test_the_six_proxy_problems_are_the_same_and_the_seventh_has_another_sign(dapo_math500: Overlap) -> None:
    same_words = {pair.evaluation.name: pair for pair in dapo_math500.pairs if pair.found is Found.SAME_WORDS}
    numbers = (46, 80, 101, 276, 285, 292, 412)
    assert sorted(same_words) == [f"math500-{number:03}" for number in numbers]
    assert {name for name, pair in same_words.items() if not pair.removed} == {"math500-046"}
    assert all(
        pair.comparison.verdict is Verdict.SAME and pair.answers_agree
        for name, pair in same_words.items()
        if name != "math500-046"
    )
    assert [pair.comparison.verdict for pair in dapo_math500.pairs if pair.found is Found.CONTAINED] == [
        Verdict.CONTAINS
    ] * 2


@pytest.mark.patient
def test_nothing_of_dapo_is_an_aime_problem(shared: Path) -> None:
    """1,030 rows share a run of words with AIME; none comes near."""
    training = read_corpus(shared / "data" / "dapo_math_unique.jsonl")
    for name in ("aime24", "aime25"):
        assert (
            overlap(training.problems, read_corpus(shared / "data" / f"{name}.jsonl"), Decontamination()).pairs == ()
        )


SPOILT = {
    "zero-width spaces": "\u200b".join,
    "soft hyphens": lambda text: text.replace("i", "i\u00ad"),
    "marks of direction": lambda text: text.replace(" ", " \u200f\u202a"),
    "full-width letters": lambda text: "".join(chr(ord(c) + 0xFEE0) if c.isalnum() else c for c in text),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "capitals": str.upper,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_a_problem_in_disguise_is_found(spoil: Callable[[str], str]) -> None:
    """H43: none of these is to be seen on a page, and each defeats a plain search for the text."""
    text = "Find how many positive integers below one hundred are multiples of seven and have no digit three."
    hidden = spoil(text)
    assert text not in hidden
    (pair,) = overlap(problems([hidden]), corpus([text]), Decontamination()).pairs
    assert pair.found is Found.SAME_WORDS
    assert pair.removed


def test_the_longest_run_stands_in_its_context() -> None:
    training = "Before it starts. Red blue green red yellow, and more behind."
    (pair,) = overlap(problems([training]), corpus(["red blue green red yellow"]), SMALL).pairs
    record = pair.record()
    assert record["longest_run"] == "red blue green red yellow"
    assert record["longest_run_characters"] == 25
    assert record["context"] == "before it starts [red blue green red yellow] and more behind"


def test_a_long_context_is_cut_and_says_so() -> None:
    training = f"{'far ' * 40}red blue green red{' away' * 40}"
    (pair,) = overlap(problems([training]), corpus(["red blue green red"]), SMALL).pairs
    before, run, after = re.split(r" ?[\[\]] ?", str(pair.record()["context"]))
    assert (before[0], len(before), run, len(after), after[-1]) == ("…", 61, "red blue green red", 61, "…")


def test_the_record_names_every_problem_that_was_looked_for() -> None:
    """H48: only what was compared can be called clean."""
    found = overlap(problems(["red"]), corpus(["blue green", "red blue"]), SMALL)
    assert found.record()["names"] == ["p0", "p1"]
    assert found.problems == 2
