"""What every objective of whole distributions promises, and the identities that tell them apart.

Shapes: N tokens, V = 7 vocabulary.
"""

import math

import numpy as np
import pytest
import torch
from scipy.special import rel_entr

from opd.train.objective import Divergence, find, names
from opd.train.objectives.jsd import JSD
from opd.train.objectives.topk_forward_kl import TopKForwardKL
from opd.train.objectives.topk_reverse_kl import TopKReverseKL
from opd.train.update.candidates import top, with_tail

V, N = 7, 11
DIVERGENCES = [name for name in names() if issubclass(find(name), Divergence)]


@pytest.fixture(params=DIVERGENCES)
def divergence(request: pytest.FixtureRequest) -> Divergence:
    kind = find(request.param)
    made = kind(k=3) if "k" in kind.model_fields else kind()  # of 7 tokens, so that the tail is not empty
    assert isinstance(made, Divergence)
    return made


def logits(seed: int, *, spread: float = 2.0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    numbers = torch.Generator().manual_seed(seed)
    return (torch.randn(N, V, generator=numbers, dtype=torch.float64) * spread).to(dtype)


def loss_of(divergence: Divergence, student_NV: torch.Tensor, teacher_NV: torch.Tensor) -> torch.Tensor:
    return divergence(student_NV.log_softmax(-1), teacher_NV.log_softmax(-1))


def gradient(divergence: Divergence, student_NV: torch.Tensor, teacher_NV: torch.Tensor) -> torch.Tensor:
    student_NV = student_NV.clone().requires_grad_(True)
    (found,) = torch.autograd.grad(loss_of(divergence, student_NV, teacher_NV).sum(), student_NV)
    return found


def test_each_token_has_a_value_that_is_never_negative(divergence: Divergence) -> None:
    loss_N = loss_of(divergence, logits(0), logits(1))
    assert loss_N.shape == (N,)
    assert bool((loss_N > 0).all())


def test_it_is_zero_at_the_teacher_and_has_no_gradient_there(divergence: Divergence) -> None:
    teacher_NV = logits(1)
    assert loss_of(divergence, teacher_NV, teacher_NV).abs().max() < 1e-14
    assert gradient(divergence, teacher_NV, teacher_NV).abs().max() < 1e-14


def test_a_token_does_not_feel_its_neighbours(divergence: Divergence) -> None:
    student_NV, teacher_NV = logits(0), logits(1)
    before_N, slope_NV = loss_of(divergence, student_NV, teacher_NV), gradient(divergence, student_NV, teacher_NV)
    student_NV[4], teacher_NV[4] = student_NV[4] * 3 - 1, teacher_NV[4].flip(0)
    others = [n for n in range(N) if n != 4]
    assert torch.equal(loss_of(divergence, student_NV, teacher_NV)[others], before_N[others])
    assert torch.equal(gradient(divergence, student_NV, teacher_NV)[others], slope_NV[others])


def test_its_gradient_is_that_of_finite_differences(divergence: Divergence) -> None:
    student_NV, teacher_NV = logits(0), logits(1)
    found_NV, h = gradient(divergence, student_NV, teacher_NV), 1e-6
    for v in range(V):
        up, down = student_NV.clone(), student_NV.clone()
        up[:, v] += h
        down[:, v] -= h
        slope_N = (loss_of(divergence, up, teacher_NV) - loss_of(divergence, down, teacher_NV)) / (2 * h)
        assert torch.allclose(found_NV[:, v], slope_N, atol=1e-8)


@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0, 400.0])
def test_it_is_finite_with_its_gradient_however_sure_the_two_are(divergence: Divergence, spread: float) -> None:
    """E15: tails of float32 that hold nothing are cells like any other."""
    student_NV = logits(0, spread=spread, dtype=torch.float32)
    teacher_NV = logits(1, spread=spread, dtype=torch.float32)
    assert bool(loss_of(divergence, student_NV, teacher_NV).isfinite().all())
    assert bool(gradient(divergence, student_NV, teacher_NV).isfinite().all())


def test_the_teacher_gets_no_gradient_and_matters(divergence: Divergence) -> None:
    """E6: with another teacher the student is pulled elsewhere."""
    student_NV = logits(0)
    assert not torch.allclose(
        gradient(divergence, student_NV, logits(1)), gradient(divergence, student_NV, logits(2)), atol=1e-3
    )


