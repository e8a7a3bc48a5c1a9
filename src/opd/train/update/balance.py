"""Which of two signals moves the student: the teacher's, or the task reward's beside it (fault E55).

Two terms of a loss are of no use to each other where one's gradient is ten times the other's: the smaller one
changes nothing that could be seen.
"""

from collections.abc import Mapping

APART = 10.0  # one gradient norm over the other
TEACHER, REWARD = "gradient_norm_k1", "gradient_norm_reward"  # in `StepMetrics.objective`, on measured steps


def balance_note(objective: Mapping[str, float]) -> str | None:
    """The line when the gradients of k1 and reward are more than ten times apart; None when not, or not measured."""
    if TEACHER not in objective or REWARD not in objective:
        return None
    teacher, reward = objective[TEACHER], objective[REWARD]
    if reward > APART * teacher:
        return _apart("the task reward", reward, "the teacher", teacher, "lower")
    if teacher <= APART * reward:
        return None
    if reward == 0:
        return (
            "the task reward has no gradient, the teacher has one: the rollouts of each prompt are all right or all "
            "wrong; more rollouts.per_prompt, or other problems, make them differ"
        )
    return _apart("the teacher", teacher, "the task reward", reward, "raise")


def _apart(ruler: str, larger: float, other: str, smaller: float, act: str) -> str:
    times = f"{larger / smaller:.0f} times {other}'s ({smaller:.2g})" if smaller else f"there, {other} has none"
    return (
        f"{ruler}'s gradient (norm {larger:.2g}) is {times}: {other} changes next to nothing beside it; {act} "
        "reward.weight"
    )
