"""Whether one of two signals rules alone, and that a step's line says so."""

import pytest

from opd.train.alarms import warnings_of
from opd.train.update.balance import balance_note


def norms(k1: float, reward: float) -> dict[str, float]:
    return {"gradient_norm_k1": k1, "gradient_norm_reward": reward, "ratio": 1.0}


@pytest.mark.parametrize(("k1", "reward"), [(1.0, 1.0), (1.0, 10.0), (10.0, 1.0), (0.3, 0.05), (0.0, 0.0)])
def test_nothing_is_said_up_to_ten_times(k1: float, reward: float) -> None:
    assert balance_note(norms(k1, reward)) is None


NOTHING = "changes next to nothing beside it;"
REWARD = f"the task reward {NOTHING}"


@pytest.mark.parametrize(
    ("k1", "reward", "said"),
    [
        (
            1.0,
            10.1,
            f"the task reward's gradient (norm 10) is 10 times the teacher's (1): the teacher {NOTHING} lower",
        ),
        (0.5, 0.02, f"the teacher's gradient (norm 0.5) is 25 times the task reward's (0.02): {REWARD} raise"),
        (
            0.0,
            2.0,
            f"the task reward's gradient (norm 2) is there, the teacher has none: the teacher {NOTHING} lower",
        ),
    ],
)
def test_beyond_ten_times_the_one_that_rules_is_named_with_what_to_do(k1: float, reward: float, said: str) -> None:
    """E55: adding a task reward changed nothing visible."""
    assert balance_note(norms(k1, reward)) == f"{said} reward.weight"


def test_a_reward_without_a_gradient_is_answered_with_its_cause() -> None:
    """E55."""
    note = balance_note(norms(0.5, 0.0))
    assert note is not None
    assert note.startswith(
        "the task reward has no gradient, the teacher has one: the rollouts of each prompt are all"
    )


@pytest.mark.parametrize("objective", [{}, {"gradient_norm_k1": 1.0}, {"gradient_norm_reward": 99.0}])
def test_what_was_not_measured_is_not_judged(objective: dict[str, float]) -> None:
    assert balance_note(objective) is None


def test_the_line_of_a_step_warns_of_it(make_line) -> None:
    """E55."""
    apart = norms(1.0, 50.0)
    assert warnings_of(make_line(1, objective=norms(1.0, 1.0)), []) == ()
    assert warnings_of(make_line(1, objective=apart), []) == (balance_note(apart),)
