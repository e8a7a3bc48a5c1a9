"""Which checkpoints stay: the newest, the milestones, and the best. All of it is a function of the steps' lines.

    save.every = 20      lines 1 … 20 | 21 … 40 | 41 … 60 | 61 … 67
    checkpoints                    20        40        60        67: where a run ended

A checkpoint is judged by a metric's mean over the lines since the one before it. Only multiples of `every` can be
among the best: where a try happened to end must not push one out that the uninterrupted run would have kept. What
is not among the best of the steps so far is never among those of more steps, so that nothing is missed for having
been removed.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from opd.records.errors import AskedWrongly
from opd.records.metrics import StepMetrics
from opd.records.settings import Settings

BestBy = Literal["kl", "loss", "reward"]
LARGER_IS_BETTER: frozenset[BestBy] = frozenset({"reward"})


class Means(Settings):
    """What the steps since the checkpoint before came to; in the `opd.json` of each checkpoint."""

    first_step: PositiveInt
    """The first of these steps; the last is the checkpoint's own."""
    kl: float
    """Mean over the steps of each line's `kl`, nats a token."""
    loss: float
    reward: float | None
    """Over the lines that have one; null where none has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many checkpoints stay, and which."""

    keep: int  # the newest
    keep_every: int | None = None  # the multiples of this
    every: int = 1  # steps between two; others are the ends of tries
    keep_best: int = 0
    best_by: BestBy = "kl"

    def staying(self, steps: Collection[int], *, newest: int, means: Mapping[int, Means]) -> set[int]:
        """Those of the saved steps that stay, now that `newest` is whole; steps beyond it are not judged."""
        there = sorted(step for step in steps if step <= newest)
        milestones = [step for step in there if self.keep_every is not None and step % self.keep_every == 0]
        # what is neither regular nor the newest was the end of an earlier try
        counted = [step for step in there if step % self.every == 0 or step == newest]
        return {*counted[-self.keep :], *milestones, *self.best(there, means=means)}

    def best(self, steps: Iterable[int], *, means: Mapping[int, Means]) -> list[int]:
        """The best of the saved steps, best first; of equals the newer. One without a value is none of them."""
        sign = -1 if self.best_by in LARGER_IS_BETTER else 1
        judged = [
            (sign * value, -step)
            for step in steps
            if step % self.every == 0 and step in means and (value := getattr(means[step], self.best_by)) is not None
        ]
        return [-step for _, step in sorted(judged)[: self.keep_best]]


class SaveSettings(Settings):
    """Which checkpoints are written and kept. The last step is always saved."""

    every: PositiveInt = 20
    """Steps between two checkpoints."""
    keep: PositiveInt = 3
    """The newest by step."""
    keep_every: PositiveInt | None = None
    """Checkpoints of its multiples are never removed; null: all but the newest are."""
    keep_best: NonNegativeInt = 0
    """So many of the best stay beside the newest; of them only multiples of `every`."""
    best_by: BestBy = "kl"
    """Mean over the steps since the checkpoint before: the lowest kl, the lowest loss, or the highest reward."""
    state_every: NonNegativeInt | None = None
    """Steps between two trainer states, from which `--resume` goes on; null: with every checkpoint; 0: never."""
    rollouts: bool = True
    """Keep every step's tokens and log-probabilities under `rollouts/`."""
    alternatives: Annotated[int, Field(ge=0, le=100)] = 0
    """With each of those tokens, so many of the teacher's likeliest, for the page of rollouts. Costs one more product
    with the teacher's head; teaches nothing."""

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.keep_every is not None and self.keep_every % self.every:
            raise AskedWrongly(
                f"keep_every = {self.keep_every} is no multiple of every = {self.every}, so that most of its "
                "steps have no checkpoint to keep; make it one"
            )
        if self.alternatives and not self.rollouts:
            raise AskedWrongly(
                f"alternatives = {self.alternatives} are kept with the rollouts, and rollouts = false keeps none; "
                "set alternatives = 0 or rollouts = true"
            )
        return self

    @property
    def retention(self) -> Retention:
        """Which checkpoints stay."""
        return Retention(
            keep=self.keep,
            keep_every=self.keep_every,
            every=self.every,
            keep_best=self.keep_best,
            best_by=self.best_by,
        )

    def checkpoint_due(self, step: int, *, ends: bool) -> bool:
        """Whether a checkpoint is written after this step; `ends`: the run ends with it."""
        return ends or step % self.every == 0

    def state_due(self, step: int, *, ends: bool) -> bool:
        """Whether a trainer state is written after this step; `ends`: the run ends with it."""
        every = self.every if self.state_every is None else self.state_every
        return every > 0 and (ends or step % every == 0)


def means_of(lines: Iterable[StepMetrics], *, every: int) -> dict[int, Means]:
    """By step, the means of each checkpoint that a run with these lines made: multiples of `every`, and its end."""
    spans: defaultdict[int, list[StepMetrics]] = defaultdict(list)
    for line in lines:
        spans[(line.step - 1) // every].append(line)
    return {span[-1].step: _means(span) for span in spans.values()}


def _means(span: Sequence[StepMetrics]) -> Means:
    rewards = [line.reward for line in span if line.reward is not None]
    return Means(
        first_step=span[0].step,
        kl=_mean([line.kl for line in span]),
        loss=_mean([line.loss for line in span]),
        reward=_mean(rewards) if rewards else None,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
