"""Sets of reals. The oracle tests membership at every end point and between any two of them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.grading.exact import Exact
from opd.grading.grammar import read
from opd.grading.realsets import same_set
from opd.grading.sets import as_set

ends = st.integers(0, 6)
PLACES = [Fraction(number, 2) for number in range(-2, 19)]  # every end point, and a point in every gap


@st.composite
def intervals(draw):
    left = draw(ends)
    right = draw(st.integers(left + 1, 8))
    opening, closing = draw(st.sampled_from("([")), draw(st.sampled_from(")]"))

    def has(x):
        return left < x < right or (x == left and opening == "[") or (x == right and closing == "]")

    return f"{opening}{left},{right}{closing}", has


@st.composite
def rays(draw):
    operator, end = draw(st.sampled_from(["<", r"\le", ">", r"\geq", r"\ne"])), draw(ends)
    compare = {
        "<": lambda x: x < end,
        r"\le": lambda x: x <= end,
        ">": lambda x: x > end,
        r"\geq": lambda x: x >= end,
        r"\ne": lambda x: x != end,
    }[operator]
    return rf"\{{x \mid x {operator} {end}\}}", compare


@st.composite
def points(draw):
    members = draw(st.lists(ends, min_size=1, max_size=3))
    return rf"\{{{','.join(map(str, members))}\}}", lambda x: x in members


def joined(parts):
    pairs = st.tuples(parts, parts)
    return st.one_of(
        pairs.map(lambda pair: (rf"({pair[0][0]} \cup {pair[1][0]})", lambda x: pair[0][1](x) or pair[1][1](x))),
        pairs.map(lambda pair: (rf"({pair[0][0]} \cap {pair[1][0]})", lambda x: pair[0][1](x) and pair[1][1](x))),
        pairs.map(
            lambda pair: (rf"({pair[0][0]} \setminus {pair[1][0]})", lambda x: pair[0][1](x) and not pair[1][1](x))
        ),
    )


any_set = st.recursive(st.one_of(intervals(), rays(), points()), joined, max_leaves=4)


@given(any_set, any_set)
def test_two_descriptions_are_of_one_set_exactly_when_they_have_the_same_members(one, other):
    equal = [one[1](x) for x in PLACES] == [other[1](x) for x in PLACES]
    assert same_set(as_set(read(one[0])), as_set(read(other[0])), Exact()) is equal


@pytest.mark.parametrize("text", ["(1, x)", "x < y", r"s^2 \le 8r^2", "x^2 > 4"])
def test_conditions_on_more_than_one_plain_variable_are_no_sets(text):
    assert as_set(read(text)) is None


def test_an_interval_whose_ends_are_in_the_wrong_order_is_no_set_at_all():
    assert not same_set(as_set(read("(8,-2)")), as_set(read(r"\emptyset")), Exact())
