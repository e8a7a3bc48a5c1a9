"""Looking more than once: published boundaries, an independent integral, and false alarms in a simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from opd.evaluate.statistics.sequential import Boundary, boundaries, mixture_test


@pytest.mark.parametrize(
    ("looks", "pocock", "last"), [(2, 2.178, 1.977), (3, 2.289, 2.004), (4, 2.361, 2.024), (5, 2.413, 2.040)]
)
def test_boundaries_are_the_published_ones(looks: int, pocock: float, last: float) -> None:
    assert boundaries(looks, shape=Boundary.POCOCK) == pytest.approx((pocock,) * looks, abs=6e-4)
    fleming = boundaries(looks, shape=Boundary.OBRIEN_FLEMING)
    assert fleming[-1] == pytest.approx(last, abs=6e-4)
    assert fleming[0] == pytest.approx(fleming[-1] * math.sqrt(looks))


def test_one_look_is_the_plain_test() -> None:
    for shape in Boundary:
        assert boundaries(1, alpha=0.01, shape=shape) == pytest.approx((2.5758293,), abs=1e-6)


def test_two_looks_err_with_chance_alpha_by_the_bivariate_normal() -> None:
    (limit, _), correlation = boundaries(2, shape=Boundary.POCOCK), math.sqrt(0.5)
    both = stats.multivariate_normal(cov=[[1, correlation], [correlation, 1]])
    inside = both.cdf([limit, limit], lower_limit=[-limit, -limit])
    assert 1 - inside == pytest.approx(0.05, abs=1e-5)


def test_no_look_is_refused() -> None:
    with pytest.raises(ValueError, match="0 looks"):
        boundaries(0, shape=Boundary.POCOCK)


def test_the_evidence_is_the_likelihood_ratio_averaged_over_the_prior() -> None:
    differences, sigma, tau = [0.3, -0.1, 0.4, 0.2], 0.5, 0.2
    effects = np.linspace(-8 * tau, 8 * tau, 20_001)
    n, total = len(differences), sum(differences)
    ratio = np.exp((effects * total - n * effects**2 / 2) / sigma**2)
    expected = np.trapezoid(ratio * stats.norm.pdf(effects, scale=tau), effects)
    assert mixture_test(differences, sigma=sigma, tau=tau)[-1].evidence == pytest.approx(expected, rel=1e-6)


def test_looking_after_every_difference_raises_few_false_alarms() -> None:
    """500 walks of 200 steps around no difference, looked at 200 times: a plain 5 % test alarms in 40 % of them."""
    random = np.random.default_rng(13)
    alarms = uncovered = plain = 0
    for _ in range(500):
        walk = random.normal(0, 0.4, size=200)
        states = mixture_test(walk.tolist(), sigma=0.4, tau=0.2)
        counts = np.arange(1, 201)
        means = np.cumsum(walk) / counts
        alarms += states[-1].p < 0.05
        uncovered += any(abs(mean) > state.halfwidth for mean, state in zip(means, states, strict=True))
        plain += bool(np.any(np.abs(means) * np.sqrt(counts) / 0.4 > 1.96))
    assert alarms / 500 < 0.05
    assert uncovered == alarms
    assert plain / 500 > 0.3