@pytest.mark.parametrize("name", ["forward_kl", "reverse_kl"])
def test_a_kl_is_scipys(name: str) -> None:
    kind = find(name)()
    assert isinstance(kind, Divergence)
    q, p = logits(0).softmax(-1).numpy(), logits(1).softmax(-1).numpy()
    expected = rel_entr(p, q).sum(-1) if name == "forward_kl" else rel_entr(q, p).sum(-1)
    assert np.allclose(loss_of(kind, logits(0), logits(1)).numpy(), expected, atol=1e-13)


def test_the_gradient_of_the_forward_kl_is_q_minus_p() -> None:
    """E14: only the true forward KL has it."""
    kind = find("forward_kl")()
    assert isinstance(kind, Divergence)
    expected_NV = logits(0).softmax(-1) - logits(1).softmax(-1)
    assert torch.allclose(gradient(kind, logits(0), logits(1)), expected_NV, atol=1e-14)


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_the_jsd_mixes_probabilities(beta: float) -> None:
    q, p = logits(0).softmax(-1).numpy(), logits(1).softmax(-1).numpy()
    m = beta * p + (1 - beta) * q
    expected = beta * rel_entr(p, m).sum(-1) + (1 - beta) * rel_entr(q, m).sum(-1)
    assert np.allclose(loss_of(JSD(beta=beta), logits(0), logits(1)).numpy(), expected, atol=1e-13)


def test_the_jsd_of_two_sure_opposites_is_known() -> None:
    """E10: p = (.9, .1), q = (.1, .9), beta .5: 0.3681 nats; mixed as logarithms it would be another number."""
    p, q = torch.tensor([[0.9, 0.1]]).double().log(), torch.tensor([[0.1, 0.9]]).double().log()
    assert JSD()(q, p).item() == pytest.approx(0.3681, abs=5e-5)
    mixed = 0.5 * (p + q)  # the mean of logarithms: .3, .3, which is no distribution
    wrong = 0.5 * (p.exp() * (p - mixed)).sum() + 0.5 * (q.exp() * (q - mixed)).sum()
    assert wrong.item() == pytest.approx(0.8789, abs=5e-5)


def test_a_jsd_near_the_edge_is_a_scaled_kl_and_says_so() -> None:
    forward = find("forward_kl")()
    assert isinstance(forward, Divergence)
    near = loss_of(JSD(beta=1e-4), logits(0, spread=0.3), logits(1, spread=0.3)) / 1e-4
    assert torch.allclose(near, loss_of(forward, logits(0, spread=0.3), logits(1, spread=0.3)), rtol=1e-3)
    assert "0.01 × the forward KL" in JSD(beta=0.01).notes()[0]
    assert JSD().notes() == []


