"""The clipped policy gradient on k1, against a vocabulary of seven tokens that can be enumerated.

Shapes: V tokens. One rollout of V positions holds each token once, so weighting position v by the student's
probability of v is the expectation over what the student would have sampled, without a sample.
"""

import math

import numpy as np
import pytest
import torch

from opd.train.objective import StudentView
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.batch import Batch

V = 7
LOGITS_V = np.random.default_rng(3).normal(size=V) * 1.5
TEACHER_LOGITS_V = np.random.default_rng(4).normal(size=V) * 1.5
NO_CLAMP = 1e9


def log_softmax(logits_V: np.ndarray) -> np.ndarray:
    return logits_V - logits_V.max() - math.log(np.exp(logits_V - logits_V.max()).sum())


def reverse_kl(logits_V: np.ndarray) -> float:
    """KL(student || teacher) by its definition."""
    logp_V, teacher_V = log_softmax(logits_V), log_softmax(TEACHER_LOGITS_V)
    return float((np.exp(logp_V) * (logp_V - teacher_V)).sum())


def finite_differences(function, at_V: np.ndarray, step: float = 1e-5) -> np.ndarray:
    return np.array(
        [(function(at_V + step * unit) - function(at_V - step * unit)) / (2 * step) for unit in np.eye(V)]
    )


def tokens(teacher_logp: list[float], behaviour_logp: list[float] | None = None) -> Batch:
    """One rollout in which every position is trained."""
    teacher_N = torch.tensor(teacher_logp, dtype=torch.float64)
    behaviour_N = torch.zeros_like(teacher_N) if behaviour_logp is None else torch.tensor(behaviour_logp).double()
    return Batch(
        behaviour_logp_N=behaviour_N,
        teacher_logp_N=teacher_N,
        advantage_N=torch.zeros_like(teacher_N),
        weight_N=torch.ones_like(teacher_N),
    )


def expected_gradient(objective: K1PolicyGradient) -> np.ndarray:
    """Gradient on the student's logits, averaged over what the student samples: all of it, enumerated."""
    logits_V = torch.tensor(LOGITS_V, requires_grad=True)
    logp_N = logits_V.log_softmax(dim=-1)
    view = StudentView(logp_N=logp_N, old_logp_N=logp_N.detach())
    loss_N = objective(view, tokens(log_softmax(TEACHER_LOGITS_V).tolist())).loss_N
    (logp_N.detach().exp() * loss_N).sum().backward()
    return logits_V.grad.numpy()


def one_token(*, logp: float, old: float, teacher: float, behaviour: float = 0.0, **settings) -> tuple[float, float]:
    """The loss of a single token and its derivative by the student's log-probability."""
    logp_N = torch.tensor([logp], dtype=torch.float64, requires_grad=True)
    view = StudentView(logp_N=logp_N, old_logp_N=torch.tensor([old], dtype=torch.float64))
    loss_N = K1PolicyGradient(**settings)(view, tokens([teacher], [behaviour])).loss_N
    loss_N.sum().backward()
    return loss_N.item(), logp_N.grad.item()


def test_the_expected_gradient_is_the_exact_gradient_of_reverse_kl() -> None:
    """I1, E7: by autograd through KL's definition, and by finite differences of it."""
    gradient_V = expected_gradient(K1PolicyGradient(largest_k1=NO_CLAMP))
    logits_V = torch.tensor(LOGITS_V, requires_grad=True)
    logp_V, teacher_V = logits_V.log_softmax(-1), torch.tensor(log_softmax(TEACHER_LOGITS_V))
    (logp_V.exp() * (logp_V - teacher_V)).sum().backward()
    assert np.abs(gradient_V).max() > 0.1
    np.testing.assert_allclose(gradient_V, logits_V.grad.numpy(), rtol=0, atol=1e-15)
    np.testing.assert_allclose(gradient_V, finite_differences(reverse_kl, LOGITS_V), rtol=0, atol=1e-6)


def test_the_reference_clamp_leaves_the_exact_gradient_where_it_does_not_act() -> None:
    logp_V, teacher_V = log_softmax(LOGITS_V), log_softmax(TEACHER_LOGITS_V)
    assert np.abs(logp_V - teacher_V).max() < 10
    np.testing.assert_array_equal(
        expected_gradient(K1PolicyGradient()), expected_gradient(K1PolicyGradient(largest_k1=NO_CLAMP))
    )


