"""What passes from a sampler to a scorer to an update: prompts, rollouts, and their scores.

One log-probability for each sampled token, in nats; lists of different lengths are refused at the door
(faults E31), and the ids that were sampled are the ids that are scored: nothing is decoded and encoded again
(E30).
"""

from array import array
from dataclasses import dataclass, replace
from enum import StrEnum


class StopReason(StrEnum):
    """Why a rollout ended."""

    EOS = "eos"
    LENGTH = "length"

    @property
    def cut_short(self) -> bool:
        """Whether the limit ended it, and not the model."""
        return self is StopReason.LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A problem as the model sees it."""

    row: int  # of its file: names the problem
    problem: str
    answer: str
    token_ids: tuple[int, ...]
    epoch: int = 0  # how often the row was drawn before; with it a row met again is sampled anew
    teacher: str | None = None  # who scores its rollouts; null: the only one
    teacher_ids: tuple[int, ...] | None = None  # the problem as that teacher sees it; null: as the student does

    def __post_init__(self) -> None:
        if not self.token_ids or self.teacher_ids == ():
            raise ValueError(f"the prompt of row {self.row} has no tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One sampled answer."""

    prompt: Prompt
    sample: int  # which of the prompt's rollouts
    token_ids: tuple[int, ...]  # the response, with the end-of-sequence token when the model wrote one
    logp: tuple[float, ...]  # nats, one for each token id, of the distribution that it was sampled from
    stop: StopReason
    policy_version: int = 0  # updates that the sampler's weights had seen
    raw_logp: tuple[float, ...] | None = None  # nats, before top-k, top-p and min-p cut; null: nothing was cut

    def __post_init__(self) -> None:
        for values in (self.logp, self.token_ids if self.raw_logp is None else self.raw_logp):
            if len(values) != len(self.token_ids):
                raise ValueError(f"{len(self.token_ids)} token ids but {len(values)} log-probabilities")
        if not self.token_ids:
            raise ValueError(f"the rollout of row {self.prompt.row} has no tokens")

    @property
    def seen_by_teacher(self) -> "Rollout":
        """The same tokens, after the prompt that the teacher sees."""
        seen = self.prompt.teacher_ids
        return self if seen is None else replace(self, prompt=replace(self.prompt, token_ids=seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """The tokens that the teacher found likeliest at each place of a rollout, `count` of them, the likeliest first.

    Those of one place follow those of the place before, without a bracket: there are millions in a step.
    """

    count: int
    ids: "array[int]"  # of C ints
    logp: "array[float]"  # of C floats; nats

    def __post_init__(self) -> None:
        if self.count < 1 or len(self.ids) != len(self.logp) or len(self.ids) % self.count:
            raise ValueError(f"{len(self.ids)} ids, {len(self.logp)} log-probabilities, {self.count} at each place")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRollout:
    """A rollout with the teacher's log-probability of each of its tokens, in nats."""

    rollout: Rollout
    teacher_logp: tuple[float, ...]
    alternatives: Alternatives | None = None  # to each token; null: none were asked for
    reward: float | None = None  # of the whole answer; null where there is no task reward, or its grader failed
    advantage: float = 0.0  # the reward against its siblings', weighted
    weights: tuple[float, ...] | None = None  # one a token: how much it is learned from; null: all of them alike

    def __post_init__(self) -> None:
        if self.weights is not None and len(self.weights) != len(self.rollout.token_ids):
            raise ValueError(f"{len(self.rollout.token_ids)} sampled tokens but {len(self.weights)} weights")
        if len(self.teacher_logp) != len(self.rollout.token_ids):
            raise ValueError(
                f"{len(self.rollout.token_ids)} sampled tokens but {len(self.teacher_logp)} teacher scores"
            )
        other = self.alternatives
        if other is not None and len(other.ids) != other.count * len(self.rollout.token_ids):
            raise ValueError(f"{len(self.rollout.token_ids)} sampled tokens but {len(other.ids)} alternatives")

    @property
    def trained_tokens(self) -> int:
        """Tokens that are learned from."""
        if self.weights is None:
            return len(self.rollout.token_ids)
        return sum(weight > 0 for weight in self.weights)
