"""The identities of the objectives, by enumeration: each check takes the objective that it looks at.

Shapes: V tokens of a vocabulary of seven, each of them "sampled" once and weighed by the student's probability, so
that sums over V are expectations. p is the teacher's distribution, q the student's. Everything in float64; the
expected values are closed forms and recorded numbers, never the objective's own.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from opd.records.settings import validated
from opd.train import objective as objectives
from opd.train.objective import Divergence, Objective, StudentView, TokenObjective
from opd.train.update.batch import Batch

STUDENT_LOGITS = (1.2, -0.4, 0.3, 2.0, -1.5, 0.0, 0.7)
TEACHER_LOGITS = (-0.3, 0.9, 0.1, 1.1, 0.4, -2.0, 1.6)
OTHER_LOGITS = (2.0, -1.0, 0.5, -0.5, 1.0, 0.2, -0.8)  # of another teacher
EXACT = 1e-10  # float64, a few dozen operations


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that was looked at, and the number that came out."""

    name: str
    looked_at: str
    number: float
    at_most: float = math.inf
    at_least: float = -math.inf

    @property
    def ok(self) -> bool:
        """Whether the number lies where it must; what is not a number does not."""
        return self.at_least <= self.number <= self.at_most


def identity_checks(find: Callable[[str], type[Objective]] = objectives.find) -> list[Check]:
    """The identities I1, I2, I3, I6 and I7 on the objectives that `find` gives by name."""
    k1, k2 = _token(find("k1_policy_gradient")()), _token(find("k2")())
    reverse = _divergence(find("reverse_kl")())
    three, two, floored = (
        _divergence(validated(find("topk_forward_kl"), settings, source="topk_forward_kl"))
        for settings in ({"k": 3}, {"k": 2}, {"k": 2, "tail": "none"})
    )
    divergences = [one for name in objectives.names() if isinstance(one := find(name)(), Divergence)]
    return [
        reverse_gradient(k1),
        reverse_gradient(k2),
        teacher_matters(k1),
        teacher_matters(k2),
        same_gradients(k1, k2),
        two_token_oracle(k2, reverse),
        tail_gradient(three),
        tail_values(two, floored),
        *(zero_at_the_teacher(one) for one in divergences),
    ]


def reverse_gradient(objective: TokenObjective) -> Check:
    """I1: the expected gradient of the loss is that of KL(student || teacher), q (log q/p - KL)."""
    q_logp_V, p_logp_V = _logp(STUDENT_LOGITS), _logp(TEACHER_LOGITS)
    ratio_V = q_logp_V - p_logp_V
    exact_V = q_logp_V.exp() * (ratio_V - (q_logp_V.exp() * ratio_V).sum())
    error = (_expected_gradient(objective, STUDENT_LOGITS, TEACHER_LOGITS) - exact_V).abs().max()
    return Check(
        name=f"I1 {objective.name}",
        looked_at="expected gradient against that of KL(student || teacher), 7 tokens",
        number=float(error),
        at_most=EXACT,
    )


def teacher_matters(objective: TokenObjective) -> Check:
    """I2: another teacher gives another gradient; k1 that is back-propagated gives none, whoever teaches."""
    one_V, other_V = (
        _expected_gradient(objective, STUDENT_LOGITS, teacher) for teacher in (TEACHER_LOGITS, OTHER_LOGITS)
    )
    return Check(
        name=f"I2 {objective.name}",
        looked_at="how far the expected gradient moves with another teacher",
        number=float((one_V - other_V).abs().max()),
        at_least=0.01,
    )


def same_gradients(policy: TokenObjective, square: TokenObjective) -> Check:
    """I3: token by token the squared log-ratio has the gradient of k1 in the policy gradient, clamp included."""
    far = tuple(logit - 30.0 * (index == 3) for index, logit in enumerate(TEACHER_LOGITS))  # beyond the clamp
    gradients = [
        torch.stack([_gradient(one, STUDENT_LOGITS, far, token) for token in range(len(far))])
        for one in (policy, square)
    ]
    return Check(
        name=f"I3 {square.name}",
        looked_at=f"gradient of each token against {policy.name}",
        number=float((gradients[0] - gradients[1]).abs().max()),
        at_most=EXACT,
    )


def two_token_oracle(square: TokenObjective, reverse: Divergence) -> Check:
    """I6: the recorded values of k2 and of KL(student || teacher) for q = (.8, .2) and p = (.5, .5)."""
    q_V, p_V = _given(0.8, 0.2), _given(0.5, 0.5)
    k2_V = square(StudentView(logp_N=q_V.log(), old_logp_N=q_V.log()), _batch(p_V.log())).loss_N
    kl = reverse(q_V.log()[None], p_V.log()[None])[0]
    found = torch.cat([k2_V, kl[None]])
    return Check(
        name=f"I6 {square.name}, {reverse.name}",
        looked_at="values on two tokens against 0.11045, 0.41979 and 0.19274",
        number=float((found - _given(0.11045, 0.41979, 0.19274)).abs().max()),
        at_most=1e-5,
    )


