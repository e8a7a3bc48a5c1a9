"""What is known of each token that is trained.

Shapes: N response tokens, in the order of the rollouts; a tensor at [n] is about token n. There is no padding, and no
prompt: nothing stands in these tensors that a sum would have to leave out (faults E15, E24).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from opd.records.rollouts import ScoredRollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Response tokens as an objective sees them."""

    weight_N: torch.Tensor  # of a token's loss; 0 where it is not trained
    behaviour_logp_N: torch.Tensor  # nats, of the distribution that was sampled from
    teacher_logp_N: torch.Tensor  # nats
    advantage_N: torch.Tensor  # of the task reward, the same at each token of a rollout; 0 without one
    raw_logp_N: torch.Tensor | None = None  # nats, the sampler's before top-p and top-k cut; None: nothing was cut

    def part(self, tokens: slice) -> "Batch":
        """Some of the tokens."""
        return Batch(
            weight_N=self.weight_N[tokens],
            behaviour_logp_N=self.behaviour_logp_N[tokens],
            teacher_logp_N=self.teacher_logp_N[tokens],
            advantage_N=self.advantage_N[tokens],
            raw_logp_N=None if self.raw_logp_N is None else self.raw_logp_N[tokens],
        )


def collate(scored: Sequence[ScoredRollout], *, device: torch.device, dtype: torch.dtype) -> Batch:
    """The tokens of the rollouts, one behind the other; values in `dtype` (float32 or wider)."""

    def flat(values: Callable[[ScoredRollout], Iterable[float]]) -> torch.Tensor:
        return torch.tensor([value for one in scored for value in values(one)], dtype=dtype, device=device)

    return Batch(
        weight_N=flat(lambda one: one.weights or (1.0,) * len(one.rollout.token_ids)),
        behaviour_logp_N=flat(lambda one: one.rollout.logp),
        teacher_logp_N=flat(lambda one: one.teacher_logp),
        advantage_N=flat(lambda one: (one.advantage,) * len(one.rollout.token_ids)),
        raw_logp_N=None
        if all(one.rollout.raw_logp is None for one in scored)
        else flat(lambda one: one.rollout.raw_logp or one.rollout.logp),
    )
