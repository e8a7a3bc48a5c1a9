"""KL(teacher || student) over the whole vocabulary: the student covers what the teacher does."""

import torch

from opd.train.objective import Divergence


class ForwardKL(Divergence):
    """loss = Σ_v p (log p - log q), p the teacher's probability and q the student's."""

    def __call__(self, student_logp_NV: torch.Tensor, teacher_logp_NV: torch.Tensor) -> torch.Tensor:
        return (teacher_logp_NV.exp() * (teacher_logp_NV - student_logp_NV)).sum(dim=-1)


OBJECTIVE = ForwardKL