def tail_gradient(objective: Divergence) -> Check:
    """I7: with the tail as one cell the gradient is q - p on the candidates, q - (1 - P) q / (1 - Q) off them."""
    logits_V = torch.tensor(STUDENT_LOGITS, dtype=torch.float64, requires_grad=True)
    objective(logits_V.log_softmax(-1)[None], _logp(TEACHER_LOGITS)[None]).sum().backward()
    q_V, p_V = _logp(STUDENT_LOGITS).exp(), _logp(TEACHER_LOGITS).exp()
    on_V = p_V >= p_V.sort(descending=True).values[2]
    q_mass, p_mass = q_V[on_V].sum(), p_V[on_V].sum()
    exact_V = torch.where(on_V, q_V - p_V, q_V - (1 - p_mass) * q_V / (1 - q_mass))
    assert logits_V.grad is not None, "the loss depends on the logits"
    return Check(
        name=f"I7 {objective.name}",
        looked_at="gradient of three candidates and the tail, 7 tokens",
        number=float((logits_V.grad - exact_V).abs().max()),
        at_most=EXACT,
    )


def tail_values(exact: Divergence, floored: Divergence) -> Check:
    """I7: for p = (.5, .3), q = (.55, .40) the sum is +0.14330 with the tail; without it -0.13396, floored to 0."""
    q_V, p_V = _given(0.55, 0.40, 0.05), _given(0.5, 0.3, 0.2)
    found = torch.cat([one(q_V.log()[None], p_V.log()[None]) for one in (exact, floored)])
    return Check(
        name=f"I7 {exact.name}, values",
        looked_at="with the tail 0.14330; without it 0, and no gradient",
        number=float((found - _given(0.14330, 0.0)).abs().max()),
        at_most=1e-5,
    )


def zero_at_the_teacher(objective: Divergence) -> Check:
    """A divergence is zero, with zero gradient, where student and teacher agree, and positive elsewhere."""
    logits_V = torch.tensor(TEACHER_LOGITS, dtype=torch.float64, requires_grad=True)
    value_N = objective(logits_V.log_softmax(-1)[None], _logp(TEACHER_LOGITS)[None])
    value_N.sum().backward()
    apart = float(objective(_logp(STUDENT_LOGITS)[None], _logp(TEACHER_LOGITS)[None]).sum())
    assert logits_V.grad is not None, "the loss depends on the logits"
    at_teacher = float(value_N.detach().abs().sum() + logits_V.grad.abs().max())
    return Check(
        name=f"zero {objective.name}",
        looked_at="value and gradient where student = teacher; positive elsewhere",
        number=at_teacher if apart > 0.01 else math.inf,
        at_most=EXACT,
    )


def _expected_gradient(
    objective: TokenObjective, student: tuple[float, ...], teacher: tuple[float, ...]
) -> torch.Tensor:
    """gradient_V of the mean loss over tokens that the student samples."""
    q_V = _logp(student).exp()
    gradients_VV = torch.stack([_gradient(objective, student, teacher, token) for token in range(len(student))])
    return (q_V[:, None] * gradients_VV).sum(0)


def _gradient(
    objective: TokenObjective, student: tuple[float, ...], teacher: tuple[float, ...], token: int
) -> torch.Tensor:
    """gradient_V of one sampled token's loss with respect to the student's logits."""
    logits_V = torch.tensor(student, dtype=torch.float64, requires_grad=True)
    logp_1 = logits_V.log_softmax(-1)[token].reshape(1)
    view = StudentView(logp_N=logp_1, old_logp_N=logp_1.detach())
    objective(view, _batch(_logp(teacher)[token].reshape(1))).loss_N.sum().backward()
    assert logits_V.grad is not None, "the loss depends on the logits"
    return logits_V.grad


def _batch(teacher_logp_N: torch.Tensor) -> Batch:
    """Tokens with these scores and nothing else."""
    zero_N = torch.zeros_like(teacher_logp_N)
    return Batch(
        weight_N=torch.ones_like(zero_N), behaviour_logp_N=zero_N, teacher_logp_N=teacher_logp_N, advantage_N=zero_N
    )


def _logp(logits: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(logits, dtype=torch.float64).log_softmax(-1)


def _given(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _token(objective: Objective) -> TokenObjective:
    assert isinstance(objective, TokenObjective), f"{objective.name} is of the sampled tokens"
    return objective


def _divergence(objective: Objective) -> Divergence:
    assert isinstance(objective, Divergence), f"{objective.name} is of distributions"
    return objective
