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
from typing import Literal

from pydantic import PositiveInt

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
