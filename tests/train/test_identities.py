"""Identities of the estimators that are not an objective of their own, by enumeration: why they are not.

I1, I2 and I6 stand in test_k1_policy_gradient.py, I3 in test_k2.py, I7 in tests/contracts/test_divergences.py.
Shapes: V = 7 tokens. p is the teacher's probability, q the student's, d = log q - log p.
"""

import math

import numpy as np
import pytest
import torch

V = 7


def pair(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Student's logits, with gradient, and the teacher's log-probabilities."""
    numbers = torch.Generator().manual_seed(seed)
    student_V = torch.randn(V, generator=numbers, dtype=torch.float64).requires_grad_(True)
    return student_V, torch.randn(V, generator=numbers, dtype=torch.float64).log_softmax(-1)


def gradient(loss: torch.Tensor, student_V: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(loss, student_V)[0]


def forward_kl(student_V: torch.Tensor, teacher_V: torch.Tensor) -> torch.Tensor:
    return (teacher_V.exp() * (teacher_V - student_V.log_softmax(-1))).sum()


def reverse_kl(student_V: torch.Tensor, teacher_V: torch.Tensor) -> torch.Tensor:
    logp_V = student_V.log_softmax(-1)
    return (logp_V.exp() * (logp_V - teacher_V)).sum()


@pytest.mark.parametrize("seed", range(4))
def test_k3_estimates_the_reverse_kl_and_its_gradient_is_that_of_the_forward_kl(seed: int) -> None:
    """I4: a loss by that name would descend another divergence than the one that it reports."""
    student_V, teacher_V = pair(seed)
    logp_V = student_V.log_softmax(-1)
    q_V, d_V = logp_V.detach().exp(), logp_V - teacher_V
    k3_V = torch.exp(-d_V) - 1 + d_V
    assert (q_V * k3_V).sum().item() == pytest.approx(reverse_kl(student_V, teacher_V).item(), abs=1e-14)
    found_V = gradient((q_V * k3_V).sum(), student_V)  # samples held fixed, as in supervised training
    assert torch.allclose(found_V, gradient(forward_kl(student_V, teacher_V), student_V), atol=1e-14)
    assert not torch.allclose(found_V, gradient(reverse_kl(student_V, teacher_V), student_V), atol=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_only_k1_is_right_as_a_reward(seed: int) -> None:
    """I5: E[k · grad log q] is the reverse KL's gradient for k = k1, and for k2 and k3 it is not."""
    student_V, teacher_V = pair(seed)
    logp_V = student_V.log_softmax(-1)
    q_V, d_V = logp_V.detach().exp(), (logp_V - teacher_V).detach()
    rewards = {"k1": d_V, "k2": d_V.square() / 2, "k3": torch.exp(-d_V) - 1 + d_V}
    right_V = gradient(reverse_kl(student_V, teacher_V), student_V)
    errors = {
        name: (gradient((q_V * k_V * student_V.log_softmax(-1)).sum(), student_V) - right_V).abs().max().item()
        for name, k_V in rewards.items()
    }
    assert errors["k1"] < 1e-14
    assert errors["k2"] > 0.02
    assert errors["k3"] > 0.02


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_another_temperature_in_training_learns_another_distribution(temperature: float) -> None:
    """I8: softmax(z/T) brought to the teacher means z = T log p, so at T = 1 the student is p to the power T."""
    _, teacher_V = pair(3)
    student_V = torch.zeros(V, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([student_V], lr=0.05)
    for _ in range(1200):
        optimizer.zero_grad()
        forward_kl(student_V / temperature, teacher_V).backward()
        optimizer.step()
    expected_V = (temperature * teacher_V).softmax(-1)
    assert torch.allclose(student_V.detach().softmax(-1), expected_V, atol=1e-5)
    entropy = -(expected_V * expected_V.log()).sum()
    of_teacher = -(teacher_V.exp() * teacher_V).sum()
    assert (entropy > of_teacher) == (temperature < 1)


def test_a_log_probability_over_the_temperature_is_not_one_at_that_temperature() -> None:
    """I8, E43: z = (2, 0), T = .5: right -0.01815, raw -0.12693, raw over T -0.25386."""
    z = torch.tensor([2.0, 0.0], dtype=torch.float64)
    right, raw = (z / 0.5).log_softmax(-1)[0].item(), z.log_softmax(-1)[0].item()
    assert (right, raw, raw / 0.5) == pytest.approx((-0.01815, -0.12693, -0.25386), abs=5e-6)


@pytest.mark.parametrize(("rate", "share"), [(1e-6, 0.019), (1e-5, 0.15)])
def test_bf16_weights_hardly_move_at_small_rates(rate: float, share: float) -> None:
    """I9: the share of N(0, 0.02) weights that one step of ± the rate changes; why masters are float32."""
    weights = torch.randn(1_000_000, generator=torch.Generator().manual_seed(0)) * 0.02
    bf16 = weights.bfloat16()
    sign = torch.where(torch.arange(len(bf16)) % 2 == 0, 1.0, -1.0)
    moved = (bf16.float() + rate * sign).bfloat16() != bf16
    assert moved.float().mean().item() == pytest.approx(share, rel=0.1)
    assert ((weights + rate * sign) != weights).float().mean().item() > 0.99


def test_phantom_columns_add_their_exponentials() -> None:
    """E17: the logsumexp of (3, -15, -15) is 3.0000; with two zero columns that no token has it is 3.0949."""
    logits = np.array([3.0, -15.0, -15.0])
    assert np.log(np.exp(logits).sum()) == pytest.approx(3.0000, abs=5e-5)
    assert np.log(np.exp([*logits, 0.0, 0.0]).sum()) == pytest.approx(3.0949, abs=5e-5)


def test_another_models_padding_column_takes_probability_from_real_tokens() -> None:
    """E33: real logits (1, 0); a pad logit of 2 copied in takes p(first) from .7311 to .2447."""
    assert torch.tensor([1.0, 0.0]).softmax(-1)[0].item() == pytest.approx(0.7311, abs=5e-5)
    assert torch.tensor([1.0, 0.0, 2.0]).softmax(-1)[0].item() == pytest.approx(0.2447, abs=5e-5)


def test_a_teacher_that_lost_its_weights_is_uniform_and_known_by_its_mean() -> None:
    """E39: -ln 151,936 = -11.931 nats a token."""
    assert torch.zeros(151_936).log_softmax(-1)[0].item() == pytest.approx(-11.931, abs=5e-4)
    assert -math.log(151_936) == pytest.approx(-11.931, abs=5e-4)
