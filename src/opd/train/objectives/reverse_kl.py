"""KL(student || teacher) over the whole vocabulary: what k1 estimates from one token, without its variance."""

import torch

from opd.train.objective import Divergence


class ReverseKL(Divergence):
    """loss = Σ_v q (log q - log p), q the student's probability and p the teacher's."""

    def __call__(self, student_logp_NV: torch.Tensor, teacher_logp_NV: torch.Tensor) -> torch.Tensor:
        return (student_logp_NV.exp() * (student_logp_NV - teacher_logp_NV)).sum(dim=-1)


OBJECTIVE = ReverseKL
