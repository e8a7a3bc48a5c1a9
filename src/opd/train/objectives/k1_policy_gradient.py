"""The reference objective: a clipped policy gradient whose reward is the negated k1 estimate of reverse KL.

With k1 = log student - log teacher at the sampled token, E[k1 · grad log student] is the exact gradient of
KL(student || teacher), because the term with k1's own gradient integrates to zero. So k1 belongs in the
advantage, detached; back-propagated directly it teaches nothing. The student's log-probability is today's,
not the sampler's, so that stale data and engine noise stay out of the reward.

Clipping: Schulman et al., "Proximal Policy Optimization Algorithms" (2017), equation 7. Dual clip: Ye et al.,
"Mastering Complex Control in MOBA Games with Deep Reinforcement Learning" (2020), equation 4.
"""

from typing import Annotated, ClassVar

import torch
from pydantic import Field, PositiveFloat

from opd.train.objective import StudentView, TokenLoss, TokenObjective
from opd.train.update.batch import Batch


class K1PolicyGradient(TokenObjective):
    """loss = -min(ratio · A, clip(ratio) · A) with A = -clamp(log student - log teacher); and the reward's beside."""

    takes_reward: ClassVar[bool] = True
    has_ratio: ClassVar[bool] = True
    terms: ClassVar[tuple[str, ...]] = ("k1", "reward")

    clip: PositiveFloat = 0.2
    """The ratio counts within 1 ± clip; with one update a step it is 1, and this never acts."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Where the advantage is negative, the loss is at most this times its size; null: no limit."""
    largest_k1: PositiveFloat = 10.0
    """Nats; a token that the teacher finds impossible must not own the step."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        k1_N = student.logp_N.detach() - batch.teacher_logp_N
        teacher_N = -k1_N.clamp(-self.largest_k1, self.largest_k1)
        terms_N = {
            "k1": self._clipped(student.ratio_N, teacher_N),
            "reward": self._clipped(student.ratio_N, batch.advantage_N),
        }
        return TokenLoss(
            loss_N=terms_N["k1"] + terms_N["reward"],
            metrics_N={
                "clamped": (k1_N.abs() > self.largest_k1).to(k1_N.dtype),
                "ratio": student.ratio_N.detach(),
            },
            terms_N=terms_N,
        )

    def _clipped(self, ratio_N: torch.Tensor, advantage_N: torch.Tensor) -> torch.Tensor:
        clipped_N = ratio_N.clamp(1 - self.clip, 1 + self.clip)
        loss_N = -torch.minimum(ratio_N * advantage_N, clipped_N * advantage_N)
        if self.dual_clip is None:
            return loss_N
        return torch.where(advantage_N < 0, torch.minimum(loss_N, -self.dual_clip * advantage_N), loss_N)


OBJECTIVE = K1PolicyGradient
