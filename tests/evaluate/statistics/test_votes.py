"""Majority@k: by going through every draw, and the cases that a definition has to settle."""

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.evaluate.statistics.estimates import mean_over_questions
from opd.evaluate.statistics.votes import Ballot, ballot, ballots, majority_at_k, majority_at_k_score, same_answer
from opd.records.errors import AskedWrongly
from opd.records.rollouts import StopReason
from opd.records.scores import Judgement, Sample, Verdict

RIGHT, SILENT = "right", None


def by_every_draw(votes: list[str | None], k: int) -> float:
    """The share of draws whose majority is right; a tie counts for the share of the leaders that are right."""
    total, draws = Fraction(), 0
    for drawn in combinations(votes, k):
        draws += 1
        counts = Counter(vote for vote in drawn if vote is not SILENT)
        leaders = [vote for vote, count in counts.items() if count == max(counts.values())]
        if RIGHT in leaders:
            total += Fraction(1, len(leaders))
    return float(total / draws)


@given(st.lists(st.sampled_from([RIGHT, "a", "b", "c", SILENT]), min_size=1, max_size=9), st.data())
def test_majority_at_k_is_the_share_over_every_draw(votes: list[str | None], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(votes)))
    wrong = Counter(vote for vote in votes if vote not in {RIGHT, SILENT})
    of = Ballot(
        correct=votes.count(RIGHT), wrong=tuple(sorted(wrong.values(), reverse=True)), silent=votes.count(SILENT)
    )
    assert majority_at_k(of, k) == pytest.approx(by_every_draw(votes, k), abs=1e-12)


def test_majority_of_one_is_the_mean() -> None:
    assert majority_at_k(Ballot(correct=5, wrong=(20, 3), silent=4), 1) == 5 / 32


def test_a_tie_is_split_evenly_and_a_plurality_is_enough() -> None:
    assert majority_at_k(Ballot(correct=2, wrong=(2,), silent=0), 4) == 0.5
    assert majority_at_k(Ballot(correct=2, wrong=(2, 2), silent=0), 6) == pytest.approx(1 / 3)
    assert majority_at_k(Ballot(correct=3, wrong=(2, 2, 2), silent=0), 9) == 1.0


def test_samples_without_an_answer_have_no_vote() -> None:
    """Thirty that ran out of room do not outvote one that answered; with no vote at all nothing is right."""
    assert majority_at_k(Ballot(correct=1, wrong=(), silent=30), 31) == 1.0
    assert majority_at_k(Ballot(correct=0, wrong=(), silent=4), 4) == 0.0


def test_majority_can_be_far_above_and_far_below_the_mean() -> None:
    assert majority_at_k(Ballot(correct=12, wrong=(1,) * 20, silent=0), 32) == 1.0
    assert majority_at_k(Ballot(correct=12, wrong=(20,), silent=0), 32) == 0.0


@pytest.mark.parametrize("k", [0, 5])
def test_a_majority_of_more_than_there_are_is_refused(k: int) -> None:
    with pytest.raises(AskedWrongly, match=f"majority@{k} of 4 samples: k lies between 1 and"):
        majority_at_k(Ballot(correct=2, wrong=(1,), silent=1), k)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1/2", r"\frac{1}{2}", True),
        ("0.5", r"\dfrac12", True),
        (" 41", "41.0", True),
        (r"\text{ Even }", "even", True),
        ("(1,2)", "(2,1)", False),
        ("1,2", "2, 1", True),
        (r"\sqrt{2}", r"\sqrt 2", True),  # the same text, layout aside
        (r"\sqrt{8}", r"2\sqrt{2}", False),  # equal, and beyond exact arithmetic: counted apart
        ("x+1", "y+1", False),
    ],
)
def test_two_answers_are_one_vote_by_exact_value_or_text(one: str, other: str, same: bool) -> None:
    assert same_answer(one, other) is same


def test_equal_wrong_answers_are_one_vote_and_right_ones_are_another() -> None:
    votes = [("1/2", False), ("7", True), (None, False), ("0.5", False), ("7.0", True), ("3", False), (None, True)]
    assert ballot(votes) == Ballot(correct=3, wrong=(2, 1), silent=1)


def sample(question: str, index: int, extracted: str | None, *, correct: bool) -> Sample:
    verdict = Verdict.CORRECT if correct else Verdict.WRONG if extracted else Verdict.NO_ANSWER
    return Sample(
        question=question,
        sample=index,
        seed=index,
        response="",
        tokens=1,
        stop=StopReason.EOS,
        gold="7",
        judgement=Judgement(verdict=verdict, extracted=extracted, stage="integer", reason=""),
    )


def test_samples_give_a_ballot_a_question_whatever_their_order() -> None:
    rows = [
        sample("b", 1, "7", correct=True),
        sample("a", 0, "8", correct=False),
        sample("b", 0, None, correct=False),
        sample("a", 1, "8", correct=False),
    ]
    of = ballots(rows)
    assert of == (Ballot(correct=0, wrong=(2,), silent=0), Ballot(correct=1, wrong=(), silent=1))
    assert ballots(rows[::-1]) == of
    assert majority_at_k_score(of, 2) == mean_over_questions([0.0, 1.0])
