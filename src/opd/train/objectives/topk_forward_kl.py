"""KL(teacher || student) on the teacher's likeliest tokens, with the rest as one cell.

The variant that the reference recipe offers leaves the rest out and floors the sum at zero; `tail = "none"`
reproduces it. Nothing then holds the student's mass off the candidates: it shrinks until the sum would be
negative, where the floor deletes the gradient (identity I7, faults E12).
"""

from typing import Literal

import torch
from pydantic import PositiveInt

from opd.train.objective import Divergence
from opd.train.update.candidates import top, with_tail


class TopKForwardKL(Divergence):
    """loss = Σ_K p (log p - log q) + tail, p the teacher's probability and q the student's."""

    k: PositiveInt = 16
    """Candidates: the teacher's likeliest tokens."""
    tail: Literal["exact", "none"] = "exact"
    """All other tokens as one cell; or left out, with a floor at 0, as in the reference recipe."""

    def __call__(self, student_logp_NV: torch.Tensor, teacher_logp_NV: torch.Tensor) -> torch.Tensor:
        ids_NK = top(teacher_logp_NV, self.k)
        if self.tail == "none":
            student_logp_NK, teacher_logp_NK = student_logp_NV.gather(-1, ids_NK), teacher_logp_NV.gather(-1, ids_NK)
            return (teacher_logp_NK.exp() * (teacher_logp_NK - student_logp_NK)).sum(dim=-1).clamp(min=0)
        student_logp_NC, teacher_logp_NC = with_tail(student_logp_NV, ids_NK), with_tail(teacher_logp_NV, ids_NK)
        return (teacher_logp_NC.exp() * (teacher_logp_NC - student_logp_NC)).sum(dim=-1)

    def notes(self) -> list[str]:
        """Says so when the tail is left out."""
        if self.tail == "exact":
            return []
        return [
            (
                f"objective.tail = \"none\": nothing holds the student's probability outside the teacher's {self.k} "
                "likeliest tokens, and where it has more on them than the teacher its gradient is zero"
            )
        ]


OBJECTIVE = TopKForwardKL
