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

from opd.train.batch import Batch
from opd.train.objective import StudentView, TokenLoss, TokenObjective


class K1PolicyGradient(TokenObjective):
    """loss = -min(ratio · A, clip(ratio) · A) with A = -clamp(log student - log teacher); and the reward's beside."""

    takes_reward: ClassVar[bool] = True

    clip: PositiveFloat = 0.2
    """The ratio counts within 1 ± clip; with one update a step it is 1, and this never acts."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Where the advantage is negative, the loss is at most this times its size; null: no limit."""
    largest_k1: PositiveFloat = 10.0
    """Nats; a token that the teacher finds impossible must not own the step."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        k1_BT = student.logp_BT.detach() - batch.teacher_logp_BT
        teacher_BT = -k1_BT.clamp(-self.largest_k1, self.largest_k1)
        loss_BT = self._clipped(student.ratio_BT, teacher_BT) + self._clipped(student.ratio_BT, batch.advantage_BT)
        return TokenLoss(
            loss_BT=loss_BT,
            metrics_BT={
                "clamped": (k1_BT.abs() > self.largest_k1).to(k1_BT.dtype),
                "ratio": student.ratio_BT.detach(),
                # squares of the two gradients by the token's log-probability, at ratio 1: which of them rules?
                "k1_squared": teacher_BT.square(),
                "advantage_squared": batch.advantage_BT.square(),
            },
        )

    def _clipped(self, ratio_BT: torch.Tensor, advantage_BT: torch.Tensor) -> torch.Tensor:
        clipped_BT = ratio_BT.clamp(1 - self.clip, 1 + self.clip)
        loss_BT = -torch.minimum(ratio_BT * advantage_BT, clipped_BT * advantage_BT)
        if self.dual_clip is None:
            return loss_BT
        return torch.where(advantage_BT < 0, torch.minimum(loss_BT, -self.dual_clip * advantage_BT), loss_BT)


OBJECTIVE = K1PolicyGradient