def cells(p: list[float], q: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Teacher and student with these two candidates and one token for the rest, as log-probabilities."""
    return (torch.tensor([[*x, 1 - sum(x)]]).double().log() for x in (p, q))  # type: ignore[return-value]


def test_the_tail_makes_a_negative_sum_a_divergence() -> None:
    """I7, E12: p = (.5, .3), q = (.55, .40): -0.13396 without the tail, +0.14330 with it, and a gradient."""
    teacher, student = cells([0.5, 0.3], [0.55, 0.40])
    bare = sum(p * math.log(p / q) for p, q in ((0.5, 0.55), (0.3, 0.40)))
    assert bare == pytest.approx(-0.13396, abs=5e-6)
    assert TopKForwardKL(k=2)(student, teacher).item() == pytest.approx(0.14330, abs=5e-6)
    assert gradient(TopKForwardKL(k=2), student, teacher).abs().max() > 0.05
    floored = TopKForwardKL(k=2, tail="none")
    assert floored(student, teacher).item() == 0.0
    assert gradient(floored, student, teacher).abs().max() == 0.0
    assert "gradient is zero" in floored.notes()[0]
    assert TopKForwardKL().notes() == []


def test_the_gradients_of_the_three_families_are_as_derived() -> None:
    """I7: q_j - p_j on K and q_j - (1-P) q_j/(1-Q) off it; without the tail q_j P - p_j on K and q_j P off it."""
    student_NV, teacher_NV = logits(0), logits(1)
    q, p = student_NV.softmax(-1), teacher_NV.softmax(-1)
    on_k = torch.zeros(N, V, dtype=torch.bool).scatter(-1, top(teacher_NV, 3), True)
    P, Q = (p * on_k).sum(-1, keepdim=True), (q * on_k).sum(-1, keepdim=True)
    exact = torch.where(on_k, q - p, q - (1 - P) * q / (1 - Q))
    assert torch.allclose(gradient(TopKForwardKL(k=3), student_NV, teacher_NV), exact, atol=1e-13)
    bare = q * P - p * on_k
    alive = TopKForwardKL(k=3, tail="none")(student_NV.log_softmax(-1), teacher_NV.log_softmax(-1)) > 0
    assert bool(alive.any())
    assert torch.allclose(
        gradient(TopKForwardKL(k=3, tail="none"), student_NV, teacher_NV)[alive], bare[alive], atol=1e-13
    )


class Unfloored(TopKForwardKL):
    """The truncated sum as it is, to show where it leads."""

    def __call__(self, student_logp_NV: torch.Tensor, teacher_logp_NV: torch.Tensor) -> torch.Tensor:
        ids_NK = top(teacher_logp_NV, self.k)
        student_logp_NK, teacher_logp_NK = student_logp_NV.gather(-1, ids_NK), teacher_logp_NV.gather(-1, ids_NK)
        return (teacher_logp_NK.exp() * (teacher_logp_NK - student_logp_NK)).sum(dim=-1)


class Truncated(TopKReverseKL):
    """The reverse sum without the cell for the rest."""

    def __call__(self, student_logp_NV: torch.Tensor, teacher_logp_NV: torch.Tensor) -> torch.Tensor:
        ids_NK = top(teacher_logp_NV, self.k)
        student_logp_NK, teacher_logp_NK = student_logp_NV.gather(-1, ids_NK), teacher_logp_NV.gather(-1, ids_NK)
        return (student_logp_NK.exp() * (student_logp_NK - teacher_logp_NK)).sum(dim=-1)


@pytest.mark.parametrize(
    ("divergence", "low", "high"),
    [
        (TopKForwardKL(k=2), 0.63, 0.64),
        (TopKReverseKL(k=2), 0.63, 0.64),
        (Unfloored(k=2), 0.97, 1.0),
        (TopKForwardKL(k=2, tail="none"), 0.645, 0.85),
        (Truncated(k=2), 0.22, 0.25),
    ],
)
def test_where_the_mass_on_the_candidates_goes(divergence: Divergence, low: float, high: float) -> None:
    """E13, I7: with a tail to the teacher's .635. Without: to 1, or to where the floor stops it, or to 1/e of it."""
    teacher_NV = torch.tensor([[1.2, 0.9, 0.0, -0.4, -0.5, -0.6, -0.7]], dtype=torch.float64)
    student_NV = torch.zeros(1, V, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([student_NV], lr=0.05)
    for _ in range(1500):
        optimizer.zero_grad()
        loss_of(divergence, student_NV, teacher_NV).sum().backward()
        optimizer.step()
    ids = top(teacher_NV, 2)
    assert teacher_NV.softmax(-1).gather(-1, ids).sum().item() == pytest.approx(0.635, abs=0.0005)
    assert low <= student_NV.detach().softmax(-1).gather(-1, ids).sum().item() <= high


def test_candidates_with_their_tail_are_a_distribution() -> None:
    logp_NV = logits(3).log_softmax(-1)
    ids_NK = top(logp_NV, 3)
    assert torch.allclose(with_tail(logp_NV, ids_NK).exp().sum(-1), torch.ones(N, dtype=torch.float64), atol=1e-14)
    assert [sorted(row) for row in ids_NK.tolist()] == [
        sorted(row) for row in logp_NV.numpy().argsort()[:, -3:].tolist()
    ]


@pytest.mark.parametrize("sampled_rank", [1, 2, 7])
def test_the_candidates_are_the_likeliest_k_whatever_was_sampled(sampled_rank: int) -> None:
    """E29: interfaces that add the sampled token to their k hold k + 1 when it is not among them."""
    teacher_NV = logits(5).log_softmax(-1)
    ranks_NV = teacher_NV.sort(descending=True).indices
    sampled_N1 = ranks_NV[:, sampled_rank - 1 : sampled_rank]
    widened_NK = torch.cat([ranks_NV[:, :2], sampled_N1], dim=-1)
    assert all(len(set(row)) == (3 if sampled_rank > 2 else 2) for row in widened_NK.tolist())
    assert top(teacher_NV, 2).tolist() == ranks_NV[:, :2].tolist()
    assert with_tail(teacher_NV, top(teacher_NV, 2)).shape == (N, 3)


def test_all_but_one_candidate_is_the_whole_distribution() -> None:
    forward = find("forward_kl")()
    assert isinstance(forward, Divergence)
    assert torch.allclose(
        loss_of(TopKForwardKL(k=999), logits(0), logits(1)), loss_of(forward, logits(0), logits(1)), atol=1e-13
    )
