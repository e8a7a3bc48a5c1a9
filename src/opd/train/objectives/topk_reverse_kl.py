"""KL(student || teacher) on the student's likeliest tokens, with the rest as one cell.

The teacher has to be asked about the student's tokens, which a server that lists its own likeliest can't answer;
a teacher in the trainer's process answers with one more column. Without the cell for the rest the loss could be
lowered by moving mass off the candidates (faults E13).
"""

import torch
from pydantic import PositiveInt

from opd.train.objective import Divergence
from opd.train.update.candidates import top, with_tail


class TopKReverseKL(Divergence):
    """loss = Σ_K q (log q - log p) + the same for the rest, q the student's probability and p the teacher's."""

    k: PositiveInt = 16
    """Candidates: the student's likeliest tokens."""

    def __call__(self, student_logp_NV: torch.Tensor, teacher_logp_NV: torch.Tensor) -> torch.Tensor:
        ids_NK = top(student_logp_NV, self.k)
        student_logp_NC, teacher_logp_NC = with_tail(student_logp_NV, ids_NK), with_tail(teacher_logp_NV, ids_NK)
        return (student_logp_NC.exp() * (student_logp_NC - teacher_logp_NC)).sum(dim=-1)


OBJECTIVE = TopKReverseKL