@pytest.mark.parametrize("largest_k1", [1.0, 2.0])
def test_with_the_clamp_the_expected_gradient_is_that_of_the_clamped_reward(largest_k1: float) -> None:
    """E7: E[clamp(k1) · grad log student], by finite differences with the reward held where it is."""
    logp_V, teacher_V = log_softmax(LOGITS_V), log_softmax(TEACHER_LOGITS_V)
    clamped_V = np.minimum(np.maximum(logp_V - teacher_V, -largest_k1), largest_k1)
    share = np.mean(np.abs(logp_V - teacher_V) > largest_k1)
    assert 0 < share < 1

    def expected_reward(logits_V: np.ndarray) -> float:
        return float((np.exp(log_softmax(logits_V)) * clamped_V).sum())

    gradient_V = expected_gradient(K1PolicyGradient(largest_k1=largest_k1))
    np.testing.assert_allclose(gradient_V, finite_differences(expected_reward, LOGITS_V), rtol=0, atol=1e-6)
    assert np.abs(gradient_V - finite_differences(reverse_kl, LOGITS_V)).max() > 0.01


def test_k1_back_propagated_directly_would_teach_nothing() -> None:
    """I2, E6: the bad condition exists; the gradient vanishes whoever the teacher is."""
    logits_V = torch.tensor(LOGITS_V, requires_grad=True)
    logp_V = logits_V.log_softmax(-1)
    (logp_V.detach().exp() * (logp_V - torch.tensor(log_softmax(TEACHER_LOGITS_V)))).sum().backward()
    assert logits_V.grad.abs().max() < 1e-15


def test_two_tokens_have_the_values_worked_out_by_hand() -> None:
    """I6: student (.8, .2), teacher (.5, .5); with ratio 1 a token's loss is its k1, and their mean is KL."""
    logp_N = torch.tensor([0.8, 0.2], dtype=torch.float64).log()
    view = StudentView(logp_N=logp_N, old_logp_N=logp_N)
    loss_N = K1PolicyGradient()(view, tokens([math.log(0.5)] * 2)).loss_N
    assert loss_N.tolist() == pytest.approx([0.47000, -0.91629], abs=5e-6)
    assert (logp_N.exp() * loss_N).sum().item() == pytest.approx(0.19274, abs=5e-6)


RATIOS = [0.3, 0.79, 0.81, 1.0, 1.19, 1.21, 4.0]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("advantage", [-2.0, -0.5, 0.5, 2.0])
def test_the_clip_is_that_of_ppo_on_both_sides_of_both_signs(ratio: float, advantage: float) -> None:
    """Piece by piece: a good token gains nothing above 1 + clip, a bad one nothing below 1 - clip."""
    if advantage > 0:
        flat = ratio > 1.2
        loss = -1.2 * advantage if flat else -ratio * advantage
    else:
        flat = ratio < 0.8
        loss = -0.8 * advantage if flat else -ratio * advantage
    logp = -1.3
    found = one_token(logp=logp, old=logp - math.log(ratio), teacher=logp + advantage)
    assert found == pytest.approx((loss, 0.0 if flat else -ratio * advantage), rel=1e-12)


def test_another_clip_moves_where_the_loss_goes_flat() -> None:
    steep = one_token(logp=-1.0, old=-1.0 - math.log(1.4), teacher=0.0, clip=0.5)
    flat = one_token(logp=-1.0, old=-1.0 - math.log(1.4), teacher=0.0, clip=0.3)
    assert steep == pytest.approx((-1.4, -1.4))
    assert flat == pytest.approx((-1.3, 0.0))


@pytest.mark.parametrize(("teacher", "likelier"), [(-0.1, True), (-6.0, False)])
def test_a_token_that_the_teacher_likes_more_gets_more_likely(teacher: float, likelier: bool) -> None:
    logits_V = torch.tensor(LOGITS_V, requires_grad=True)
    logp_V = logits_V.log_softmax(-1)
    token = 2
    assert -6.0 < logp_V[token].item() < -0.1
    logp_N = logp_V[token].reshape(1)
    view = StudentView(logp_N=logp_N, old_logp_N=logp_N.detach())
    K1PolicyGradient()(view, tokens([teacher])).loss_N.sum().backward()
    after_V = (logits_V - 0.1 * logits_V.grad).detach().log_softmax(-1)
    assert (after_V[token] > logp_V[token].detach()).item() is likelier


def test_the_ratio_is_to_the_old_policy_and_the_reward_is_of_todays() -> None:
    """Neither is the sampler's value: its engine noise would enter the reward (objectives, section 3)."""
    logp, old, teacher = -1.0, -1.1, -1.5
    loss = math.exp(logp - old) * (logp - teacher)
    for behaviour in (0.0, -1.0, -7.0):
        found = one_token(logp=logp, old=old, teacher=teacher, behaviour=behaviour)
        assert found == pytest.approx((loss, loss), rel=1e-12)


def test_the_share_beyond_the_clamp_counts_both_sides_and_not_the_limit_itself() -> None:
    logp_N = torch.tensor([-1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
    view = StudentView(logp_N=logp_N, old_logp_N=logp_N)
    found = K1PolicyGradient(largest_k1=2.0)(view, tokens([-4.0, -3.0, 1.0, 1.5])).metrics_N["clamped"]
    assert found.tolist() == [1.0, 0.0, 0.0, 1.0]
