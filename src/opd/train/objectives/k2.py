"""Half the squared log-ratio, back-propagated: for one update a step the same gradient as k1 in a policy gradient.

grad(d²/2) = d · grad log student with d = log student - log teacher, token by token. A limit on d turns the
square into Huber's loss, whose gradient is the clamped d: the clamp of `k1_policy_gradient`.

Estimators: J. Schulman, "Approximating KL Divergence" (2020).
"""

import torch
from pydantic import PositiveFloat

from opd.train.objective import StudentView, TokenLoss, TokenObjective
from opd.train.update.batch import Batch


class K2(TokenObjective):
    """loss = Huber(log student - log teacher), which is d²/2 within the threshold."""

    largest_k1: PositiveFloat = 10.0
    """Nats; beyond it the loss grows linearly."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        k1_N = student.logp_N - batch.teacher_logp_N
        loss_N = torch.nn.functional.huber_loss(k1_N, torch.zeros_like(k1_N), delta=self.largest_k1, reduction="none")
        return TokenLoss(
            loss_N=loss_N,
            metrics_N={"clamped": (k1_N.detach().abs() > self.largest_k1).to(k1_N.dtype)},
        )


OBJECTIVE = K2
