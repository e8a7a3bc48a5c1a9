"""Errors against their slow definitions, exact expectations by enumeration, and a simulated coverage."""

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import fields
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.evaluate.statistics.estimates import (
    Counts,
    Summary,
    clustered_stderr,
    design_effect,
    intracluster_correlation,
    mean_over_questions,
    naive_stderr,
    naive_stderr_clt,
    pass_at_k,
    sampling_variances,
    seeds_stderr,
    summary,
    tally,
    variance_parts,
)
from opd.records.errors import AskedWrongly
from opd.records.scores import Score

QUESTION = st.integers(1, 6).flatmap(lambda k: st.tuples(st.integers(0, k), st.just(k)))


def counts_of(pairs: list[tuple[int, int]]) -> Counts:
    return Counts(hits=tuple(c for c, _ in pairs), samples=tuple(k for _, k in pairs))


def rows_of(counts: Counts) -> list[list[int]]:
    """Zeros and ones, question by question."""
    return [[1] * c + [0] * (k - c) for c, k in zip(counts.hits, counts.samples, strict=True)]


@given(st.lists(QUESTION, min_size=2, max_size=12))
def test_clustered_error_is_the_sum_over_pairs_of_one_question(pairs: list[tuple[int, int]]) -> None:
    counts = counts_of(pairs)
    mean, n, q = Fraction(counts.total_hits, counts.total_samples), counts.total_samples, counts.questions
    products = sum((x - mean) * (y - mean) for row in rows_of(counts) for x in row for y in row)
    assert clustered_stderr(counts) == pytest.approx(math.sqrt(products / n**2 * q / (q - 1)), abs=1e-15)


@given(st.integers(1, 8).flatmap(lambda k: st.tuples(st.just(k), st.lists(st.integers(0, k), min_size=2))))
def test_with_equal_samples_the_clustered_error_is_that_of_the_question_means(drawn: tuple[int, list[int]]) -> None:
    each, hits = drawn
    means = [c / each for c in hits]
    expected = statistics.stdev(means) / math.sqrt(len(means))
    assert clustered_stderr(Counts.of(hits, samples_per_question=each)) == pytest.approx(expected, abs=1e-12)


@given(st.lists(QUESTION, min_size=1, max_size=12))
def test_naive_errors_forget_the_questions(pairs: list[tuple[int, int]]) -> None:
    counts = counts_of(pairs)
    flat = [x for row in rows_of(counts) for x in row]
    if len(flat) < 2:
        assert naive_stderr(counts) is None
        assert naive_stderr_clt(counts) is None
        return
    assert naive_stderr(counts) == pytest.approx(math.sqrt(statistics.pvariance(flat) / len(flat)), abs=1e-12)
    assert naive_stderr_clt(counts) == pytest.approx(math.sqrt(statistics.variance(flat) / len(flat)), abs=1e-12)


def test_one_sample_a_question_leaves_nothing_to_cluster() -> None:
    counts = Counts.of([1, 0, 1, 1, 0, 1, 0, 0, 1], samples_per_question=1)
    assert clustered_stderr(counts) == pytest.approx(naive_stderr_clt(counts))
    assert variance_parts(counts) is None
    assert intracluster_correlation(counts) is None
    assert seeds_stderr(counts) is None


def test_two_hundred_questions_half_right_have_a_clustered_error_of_exactly_zero() -> None:
    """E76: 200 questions, each 2 of 4 correct: clustered 0, naive above it."""
    counts = Counts.of([2] * 200, samples_per_question=4)
    assert clustered_stderr(counts) == 0.0
    assert naive_stderr(counts) == pytest.approx(math.sqrt(0.25 / 800))
    assert design_effect(counts) == 0.0
    assert intracluster_correlation(counts) == pytest.approx(-1 / 3)


def test_thirds_add_up_to_an_error_of_exactly_zero() -> None:
    """Floats would leave 1e-17, and a t statistic of 1e15 with it."""
    assert clustered_stderr(Counts.of([1] * 77, samples_per_question=3)) == 0.0


def test_what_is_undefined_is_none_and_not_zero() -> None:
    one = Counts.of([3], samples_per_question=4)
    assert clustered_stderr(one) is None
    assert design_effect(one) is None
    assert variance_parts(one) is None
    assert intracluster_correlation(one) is None
    assert mean_over_questions([0.5]).stderr is None
    all_right = Counts.of([4, 4, 4], samples_per_question=4)
    assert design_effect(all_right) is None
    assert intracluster_correlation(all_right) is None
    single = Counts.of([1], samples_per_question=1)
    assert naive_stderr(single) is None


def binomial(k: int, p: Fraction) -> list[tuple[int, Fraction]]:
    return [(c, math.comb(k, c) * p**c * (1 - p) ** (k - c)) for c in range(k + 1)]


def draws(samples: tuple[int, ...], truths: list[Fraction]) -> Iterator[tuple[Fraction, Counts]]:
    """Every result of questions whose true means are drawn from `truths`, with its chance."""
    for means in product(truths, repeat=len(samples)):
        for cell in product(*(binomial(k, p) for k, p in zip(samples, means, strict=True))):
            chance = Fraction(1, len(truths) ** len(samples)) * math.prod(one for _, one in cell)
            yield chance, Counts(hits=tuple(c for c, _ in cell), samples=samples)


