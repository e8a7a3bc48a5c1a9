r"""What a majority of a question's samples says: majority@k. (pass@k and the mean are in `estimates.py`.)

    answers      42   42.0   \frac{84}{2}   41   none   7        42 is the gold
    votes        [——— correct, 3 ———]    [1]   silent  [1]   →   the majority is right

All correct answers are one vote, because each equals the gold. Two wrong answers are one vote when the house
rules call them equal by exact arithmetic or as text; what takes more than that (roots, logarithms) counts as the
same only where it is written the same. A sample without an answer has no vote. A tie is split evenly among the
answers that lead; where nobody has a vote there is no majority, and it is not right.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from opd.evaluate.statistics.estimates import Estimate, mean_over_questions
from opd.grading.equality import Finding, NeedsWorker, compare
from opd.grading.exact import Exact
from opd.records.errors import AskedWrongly
from opd.records.scores import Sample

Vote = tuple[str | None, bool]  # the answer as it stood, and whether it counts as correct


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """The votes of one question's samples."""

    correct: int
    """Samples that are right: one answer."""
    wrong: tuple[int, ...]
    """How many samples gave each of the wrong answers, most first."""
    silent: int
    """Samples without an answer that are not right."""

    @property
    def samples(self) -> int:
        """All of them."""
        return self.correct + sum(self.wrong) + self.silent


def ballot(votes: Iterable[Vote]) -> Ballot:
    """The ballot of one question."""
    cast = list(votes)
    groups = wrong_groups(cast)
    correct = sum(is_correct for _, is_correct in cast)  # a judge can find a right answer where there is no box
    wrong = tuple(map(len, groups))
    return Ballot(correct=correct, wrong=wrong, silent=len(cast) - correct - sum(wrong))


def wrong_groups(votes: Iterable[Vote]) -> list[list[str]]:
    """The wrong answers in groups of equal ones, largest first; an answer joins the first group that it equals."""
    groups: list[list[str]] = []
    for answer, is_correct in votes:
        if is_correct or answer is None:
            continue
        of = next((group for group in groups if answer in group or same_answer(answer, group[0])), None)
        if of is None:
            groups.append([answer])
        else:
            of.append(answer)
    return sorted(groups, key=len, reverse=True)


def ballots(samples: Iterable[Sample]) -> tuple[Ballot, ...]:
    """A ballot for each question, in the order of the questions' names, votes in the order of the samples."""
    by_question: dict[str, dict[int, Vote]] = {}
    for sample in samples:
        of_question = by_question.setdefault(sample.question, {})
        of_question[sample.sample] = (sample.judgement.extracted, sample.correct)
    return tuple(ballot(vote for _, vote in sorted(votes.items())) for _, votes in sorted(by_question.items()))


def same_answer(one: str, other: str) -> bool:
    """Whether two answers are one by the house rules, as far as exact arithmetic and text decide."""
    try:
        return compare(one, other, Exact()).finding is Finding.EQUAL
    except NeedsWorker:
        return False


def majority_at_k(of: Ballot, k: int) -> float:
    """The chance that the majority of k of a question's samples, drawn without return, is right.

    Over all C(n, k) draws, not over one of them, so that it is unbiased for k < n. Raises `AskedWrongly` unless
    1 ≤ k ≤ n.
    """
    if not 1 <= k <= of.samples:
        raise AskedWrongly(f"majority@{k} of {of.samples} samples: k lies between 1 and the samples of a question")
    right = sum(
        (
            Fraction(comb(of.correct, votes) * ways, 1 + ties)
            for votes in range(1, min(of.correct, k) + 1)
            for ties, ways in _ways_not_to_beat(of, votes, drawn=k - votes).items()
        ),
        Fraction(),
    )
    return float(right / comb(of.samples, k))


def majority_at_k_score(of: Sequence[Ballot], k: int) -> Estimate:
    """Mean of majority@k over the questions, with its standard error over questions."""
    return mean_over_questions([majority_at_k(one, k) for one in of])


def _ways_not_to_beat(of: Ballot, votes: int, *, drawn: int) -> dict[int, int]:
    """By how many wrong answers tie with so many votes: the ways to draw the other samples so that none has more."""
    ways = {(0, 0): 1}  # (samples drawn so far, answers that tie) → ways
    for size in of.wrong:
        after: dict[tuple[int, int], int] = {}
        for (used, ties), so_far in ways.items():
            for taken in range(min(size, votes, drawn - used) + 1):
                key = used + taken, ties + (taken == votes)
                after[key] = after.get(key, 0) + so_far * comb(size, taken)
        ways = after
    by_ties: dict[int, int] = {}
    for (used, ties), so_far in ways.items():
        by_ties[ties] = by_ties.get(ties, 0) + so_far * comb(of.silent, drawn - used)
    return by_ties
