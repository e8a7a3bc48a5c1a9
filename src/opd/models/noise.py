"""Sampling noise as a function of what is sampled, not of when or with whom.

The uniform number behind a token is determined by (seed, row, epoch, position), so a rollout does not depend
on which others share its batch, and a resumed evaluation draws what the uninterrupted one would have drawn.
"""

import numpy as np
import torch


def uniforms(*, seed: int, row: int, epoch: int, tokens: int) -> torch.Tensor:
    """`tokens` numbers in [0, 1), float64, for the positions 0, 1, … of one rollout."""
    key = np.random.SeedSequence([seed, row, epoch])
    return torch.from_numpy(np.random.Generator(np.random.Philox(key)).random(tokens))


def draw(probability_BV: torch.Tensor, uniform_B: torch.Tensor) -> torch.Tensor:
    """token_B by inversion: the first token at which the cumulative probability exceeds the uniform number.

    Sums run in float64, so that 150,000 small probabilities lose nothing; a token of probability 0 is never
    drawn. Raises `FloatingPointError` for probabilities that are not finite, from which nothing can be drawn.
    """
    cumulative_BV = probability_BV.double().cumsum(dim=-1)
    total_B = cumulative_BV[:, -1]
    drawable_B = total_B.isfinite() & (total_B > 0)
    if not bool(drawable_B.all()):
        raise FloatingPointError(
            f"the probabilities of {int((~drawable_B).sum())} of {len(total_B)} sequences are not finite: weights or "
            "activations overflow; look at the learning rate and the dtype"
        )
    target_B = uniform_B.to(cumulative_BV) * total_B  # below the total: a uniform number is 1 - 2^-53 at most
    return torch.searchsorted(cumulative_BV, target_B.unsqueeze(-1), right=True).squeeze(-1)
