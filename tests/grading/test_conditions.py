"""Conditions on one variable as sets. The oracle evaluates the condition itself at every half and in between."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.grading.equality import Finding, NeedsWorker, compare
from opd.grading.exact import Exact
from opd.grading.grammar import read
from opd.grading.numeric import Numeric
from opd.grading.realsets import same_set
from opd.grading.sets import as_set

COMPARED = {
    "<": lambda one, other: one < other,
    r"\le": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    r"\ge": lambda one, other: one >= other,
    r"\ne": lambda one, other: one != other,
}
MINUS_INFINITY, INFINITY = r"-\infty", r"\infty"
slopes = st.sampled_from([-3, -2, -1, 1, 2, 3])
heights = st.integers(-4, 4)
operators = st.sampled_from(sorted(COMPARED))


def holding(ends, has):
    """The set where `has` holds, as text: between two neighbouring ends nothing changes."""
    places = sorted(ends)
    parts = [rf"\{{{end}\}}" for end in places if has(end)]
    for left, right in zip([None, *places], [*places, None], strict=True):
        inside = right - 1 if left is None else left + 1 if right is None else (left + right) / 2
        if has(inside):
            parts.append(f"({MINUS_INFINITY if left is None else left},{INFINITY if right is None else right})")
    return r" \cup ".join(parts) or r"\emptyset"


def same(condition, description):
    one, other = as_set(read(condition)), as_set(read(description))
    assert one is not None
    assert other is not None
    return same_set(one, other, Exact())


@given(slope=slopes, height=heights, operator=operators, bound=heights)
def test_a_linear_condition_is_the_set_of_the_values_that_meet_it(slope, height, operator, bound):
    end = Fraction(bound - height, slope)
    assert same(
        f"{slope}x+{height} {operator} {bound}",
        holding({end}, lambda x: COMPARED[operator](slope * x + height, bound)),
    )
    assert not same(f"{slope}x+{height} {operator} {bound}", holding({end}, lambda x: x == end))


@given(slope=slopes, height=heights, operator=operators.filter(lambda one: one != r"\ne"), bound=st.integers(-2, 4))
def test_a_distance_is_the_set_of_the_values_within_or_beyond_it(slope, height, operator, bound):
    ends = {Fraction(sign * bound - height, slope) for sign in (1, -1)}
    expected = holding(ends, lambda x: COMPARED[operator](abs(slope * x + height), bound))
    assert same(rf"|{slope}x+{height}| {operator} {bound}", expected)
    mirrored = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}[operator]
    assert same(rf"{bound} {mirrored} |{slope}x+{height}|", expected)


@pytest.mark.parametrize(
    ("answer", "gold", "equal"),
    [
        ("2x>6", r"(3,\infty)", True),
        ("-3<2x+1<7", "(-2,3)", True),
        ("|x|<2", "(-2,2)", True),
        ("|x|<2", "[-2,2]", False),
        (r"|x|<\sqrt2", r"(-\sqrt2,\sqrt2)", True),
        (r"1<|x|\le 2", r"[-2,-1)\cup(1,2]", True),
        ("x^2<4", "(-2,2)", False),  # no line: compared as it stands
        ("x^2<4", "4>x^2", True),
        (r"\lfloor x\rfloor<3", "x<3", False),  # a line at whole numbers only
        ("x+y<3", "y+x<3", True),
        ("|A|<3", "(-3,3)", False),
        ("0x<3", r"(-\infty,\infty)", False),
    ],
)
def test_what_is_no_line_describes_no_set(answer, gold, equal):
    try:
        outcome = compare(answer, gold, Exact())
    except NeedsWorker:
        outcome = compare(answer, gold, Numeric(), symbolic=lambda *_: False)
    assert (outcome.finding is Finding.EQUAL) is equal
