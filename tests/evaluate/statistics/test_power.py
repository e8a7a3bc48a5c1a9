"""Power: the smallest detectable difference is found as often as it says, and no fewer questions would do."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opd.evaluate.statistics.power import (
    PairedDesign,
    detectable_difference,
    power_at,
    questions_needed,
    samples_needed,
)


def design(*, true_spread: float, within: float = 0.06, samples: int = 4) -> PairedDesign:
    return PairedDesign(
        true_spread=true_spread, within_a=within, within_b=within, samples_a=samples, samples_b=samples
    )


@given(st.floats(1e-4, 0.1), st.sampled_from([0.01, 0.05, 0.1]), st.sampled_from([0.5, 0.8, 0.9]))
def test_the_detectable_difference_is_found_with_the_power_asked_for(
    stderr: float, alpha: float, power: float
) -> None:
    """The other tail of the two-sided test adds a little: less than 0.002 at these settings."""
    difference = detectable_difference(stderr, alpha=alpha, power=power)
    assert power <= power_at(difference, stderr=stderr, alpha=alpha) + 1e-12 < power + 0.002


def test_power_is_the_share_of_finds_in_a_simulation() -> None:
    z = np.random.default_rng(3).normal(1.7, 1.0, size=200_000)
    assert power_at(0.017, stderr=0.01) == pytest.approx(np.mean(np.abs(z) > 1.959964), abs=0.004)


def test_the_table_of_designs_holds() -> None:
    """Smallest detectable differences of the two usual designs, for four spreads of the true differences."""
    spreads = (0.0, 0.005, 0.01, 0.02)
    rows = [(500, 4, 0.0575, (0.021, 0.023, 0.025, 0.028)), (60, 32, 0.0835, (0.026, 0.037, 0.045, 0.058))]
    for questions, samples, within, expected in rows:
        plans = [design(true_spread=spread, within=within, samples=samples) for spread in spreads]
        found = [detectable_difference(plan.stderr(questions)) for plan in plans]
        assert found == pytest.approx(expected, abs=6e-4)


@given(st.floats(0.005, 0.2), st.floats(0, 0.02))
def test_one_question_fewer_would_not_do(difference: float, spread: float) -> None:
    plan = design(true_spread=spread)
    needed = questions_needed(difference, design=plan)
    assert detectable_difference(plan.stderr(needed)) <= difference * (1 + 1e-12)
    if needed > 1:
        assert detectable_difference(plan.stderr(needed - 1)) > difference


@given(st.floats(0.005, 0.2), st.floats(0, 0.02))
def test_one_sample_fewer_would_not_do_and_a_hidden_difference_stays_hidden(difference: float, spread: float) -> None:
    needed = samples_needed(difference, questions=100, design=design(true_spread=spread))
    hidden = detectable_difference((spread / 100) ** 0.5)
    assume(abs(hidden - difference) > 1e-9)
    assert (needed is None) == (hidden > difference)
    if needed is None:
        return
    assert detectable_difference(design(true_spread=spread, samples=needed).stderr(100)) <= difference * (1 + 1e-9)
    if needed > 1:
        assert detectable_difference(design(true_spread=spread, samples=needed - 1).stderr(100)) > difference


def test_near_the_limit_it_takes_many_samples_and_at_it_no_number_will_do() -> None:
    """Of 100 questions a spread of 0.011467 hides a difference of 0.03; one of 0.011465 all but hides it."""
    assert samples_needed(0.03, questions=100, design=design(true_spread=0.011465)) > 10_000
    assert samples_needed(0.03, questions=100, design=design(true_spread=0.011467)) is None
