"""Scored rollouts → the tensors that an objective sees.

Shapes: B rollouts, T positions; a tensor at [b, t] is about token t.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from opd.models.sequences import padded, spread
from opd.records.rollouts import ScoredRollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Tokens, which of them the student wrote, and what is known of each. 0 stands where nothing is known."""

    ids_BT: torch.Tensor
    keep_BT: torch.Tensor  # true where a token is the student's
    weight_BT: torch.Tensor  # of its loss; 0 where it is not trained
    behaviour_logp_BT: torch.Tensor  # nats, the sampler's
    teacher_logp_BT: torch.Tensor  # nats
    advantage_BT: torch.Tensor  # of the task reward, the same at each token of a rollout; 0 without one


def collate(scored: Sequence[ScoredRollout], *, device: torch.device, dtype: torch.dtype) -> Batch:
    """The rollouts as one rectangle; log-probabilities in `dtype` (float32 or wider)."""
    rectangle = padded([one.rollout for one in scored], device=device)
    weights = [one.weights or (1.0,) * len(one.rollout.token_ids) for one in scored]
    return Batch(
        ids_BT=rectangle.ids_BT,
        keep_BT=rectangle.keep_BT,
        weight_BT=spread(weights, rectangle.keep_BT, dtype=dtype),
        behaviour_logp_BT=spread([one.rollout.logp for one in scored], rectangle.keep_BT, dtype=dtype),
        teacher_logp_BT=spread([one.teacher_logp for one in scored], rectangle.keep_BT, dtype=dtype),
        advantage_BT=spread(
            [[one.advantage] * len(one.rollout.token_ids) for one in scored], rectangle.keep_BT, dtype=dtype
        ),
    )


def masked_sum(x_BT: torch.Tensor, keep_BT: torch.Tensor) -> torch.Tensor:
    """Sum over kept tokens. `where`, not `*`, so that a NaN in padding stays out (faults E15)."""
    return torch.where(keep_BT, x_BT, torch.zeros_like(x_BT)).sum()
