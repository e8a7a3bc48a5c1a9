"""The sign-flip p against the definition: all patterns, one by one."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.evaluate.statistics.intervals import sign_test_p
from opd.evaluate.statistics.sign_flips import DRAWS, sign_flips

PRIMES = [n for n in range(1000, 1400) if all(n % d for d in range(2, 38))]


def by_definition(differences: list[Fraction]) -> float:
    observed = abs(sum(differences))
    patterns = list(product((1, -1), repeat=len(differences)))
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in patterns]
    return sum(one >= observed for one in sums) / len(patterns)


@given(st.lists(st.fractions(-1, 1, max_denominator=8), min_size=1, max_size=9))
def test_p_is_the_share_of_all_sign_patterns(differences: list[Fraction]) -> None:
    found = sign_flips(differences)
    assert found.draws is None
    assert found.p == pytest.approx(by_definition(differences), abs=1e-12)


@given(st.integers(0, 250), st.integers(0, 250), st.integers(0, 40))
def test_with_steps_of_one_size_it_is_the_sign_test_however_many_there_are(ups: int, downs: int, same: int) -> None:
    step = Fraction(1, 4)
    differences = [step] * ups + [Fraction(0)] * same + [-step] * downs
    assert sign_flips(differences).p == pytest.approx(sign_test_p(ups, downs), rel=1e-9, abs=1e-15)


def test_a_lattice_too_fine_to_hold_is_enumerated() -> None:
    """Ten different prime denominators: their common one has thirty digits."""
    differences = [
        Fraction(sign * (index + 3), PRIMES[index]) for index, sign in enumerate([1, 1, 1, -1] * 2 + [1, 1])
    ]
    found = sign_flips(differences)
    assert found.draws is None
    assert found.p == pytest.approx(by_definition(differences), abs=1e-12)


def test_past_enumeration_patterns_are_drawn_from_the_seed_and_counted() -> None:
    """Thirty steps that differ only beyond the ties' tolerance: the sign test is the answer, to four errors."""
    differences = [(1 if index < 21 else -1) * (1 + Fraction(1, PRIMES[index] * 10**13)) for index in range(30)]
    expected = sign_test_p(21, 9)
    found = sign_flips(differences, seed=1)
    assert found.draws == DRAWS
    assert found.p == pytest.approx(expected, abs=4 * (expected * (1 - expected) / DRAWS) ** 0.5)
    assert sign_flips(differences, seed=1) == found
    assert sign_flips(differences, seed=2) != found


def test_no_difference_at_all_is_no_evidence() -> None:
    assert sign_flips([Fraction(0)] * 12).p == 1.0
    assert sign_flips([]).p == 1.0


def test_the_smallest_p_is_that_of_one_pattern_and_its_mirror() -> None:
    assert sign_flips([Fraction(1, 4)] * 5).p == pytest.approx(2 / 2**5)


def test_p_is_never_zero_however_many_questions_agree() -> None:
    assert 0 < sign_flips([Fraction(1)] * 3000).p < 1e-300


def test_the_scale_and_the_direction_change_nothing() -> None:
    differences = [Fraction(n, 8) for n in (3, -1, 4, 1, -5, 2, 6, 5, 3, 5)]
    p = sign_flips(differences).p
    assert sign_flips([-d for d in differences]).p == p
    assert sign_flips([7 * d for d in differences]).p == p
