"""Back from a printed (correct, error) to what it says about the questions."""

import math

from hypothesis import given
from hypothesis import strategies as st

from opd.evaluate.statistics.estimates import Counts, clustered_stderr, variance_parts
from opd.evaluate.statistics.printed import Printed


@given(st.lists(st.integers(0, 8), min_size=2, max_size=40))
def test_the_true_sum_of_squares_is_among_the_candidates(hits: list[int]) -> None:
    counts = Counts.of(hits, samples_per_question=8)
    stderr = clustered_stderr(counts)
    printed = Printed(
        questions=len(hits), samples_per_question=8, correct=sum(hits), stderr=round(stderr, 6), digits=6
    )
    squares = sum(c * c for c in hits)
    assert squares in printed.sums_of_squares()
    parts, expected = printed.variance_parts(squares), variance_parts(counts)
    assert abs(parts.within - expected.within) < 1e-12
    assert abs(parts.between - expected.between) < 1e-12


def test_four_digits_leave_the_candidates_of_one_parity() -> None:
    """0.8410 ± 0.0138 of 500 × 4: every even sum whose error, by the definition, rounds to that."""
    printed = Printed(questions=500, samples_per_question=4, correct=1682, stderr=0.0138, digits=4)
    error = {squares: math.sqrt((squares / 16 - 500 * 0.841**2) / (500 * 499)) for squares in range(6000, 6700, 2)}
    expected = tuple(squares for squares, stderr in error.items() if round(stderr, 4) == 0.0138)
    assert printed.sums_of_squares() == expected == (6414, 6416, 6418, 6420, 6422, 6424)


def test_numbers_that_cannot_belong_together_leave_none() -> None:
    """All right leaves no spread; and one count of 1 has the square 1, whatever the error says."""
    assert Printed(questions=5, samples_per_question=4, correct=20, stderr=0.1, digits=6).sums_of_squares() == ()
    assert Printed(questions=500, samples_per_question=4, correct=1629, stderr=0.25, digits=6).sums_of_squares() == ()
