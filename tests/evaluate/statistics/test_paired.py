"""The paired difference against scipy's t test, exact expectations by enumeration, and its false finds."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from opd.evaluate.statistics.estimates import Counts
from opd.evaluate.statistics.paired import paired_difference

PAIR = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda ks: st.tuples(st.integers(0, ks[0]), st.just(ks[0]), st.integers(0, ks[1]), st.just(ks[1]))
)


def counts_of(rows: list[tuple[int, int]]) -> Counts:
    return Counts(hits=tuple(c for c, _ in rows), samples=tuple(k for _, k in rows))


@given(st.lists(PAIR, min_size=2, max_size=14))
def test_p_and_interval_are_those_of_the_paired_t_test(rows: list[tuple[int, int, int, int]]) -> None:
    a, b = counts_of([row[:2] for row in rows]), counts_of([row[2:] for row in rows])
    means_a, means_b = ([float(p) for p in one.question_means()] for one in (a, b))
    assume(np.std(np.subtract(means_b, means_a)) > 1e-9)
    expected = stats.ttest_rel(means_b, means_a)
    found = paired_difference(a, b)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    interval = expected.confidence_interval(0.95)
    assert found.ci95 == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert found.difference == pytest.approx(np.mean(means_b) - np.mean(means_a))


def test_b_minus_a_is_minus_a_minus_b() -> None:
    a = Counts.of([1, 0, 3, 4, 2, 2], samples_per_question=4)
    b = Counts.of([2, 2, 3, 4, 4, 1], samples_per_question=4)
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert there.difference == -back.difference == pytest.approx(4 / 24)
    assert there.stderr == back.stderr
    assert there.p == back.p
    assert there.flips == back.flips


def binomial(k: int, p: Fraction) -> list[tuple[int, float]]:
    return [(c, float(math.comb(k, c) * p**c * (1 - p) ** (k - c))) for c in range(k + 1)]


def test_the_error_on_exactly_these_questions_is_the_spread_over_seeds() -> None:
    """By enumeration of two questions, 2 samples of A and 3 of B: E[error²] = Var(difference); E[ω²] is exact."""
    truths_a, truths_b = (Fraction(1, 4), Fraction(2, 3)), (Fraction(1, 2), Fraction(3, 4))
    cells = product(*(binomial(2, p) for p in truths_a), *(binomial(3, p) for p in truths_b))
    results = []
    for cell in cells:
        hits = [c for c, _ in cell]
        found = paired_difference(
            Counts.of(hits[:2], samples_per_question=2), Counts.of(hits[2:], samples_per_question=3)
        )
        results.append((math.prod(chance for _, chance in cell), found))
    mean = sum(chance * found.difference for chance, found in results)
    spread = sum(chance * (found.difference - mean) ** 2 for chance, found in results)
    noise = sum(chance * found.stderr_fixed_questions**2 for chance, found in results)
    assert noise == pytest.approx(spread)
    true_differences = [float(b - a) for a, b in zip(truths_a, truths_b, strict=True)]
    omega2 = sum(chance * found.true_spread for chance, found in results)
    assert omega2 == pytest.approx(np.var(true_differences, ddof=1))


@given(st.permutations(range(8)))
def test_which_question_is_paired_with_which_does_not_touch_the_sampling_noise(order: list[int]) -> None:
    a = Counts.of([0, 1, 4, 4, 3, 2, 4, 0], samples_per_question=4)
    hits = [1, 1, 4, 3, 3, 4, 4, 2]
    plain = paired_difference(a, Counts.of(hits, samples_per_question=4))
    shuffled = paired_difference(a, Counts.of([hits[i] for i in order], samples_per_question=4))
    assert shuffled.stderr_fixed_questions == plain.stderr_fixed_questions
    assert shuffled.p_fixed_questions == plain.p_fixed_questions


def test_what_is_undefined_is_none_and_not_zero() -> None:
    one = paired_difference(Counts.of([1], samples_per_question=4), Counts.of([3], samples_per_question=4))
    assert (one.stderr, one.ci95, one.p, one.true_spread, one.p_decisive) == (None,) * 5
    greedy = paired_difference(
        Counts.of([1, 0, 1], samples_per_question=1), Counts.of([1, 1, 1], samples_per_question=1)
    )
    assert (greedy.stderr_fixed_questions, greedy.p_fixed_questions, greedy.true_spread) == (None,) * 3
    same = paired_difference(Counts.of([1, 2], samples_per_question=4), Counts.of([1, 2], samples_per_question=4))
    assert same.stderr == 0.0
    assert same.p is None
    assert same.p_decisive == 1.0
    certain = paired_difference(Counts.of([4, 0], samples_per_question=4), Counts.of([4, 4], samples_per_question=4))
    assert certain.stderr_fixed_questions == 0.0
    assert certain.p_fixed_questions is None


def test_a_constant_gain_is_judged_by_the_sign_flips() -> None:
    """The t test divides by zero there; five questions can't show anything at 5 %, six can."""
    five, six = (
        paired_difference(Counts.of([0] * q, samples_per_question=4), Counts.of([4] * q, samples_per_question=4))
        for q in (5, 6)
    )
    assert five.p is None
    assert five.p_decisive == pytest.approx(2 / 32)
    assert six.p_decisive == pytest.approx(2 / 64)


def test_the_larger_p_decides_where_few_questions_differ() -> None:
    """Five of 500 answers changed, all for the better: t says 0.025, the exact test 0.0625."""
    a = Counts.of([0] * 5 + [1] * 495, samples_per_question=1)
    b = Counts.of([1] * 500, samples_per_question=1)
    found = paired_difference(a, b)
    assert found.p == pytest.approx(0.0250, abs=5e-4)
    assert found.flips.p == pytest.approx(0.0625)
    assert found.p_decisive == found.flips.p


def test_equal_models_are_told_apart_in_five_of_a_hundred_comparisons_at_most() -> None:
    """Forty questions, the true means of both alike, 4 samples each, 800 comparisons from a fixed seed."""
    random = np.random.default_rng(7)
    runs, finds = 800, 0
    for _ in range(runs):
        truth = random.beta(0.5, 0.3, size=40)
        a, b = (Counts.of(random.binomial(4, truth).tolist(), samples_per_question=4) for _ in range(2))
        finds += paired_difference(a, b).p_decisive < 0.05
    # 0.05 and three standard errors of a share of 800
    assert 0.02 < finds / runs < 0.073


def test_the_interval_covers_the_true_gain_of_new_questions() -> None:
    """The gain differs between questions; 50 of them, 4 and 8 samples, 800 comparisons from a fixed seed."""
    random = np.random.default_rng(11)
    runs, covered, covered_by_noise_alone = 800, 0, 0
    for _ in range(runs):
        truth = random.uniform(0.1, 0.6, size=50)
        gain = random.choice([0.0, 0.3], size=50)  # 0.15 on average
        a = Counts.of(random.binomial(4, truth).tolist(), samples_per_question=4)
        b = Counts.of(random.binomial(8, truth + gain).tolist(), samples_per_question=8)
        found = paired_difference(a, b)
        covered += found.ci95[0] <= 0.15 <= found.ci95[1]
        covered_by_noise_alone += abs(found.difference - 0.15) <= 1.96 * found.stderr_fixed_questions
    assert covered / runs == pytest.approx(0.95, abs=0.025)
    assert covered_by_noise_alone < covered


def test_other_questions_do_not_pair() -> None:
    with pytest.raises(ValueError, match="2 and 3 questions"):
        paired_difference(Counts.of([1, 1], samples_per_question=1), Counts.of([1, 1, 1], samples_per_question=1))
