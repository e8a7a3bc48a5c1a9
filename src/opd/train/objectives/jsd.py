"""The generalised Jensen-Shannon divergence: between the forward and the reverse KL, and bounded.

Agarwal et al., "On-Policy Distillation of Language Models" (2024), equation 1. The mixture is formed of
probabilities; forming it of log-probabilities gives another function (faults E10).
"""

import math
from typing import Annotated

import torch
from pydantic import Field

from opd.train.objective import Divergence


class JSD(Divergence):
    """loss = β KL(p || m) + (1 - β) KL(q || m) with m = β p + (1 - β) q, p the teacher and q the student."""

    beta: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Weight of the teacher. Near 0 the loss is about β × the forward KL, near 1 about (1 - β) × the reverse."""

    def __call__(self, student_logp_NV: torch.Tensor, teacher_logp_NV: torch.Tensor) -> torch.Tensor:
        mixture_logp_NV = torch.logaddexp(
            teacher_logp_NV + math.log(self.beta), student_logp_NV + math.log1p(-self.beta)
        )
        of_teacher_NV = teacher_logp_NV.exp() * (teacher_logp_NV - mixture_logp_NV)
        of_student_NV = student_logp_NV.exp() * (student_logp_NV - mixture_logp_NV)
        return (self.beta * of_teacher_NV + (1 - self.beta) * of_student_NV).sum(dim=-1)

    def notes(self) -> list[str]:
        """Says so when β shrinks the loss."""
        weight = min(self.beta, 1 - self.beta)
        if weight >= 0.1:
            return []
        kind = "forward" if self.beta < 0.5 else "reverse"
        return [
            f"objective.beta = {self.beta}: the loss is about {weight:g} × the {kind} KL; scale optimizer.lr with it"
        ]


OBJECTIVE = JSD
