"""What the loop and the evaluator need of a model: a sampler and a scorer.

`plain.py` has the slow, exact pair on transformers' own forward. A faster pair has the same two methods and
is tested against it.
"""

from collections.abc import Sequence
from typing import Annotated, Protocol

from pydantic import Field, PositiveFloat, PositiveInt

from opd.records.rollouts import Prompt, Rollout, ScoredRollout
from opd.records.settings import Settings


class Sampling(Settings):
    """The distribution that tokens are drawn from. Nothing else shapes it: a model's own
    `generation_config.json` is read for its end-of-sequence ids and for nothing more (faults E42).
    """

    temperature: PositiveFloat = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Smallest set of tokens that holds this probability; 1: all of them."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """The k likeliest tokens; 0: all of them."""
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Tokens at least this share as likely as the likeliest; 0: all of them."""
    limit_tokens: PositiveInt
    """Cap on new tokens."""

    @property
    def full_support(self) -> bool:
        """Whether every token can be drawn, so that the samples come from the policy that is scored."""
        return self.top_p == 1.0 and self.top_k == 0 and self.min_p == 0.0


class Sampler(Protocol):
    """Draws rollouts from a model whose weights may change between calls."""

    def follow(self, version: int) -> None:
        """The student's weights have changed: what was kept of the old ones is dropped."""

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        """One rollout of each prompt for each seed, prompt by prompt.

        The noise of a token is a function of (seed, row, epoch, position) alone. None where there are no prompts or
        no seeds.
        """


class Scorer(Protocol):
    """Says how likely a frozen model finds tokens that another has drawn."""

    def score(self, rollouts: Sequence[Rollout]) -> list[ScoredRollout]:
        """Each rollout with this model's log-probability (nats) of exactly its token ids, in the same order.

        A score that can't be had is an error, never a zero (faults E45).
        """
