"""The log-probability of one token a row of logits, and the slope of the logits from that of the log-probability.

Shapes: C tokens, V real tokens, R columns of the logits (V, or V and padding, which has no share).

    logp[c]      = z[c, id] - log Σ_v exp z[c, v]               z = logits / temperature
    slope[c, v]  = slope[c] · (1[v = id] - exp logp[c, v]) / temperature

In torch, and on a GPU in two kernels that read the logits once each. What `token_logp` keeps for `slope` is used up
by it: the slope stands where the log-probabilities stood.
"""

from collections.abc import Sequence
from importlib.util import find_spec

import torch

from opd.models.exact.order import Order


def token_logp(
    logits_CR: torch.Tensor,
    ids_C: torch.Tensor,
    *,
    vocabulary: int,
    temperature: float,
    exact: Order | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """logp_C, and what `slope` takes. The logits are float32 or wider, and used up.

    `exact`: the order of sums that the sampler has.
    """
    if exact is not None:
        logp_C, normaliser_C = exact.token_logp(logits_CR, ids_C, vocabulary=vocabulary, temperature=temperature)
        return logp_C, (logits_CR, normaliser_C)
    if _has_kernels(logits_CR):
        from opd.models.softmax_kernels import token_logp as by_kernel

        logp_C, normaliser_C = by_kernel(logits_CR, ids_C, vocabulary=vocabulary, temperature=temperature)
        return logp_C, (logits_CR, normaliser_C)
    logits_CV = logits_CR[:, :vocabulary]
    if temperature != 1:
        logits_CV.div_(temperature)
    logp_CV = logits_CV.log_softmax(dim=-1)
    return logp_CV.gather(-1, ids_C.unsqueeze(-1)).squeeze(-1), (logp_CV,)


def slope(
    kept: Sequence[torch.Tensor],
    ids_C: torch.Tensor,
    slope_C: torch.Tensor,
    *,
    vocabulary: int,
    temperature: float,
    dtype: torch.dtype,
) -> torch.Tensor:
    """slope_CR in `dtype`, from what `token_logp` kept."""
    if _has_kernels(kept[0]):
        from opd.models.softmax_kernels import slope as by_kernel

        logits_CR, normaliser_C = kept
        return by_kernel(
            logits_CR, normaliser_C, ids_C, slope_C, vocabulary=vocabulary, temperature=temperature, dtype=dtype
        )
    (logp_CV,) = kept
    scaled_C1 = (slope_C / temperature).unsqueeze(-1)
    slope_CV = logp_CV.exp_().mul_(-scaled_C1)
    return slope_CV.scatter_add_(-1, ids_C.unsqueeze(-1), scaled_C1).to(dtype)


def _has_kernels(logits: torch.Tensor) -> bool:
    return logits.is_cuda and logits.dtype == torch.float32 and find_spec("triton") is not None
