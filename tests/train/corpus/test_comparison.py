"""Verdicts on pairs of problems, by hand."""

import pytest

from opd.train.corpus.comparison import Verdict, compare

RADICAL = r"For how many real values of $x$ is $\sqrt{120-\sqrt{x}}$ an integer?"


@pytest.mark.parametrize(
    ("training", "evaluation", "verdict"),
    [
        (RADICAL, r"For how many real  values of $x$ is $\sqrt{120 - \sqrt{x}}$ an integer?", Verdict.SAME),
        (RADICAL.replace("120", "63"), RADICAL, Verdict.CHANGED),
        (f"{RADICAL} Provide the number of such values.", RADICAL, Verdict.CONTAINS),
        (f"{RADICAL} The answer is k/m; give k+m.", RADICAL, Verdict.CONTAINS),
        (f"Solve step by step. {RADICAL}", RADICAL, Verdict.CONTAINS),
        (RADICAL, f"{RADICAL} Prove it.", Verdict.PART),
        ("Let x = 3. Find y.", "Let x = 3. Compute y.", Verdict.REWORDED),
        ("Find $P(16)+P(17)$.", "Find $P(16)$.", Verdict.CHANGED),
        ("Roots of $z^4-z^2+1=0$?", "Roots of $z^4+z^2+1=0$?", Verdict.CHANGED),
        ("Arrange the letters of ELEVEN.", "Arrange the letters of ELLIPSE.", Verdict.CHANGED),
        ("How many odd divisors has 60?", "How many even divisors has 60?", Verdict.CHANGED),
        ("He opens six boxes.", "He opens five boxes.", Verdict.CHANGED),
        ("Find the maximum of $f$.", "Find the largest value of $f$.", Verdict.REWORDED),
        ("若 $x+2y=7$，求 $x$。", "If $x+2y=7$, find the positive $x$.", Verdict.TRANSLATED),
        ("若 $x+2y=8$，求 $x$。", "If $x+2y=7$, find $x$.", Verdict.CHANGED),
        ("", "", Verdict.SAME),
        ("2+2", "2+2", Verdict.SAME),
        ("2+3", "2+2", Verdict.CHANGED),
    ],
)
def test_verdicts(training: str, evaluation: str, verdict: Verdict) -> None:
    assert compare(training, evaluation).verdict is verdict


def test_added_text_around_another_question_does_not_hide_the_change() -> None:
    found = compare(f"Please solve. {RADICAL.replace('120', '63')} Give the count.", RADICAL)
    assert found.verdict is Verdict.CHANGED


def test_differences_are_shown_in_their_place() -> None:
    assert compare("the roots of $z^4-z^2+1$", "the roots of $z^4+z^2+1$").differences == (
        "of z ^ 4 [+ → -] z ^ 2 +",
    )
    assert compare(RADICAL, RADICAL).differences == ()
