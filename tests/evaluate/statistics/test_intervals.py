"""Quantiles and intervals against scipy.stats, which the package itself does not import: it takes a second."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opd.evaluate.statistics.intervals import (
    clopper_pearson,
    normal_p,
    normal_quantile,
    sign_test_p,
    t_interval,
    t_p,
    wilson,
    wilson_clustered,
)

TRIALS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize("df", [1, 2, 7, 59, 499, 100_000])
def test_t_values_are_students(df: int) -> None:
    low, high = t_interval(0.25, 0.1, df=df)
    reach = stats.t.ppf(0.975, df) * 0.1
    assert (low, high) == pytest.approx((0.25 - reach, 0.25 + reach), rel=1e-9)
    for t in (0.0, 0.4, -2.5, 9.0):
        assert t_p(t, df=df) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-9)


@pytest.mark.parametrize("z", [0.0, 1.0, -1.959963985, 6.0, 18.0])
def test_normal_values_are_the_normals(z: float) -> None:
    assert normal_p(z) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-9)
    assert normal_quantile(0.975) == pytest.approx(1.959963984540054)


def test_an_interval_without_an_error_or_without_freedom_is_undefined() -> None:
    assert t_interval(0.5, None, df=10) is None
    assert t_interval(0.5, 0.1, df=0) is None


@given(TRIALS)
def test_both_share_intervals_are_scipys(drawn: tuple[int, int]) -> None:
    hits, trials = drawn
    test = stats.binomtest(hits, trials)
    for found, method in ((wilson(hits, trials), "wilson"), (clopper_pearson(hits, trials), "exact")):
        expected = test.proportion_ci(0.95, method=method)
        assert found == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_a_share_of_nothing_is_undefined() -> None:
    assert wilson(0, 0) is None
    assert clopper_pearson(0, 0) is None


@given(st.integers(2, 400).flatmap(lambda n: st.tuples(st.integers(1, n - 1), st.just(n))), st.integers(1, 500))
def test_a_clustered_share_has_scipys_interval_of_the_trials_with_its_error(drawn: tuple[int, int], df: int) -> None:
    hits, trials = drawn
    share = hits / trials
    stderr = math.sqrt(share * (1 - share) / trials) * stats.norm.ppf(0.975) / stats.t.ppf(0.975, df)
    expected = stats.binomtest(hits, trials).proportion_ci(0.95, method="wilson")
    assert wilson_clustered(share, stderr, df=df) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_sign_test_is_the_exact_binomial(ups: int, downs: int) -> None:
    expected = stats.binomtest(ups, ups + downs).pvalue if ups + downs else 1.0
    assert sign_test_p(ups, downs) == pytest.approx(expected, rel=1e-9)


def test_the_sign_test_of_many_thousand_changes_neither_overflows_nor_vanishes() -> None:
    assert sign_test_p(500, 500) == 1.0
    assert 0 < sign_test_p(1000, 0) < 1e-300
    assert not math.isnan(sign_test_p(5000, 4000))
