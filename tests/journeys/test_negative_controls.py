"""What must not work, does not: without these a gain says little. Expectations: the embedded task's controls."""

import json
from collections.abc import Callable
from pathlib import Path

from opd.evaluate.comparison import compare
from opd.evaluate.results import read_results
from opd.records.scores import Comparison
from opd.train.objective import StudentView, TokenLoss
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.batch import Batch

Distil = Callable[..., Path]
Scored = Callable[[str], Path]


class Flipped(K1PolicyGradient):
    """The reference objective with its sign turned round."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        right = super().__call__(student, batch)
        return TokenLoss(loss_N=-right.loss_N, metrics_N=right.metrics_N)


def test_itself_as_teacher_changes_nothing_that_can_be_told(distil: Distil, score: Scored, start: Path) -> None:
    run = distil("teacher.model=opd:arith_tiny/student", "budget.steps=25")
    change = difference(start, score(str(run / "checkpoint-25")))
    assert abs(change.difference) < 0.08
    assert metrics(run)[0]["kl"] == 0.0  # the very same weights: not near zero, zero


def test_a_weaker_teacher_pulls_a_good_student_down(distil: Distil, score: Scored) -> None:
    before = score("opd:arith_tiny/teacher")
    run = distil("student.model=opd:arith_tiny/teacher", "teacher.model=opd:arith_gap/student", "budget.steps=25")
    change = difference(before, score(str(run / "checkpoint-25")))
    assert change.distinguishable
    assert change.difference < -0.04


def test_a_flipped_sign_collapses_the_student(distil: Distil, score: Scored, start: Path) -> None:
    run = distil("budget.steps=25", objective=Flipped())
    change = difference(start, score(str(run / "checkpoint-25")))
    assert change.mean_a > 0.4
    assert change.mean_b < 0.05
    assert metrics(run)[-1]["kl"] > 1.0


def test_too_short_a_cap_shows_in_the_share_cut_short(distil: Distil) -> None:
    short = distil("rollouts.limit_tokens=24", "budget.steps=2")
    assert metrics(short)[0]["cut_short"] > 0.5
    enough = distil("budget.steps=2")
    assert metrics(enough)[0]["cut_short"] < 0.02


def difference(a: Path, b: Path) -> Comparison:
    return compare(read_results(a), read_results(b))


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
