import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.scores import Comparison, Score
from opd.view import words


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.465, "0.465"), (-0.4, "\N{MINUS SIGN}0.400"), (-0.0001, "0.000"), (None, "undefined")],
)
def test_a_number_has_a_true_minus_sign_and_null_is_never_zero(value: float | None, said: str) -> None:
    assert words.number(value) == said


def test_a_difference_is_rounded_as_the_scores_that_it_is_of() -> None:
    assert (words.number(0.5875), words.number(0.5), words.signed(0.5875 - 0.5)) == ("0.588", "0.500", "+0.088")
    assert words.signed(0.5 - 0.5875) == "\N{MINUS SIGN}0.088"


def test_a_difference_and_both_ends_of_its_interval_carry_their_signs() -> None:
    assert words.signed(0.378) == "+0.378"
    assert words.interval((-0.01, 0.05), difference=True) == "\N{MINUS SIGN}0.010 to +0.050"
    assert words.interval(None) == "undefined"


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0.0 %"), (0.0001, "< 0.1 %"), (0.025, "2.5 %"), (0.9996, "> 99.9 %"), (1.0, "100.0 %")],
)
def test_only_none_reads_as_zero_and_only_all_reads_as_a_hundred_percent(share: float, said: str) -> None:
    assert words.percent(share) == said


@given(st.floats(min_value=-20, max_value=0))
def test_a_probability_is_the_exponential_of_its_log(logp: float) -> None:
    said = words.probability(logp)
    if said[0] not in "<>":
        assert float(said.removesuffix(" %")) == pytest.approx(100 * math.exp(logp), abs=0.0501)


@pytest.mark.parametrize(
    ("seconds", "clock", "duration"),
    [
        (0.39, "0:00", "0.4 s"),
        (7, "0:07", "7.0 s"),
        (59.6, "1:00", "1 min 0 s"),
        (125, "2:05", "2 min 5 s"),
        (3723, "1:02:03", "1 h 2 min"),
        (90_000, "25:00:00", "25 h 0 min"),
    ],
)
def test_times_are_said_as_a_clock_and_with_units(seconds: float, clock: str, duration: str) -> None:
    assert words.clock(seconds) == clock
    assert words.duration(seconds) == duration


@given(st.floats(min_value=-1e12, max_value=1e12))
def test_a_small_number_fits_the_board_and_loses_at_most_one_part_in_twenty(value: float) -> None:
    said = words.small(value)
    assert len(said) <= 11
    assert float(said.replace(",", "")) == pytest.approx(value, rel=0.05, abs=1e-300)


def test_the_headline_says_which_way_it_went_or_that_it_can_not_be_told(
    score_of: Callable[..., Score], comparison_of: Callable[..., Comparison]
) -> None:
    low, high, near = score_of("a", 0.465), score_of("b", 0.843), score_of("c", 0.47)
    assert words.headline(comparison_of(low, high)) == "Distillation raised pass@1 from 0.465 to 0.843."
    assert words.headline(comparison_of(high, low)) == "Distillation lowered pass@1 from 0.843 to 0.465."
    assert "cannot be told apart" in words.headline(comparison_of(low, near))
    undefined = comparison_of(low, near, distinguishable=None, p=None, stderr=None, ci95=None, detectable=None)
    assert "undefined" in words.headline(undefined)
    assert words.finding(undefined).count("undefined") == 3


def test_what_can_not_be_told_apart_names_the_smallest_difference_that_could(
    score_of: Callable[..., Score], comparison_of: Callable[..., Comparison]
) -> None:
    said = words.finding(comparison_of(score_of("a", 0.465), score_of("c", 0.47), detectable=0.0441))
    assert "true difference of 0.044" in said
    assert "500 questions" in said


@pytest.mark.parametrize("path", ["runs/x/train/checkpoint-120/", "train/checkpoint-120", "/train/checkpoint-120"])
def test_a_place_is_named_by_its_last_two_parts(path: str) -> None:
    assert words.short_place(path) == "train/checkpoint-120"
    assert words.short_place("student") == "student"