def expectation(results: Iterator[tuple[Fraction, Counts]], value: Callable[[Counts], float]) -> float:
    return sum(float(chance) * value(counts) for chance, counts in results if chance)


@pytest.mark.parametrize("samples", [(3, 3, 3), (2, 4, 3)], ids=["equal", "unequal"])
def test_within_and_between_are_unbiased(samples: tuple[int, ...]) -> None:
    """By enumeration: true means ¼ and ¾, each as likely, so that W = 3/16 and B = 1/16."""
    truths = [Fraction(1, 4), Fraction(3, 4)]
    within = expectation(draws(samples, truths), lambda counts: variance_parts(counts).within)
    between = expectation(draws(samples, truths), lambda counts: variance_parts(counts).between)
    assert within == pytest.approx(3 / 16)
    assert between == pytest.approx(1 / 16)


def test_the_variance_between_seeds_is_unbiased_for_each_question() -> None:
    """By enumeration: the mean of k samples with truth p has variance p (1 - p) / k."""
    for k, p in [(2, Fraction(1, 3)), (5, Fraction(9, 10)), (7, Fraction(1, 2))]:
        found = expectation(draws((k,), [p]), lambda counts: float(sampling_variances(counts)[0]))
        assert found == pytest.approx(float(p * (1 - p) / k))


def test_the_seed_to_seed_error_is_the_spread_of_the_mean_on_fixed_questions() -> None:
    """By enumeration, with unequal samples: E[seeds_stderr²] = Var(mean)."""
    samples, truths = (2, 3, 4), (Fraction(1, 5), Fraction(1, 2), Fraction(3, 4))
    cells = list(product(*(binomial(k, p) for k, p in zip(samples, truths, strict=True))))
    results = [
        (math.prod(one for _, one in cell), Counts(hits=tuple(c for c, _ in cell), samples=samples)) for cell in cells
    ]
    mean = sum(float(chance) * counts.mean for chance, counts in results)
    spread = sum(float(chance) * (counts.mean - mean) ** 2 for chance, counts in results)
    assert sum(float(chance) * seeds_stderr(counts) ** 2 for chance, counts in results) == pytest.approx(spread)


def test_the_t_interval_covers_at_its_level_and_the_naive_one_does_not() -> None:
    """Sixty questions of a U-shaped difficulty, eight samples each, 3,000 evaluations from a fixed seed."""
    random = np.random.default_rng(20240601)
    alpha, beta, runs = 0.45, 0.35, 3000
    truth = alpha / (alpha + beta)
    clustered = naive = 0
    for _ in range(runs):
        hits = random.binomial(8, random.beta(alpha, beta, size=60))
        found = summary(Counts(hits=tuple(hits.tolist()), samples=(8,) * 60))
        low, high = found.ci95
        clustered += low <= truth <= high
        naive += abs(found.mean - truth) <= 1.959964 * found.stderr_naive
    # 4 standard errors of a share of 3,000 are 0.016
    assert clustered / runs == pytest.approx(0.95, abs=0.016)
    assert naive / runs < 0.65


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(drawn: tuple[int, int, int]) -> None:
    n, c, k = drawn
    subsets = list(combinations([1] * c + [0] * (n - c), k))
    assert pass_at_k(c, n, k) == pytest.approx(sum(any(subset) for subset in subsets) / len(subsets))


@pytest.mark.parametrize("k", [0, 5])
def test_pass_at_more_than_the_samples_is_refused(k: int) -> None:
    with pytest.raises(AskedWrongly, match=f"pass@{k} of 4 samples"):
        pass_at_k(1, 4, k)


def test_a_sample_that_comes_twice_is_refused() -> None:
    with pytest.raises(AskedWrongly, match="question 'q1' has sample 7 twice"):
        tally([("q1", 7, True), ("q0", 7, True), ("q1", 7, True)])


def test_a_missing_row_is_refused_where_the_counts_are_declared() -> None:
    rows = [(f"q{q}", sample, True) for q in range(3) for sample in range(2)]
    _, counts = tally(rows, questions=3, samples_per_question=2)
    assert counts.total_samples == 6
    with pytest.raises(AskedWrongly, match="question 'q2' has 1 samples; 2 are declared"):
        tally(rows[:-1], questions=3, samples_per_question=2)
    with pytest.raises(AskedWrongly, match="2 questions have samples; 3 are declared"):
        tally(rows[:-2], questions=3, samples_per_question=2)


def test_no_samples_are_no_score() -> None:
    with pytest.raises(AskedWrongly, match="no samples"):
        tally([])


def test_the_order_of_the_rows_changes_nothing() -> None:
    rows = [(f"q{q}", sample, (q + sample) % 3 == 0) for q in range(5) for sample in range(4)]
    assert tally(rows) == tally(rows[::-1])


def test_a_summary_fills_the_fields_of_a_score() -> None:
    assert {field.name for field in fields(Summary)} <= set(Score.model_fields)


@pytest.mark.parametrize(("hits", "samples"), [((), ()), ((1,), (1, 1)), ((3,), (2,)), ((-1,), (2,)), ((0,), (0,))])
def test_counts_that_cannot_be_are_refused(hits: tuple[int, ...], samples: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"questions|samples"):
        Counts(hits=hits, samples=samples)
