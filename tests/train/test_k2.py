"""Half the squared log-ratio, against its definition and against the policy gradient that it stands for."""

import math

import numpy as np
import pytest
import torch

from opd.train.objective import Objective, StudentView
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.objectives.k2 import K2
from opd.train.update.batch import Batch

DIFFERENCES = [-25.0, -10.5, -9.5, -3.0, -1e-3, 0.0, 1e-3, 0.7, 9.5, 10.5, 25.0]


def losses_and_gradients(objective: Objective, differences: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of tokens with log student - log teacher as given: loss, and its derivative by log student."""
    logp_N = torch.tensor(differences, dtype=torch.float64) - 30.0
    teacher_N = torch.full_like(logp_N, -30.0)
    logp_N.requires_grad_(True)
    batch = Batch(
        behaviour_logp_N=torch.zeros_like(teacher_N),
        teacher_logp_N=teacher_N,
        advantage_N=torch.zeros_like(teacher_N),
        weight_N=torch.ones_like(teacher_N),
    )
    view = StudentView(logp_N=logp_N, old_logp_N=logp_N.detach())
    loss_N = objective(view, batch).loss_N
    loss_N.sum().backward()
    return loss_N.detach(), logp_N.grad


@pytest.mark.parametrize("largest_k1", [0.5, 3.0, 10.0, 1e9])
def test_token_by_token_the_gradient_is_exactly_that_of_k1_in_a_policy_gradient(largest_k1: float) -> None:
    """I3: difference 0.0, with the clamp of the one as the Huber threshold of the other."""
    _, gradient_T = losses_and_gradients(K2(largest_k1=largest_k1), DIFFERENCES)
    _, policy_T = losses_and_gradients(K1PolicyGradient(largest_k1=largest_k1), DIFFERENCES)
    assert torch.equal(gradient_T, policy_T)
    by_definition = np.clip(np.array(DIFFERENCES), -largest_k1, largest_k1)
    np.testing.assert_allclose(gradient_T.numpy(), by_definition, rtol=1e-12, atol=1e-14)


def test_in_a_real_softmax_the_gradients_are_those_of_k1_too() -> None:
    """I3: through the logits of seven tokens, each of them sampled once."""
    numbers = torch.Generator().manual_seed(5)
    teacher_N = torch.randn(7, generator=numbers, dtype=torch.float64).mul(2).log_softmax(-1)
    start_V = torch.randn(7, generator=numbers, dtype=torch.float64).mul(2)
    batch = Batch(
        behaviour_logp_N=torch.zeros(7, dtype=torch.float64),
        teacher_logp_N=teacher_N,
        advantage_N=torch.zeros_like(teacher_N),
        weight_N=torch.ones_like(teacher_N),
    )
    gradients = []
    for objective in (K2(), K1PolicyGradient()):
        logits_V = start_V.clone().requires_grad_(True)
        logp_N = logits_V.log_softmax(-1)
        objective(StudentView(logp_N=logp_N, old_logp_N=logp_N.detach()), batch).loss_N.sum().backward()
        gradients.append(logits_V.grad)
    assert gradients[0].abs().max() > 0.1
    assert torch.equal(gradients[0], gradients[1])


def test_two_tokens_have_the_values_worked_out_by_hand() -> None:
    """I6: student (.8, .2), teacher (.5, .5)."""
    loss_T, gradient_T = losses_and_gradients(K2(), [math.log(1.6), math.log(0.4)])
    assert loss_T.tolist() == pytest.approx([0.11045, 0.41979], abs=5e-6)
    assert gradient_T.tolist() == pytest.approx([0.47000, -0.91629], abs=5e-6)


@pytest.mark.parametrize("threshold", [1.0, 10.0])
def test_the_loss_is_half_a_square_within_the_threshold_and_a_line_beyond(threshold: float) -> None:
    loss_T, _ = losses_and_gradients(K2(largest_k1=threshold), DIFFERENCES)
    by_definition = [d * d / 2 if abs(d) <= threshold else threshold * (abs(d) - threshold / 2) for d in DIFFERENCES]
    assert loss_T.tolist() == pytest.approx(by_definition, rel=1e-12, abs=1e-15)
