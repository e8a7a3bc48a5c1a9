"""A distribution cut down to k tokens and one cell for the rest, exactly.

Shapes: N tokens, V vocabulary, K candidates. With the cell, K + 1 probabilities sum to 1, and a divergence of two
such vectors is never negative and zero only where both agree on all cells. Without it, the student's mass off the
candidates is unconstrained or driven to zero (I7 of the identities, faults E12 and E13).
"""

import torch


def with_tail(logp_NV: torch.Tensor, ids_NK: torch.Tensor) -> torch.Tensor:
    """logp_NC with C = K + 1: the candidates' log-probabilities, and that of all the other tokens together."""
    rest_NV = logp_NV.scatter(-1, ids_NK, -torch.inf)
    tail_N1 = rest_NV.logsumexp(dim=-1, keepdim=True)
    # Where float32 has no mass left off the candidates, a floor keeps 0 · (-inf) out; e^-60 is no probability.
    return torch.cat([logp_NV.gather(-1, ids_NK), tail_N1.clamp(min=-60.0)], dim=-1)


def top(logp_NV: torch.Tensor, k: int) -> torch.Tensor:
    """ids_NK of the k likeliest tokens, or of all of them but one where there are fewer."""
    return logp_NV.detach().topk(min(k, logp_NV.shape[-1] - 1), dim=-1).indices
