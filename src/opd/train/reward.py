"""A task reward beside the teacher: is the answer right, and how does that compare with its siblings?

The reward of a rollout is that of its verdict, from training's own copy of the room `grading`; the official score
comes from the install's. Within the rollouts of a prompt it is centred and, by default, divided by their standard
deviation (group-normalised advantage: Shao et al., "DeepSeekMath" (2024), section 4.1). A group that agrees has
advantage 0. A grader that fails says nothing about the answer: that rollout counts as its group's mean.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Annotated, Literal

from pydantic import Field

from opd.grading.grader import Grader
from opd.grading.identity import HOUSE, REFERENCE
from opd.grading.pool import Limits
from opd.models.chat import response_text
from opd.models.load import LanguageModel
from opd.records.errors import AskedWrongly
from opd.records.rollouts import ScoredRollout
from opd.records.settings import Settings

Points = Annotated[float, Field(ge=-1e6, le=1e6)]  # squares of a group's stay far from infinity

_SMALLEST_SPREAD = 1e-6  # of equal rewards; keeps 0/0 out


class RewardSettings(Settings):
    """How correctness becomes an advantage; the section as a whole may be left out."""

    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Of the reward's policy gradient beside that of k1."""
    correct: Points = 1.0
    """Reward of a correct answer."""
    wrong: Points = -1.0
    """Reward of any other settled verdict."""
    normalise: Literal["group_std", "group_mean"] = "group_std"
    """Within the rollouts of a prompt: centred and scaled, or centred only."""
    grader: str | None = None
    """`reference`, the public rule grader's behaviour, or `module:function`, in place of the house rules."""


def unusable_grader(settings: RewardSettings | None) -> str | None:
    """Why someone's own grader can't be run here, told by running it once; None when it can, or there is none.

    What it makes of that one case is no matter; a module or a function that there is not is.
    """
    if settings is None or settings.grader in {None, HOUSE, REFERENCE}:
        return None
    try:
        with Grader(grader=settings.grader, limits=Limits(workers=1)) as grader:
            grader.grade([("\\boxed{1}", "1", False)])
    except AskedWrongly as error:
        return f"reward: {error}; correct reward.grader, or put its module on PYTHONPATH"
    return None


class Reward:
    """Grades rollouts and turns their rewards into advantages; its processes end with `close`."""

    def __init__(self, settings: RewardSettings, student: LanguageModel) -> None:
        self._settings = settings
        self._student = student
        self._grader = Grader(grader=settings.grader)

    def close(self) -> None:
        """No process of the grader is left."""
        self._grader.close()

    def rewarded(self, scored: Sequence[ScoredRollout]) -> list[ScoredRollout]:
        """The rollouts with reward and advantage, in the same order."""
        judgements = self._grader.grade(
            [
                (response_text(self._student, one.rollout), one.rollout.prompt.answer, one.rollout.stop.cut_short)
                for one in scored
            ]
        )
        rewards = [
            None
            if not judged.verdict.settled
            else self._settings.correct
            if judged.verdict.correct
            else self._settings.wrong
            for judged in judgements
        ]
        groups = [(one.rollout.prompt.row, one.rollout.prompt.epoch) for one in scored]
        found = advantages(rewards, groups, scaled=self._settings.normalise == "group_std")
        return [
            replace(one, reward=reward, advantage=self._settings.weight * advantage)
            for one, reward, advantage in zip(scored, rewards, found, strict=True)
        ]


def advantages(rewards: Sequence[float | None], groups: Sequence[tuple[int, int]], *, scaled: bool) -> list[float]:
    """Each reward less the mean of its group, over the group's standard deviation (n - 1) if `scaled`.

    0 for a reward that is unknown, alone in its group, or like all of its siblings.
    """
    members: dict[tuple[int, int], list[float]] = defaultdict(list)
    for reward, group in zip(rewards, groups, strict=True):
        if reward is not None:
            members[group].append(reward)
    found = []
    for reward, group in zip(rewards, groups, strict=True):
        siblings = members[group]
        if reward is None or len(siblings) < 2:
            found.append(0.0)
            continue
        centred = math.fsum([reward, -fmean(siblings)])
        found.append(centred / (stdev(siblings) + _SMALLEST_SPREAD) if scaled else centred)
    return found
