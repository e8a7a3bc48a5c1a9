from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.grading.exact import Exact, Inexact, points, value
from opd.grading.grammar import read
from opd.grading.trees import Unreadable

coefficients = st.lists(st.integers(-9, 9), min_size=1, max_size=5)


def polynomial(numbers):
    return " ".join(f"{number:+d}x^{{{power}}}" for power, number in enumerate(numbers))


def trimmed(numbers):
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers


@given(coefficients, coefficients)
def test_two_polynomials_are_equal_exactly_when_their_coefficients_are(one, other):
    equal = trimmed(one) == trimmed(other)
    assert Exact().equal(read(polynomial(one)), read(polynomial(other[::-1][::-1]))) is equal


@given(coefficients, coefficients)
def test_a_product_of_polynomials_equals_the_one_that_convolution_gives(one, other):
    product = [0] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            product[i + j] += a * b
    assert Exact().equal(read(f"({polynomial(one)})({polynomial(other)})"), read(polynomial(product)))
    product[0] += 1
    assert not Exact().equal(read(f"({polynomial(one)})({polynomial(other)})"), read(polynomial(product)))


@given(coefficients, st.fractions(min_value=-9, max_value=9, max_denominator=9))
def test_an_equation_is_proportional_to_its_multiples_alone(numbers, factor):
    numbers[0] += 100  # not identically zero
    scaled = [factor * number for number in numbers]
    other = " ".join(f"+({number})x^{{{power}}}" for power, number in enumerate(scaled))
    proportional = Exact().proportional(read(polynomial(numbers)), read(other), positive=False)
    assert proportional is (factor != 0)
    if proportional:
        assert Exact().proportional(read(polynomial(numbers)), read(other), positive=True) is (factor > 0)


def test_points_are_fixed_and_have_both_signs():
    tree = read("x + y")
    assert points(tree) == points(tree)
    assert {point["x"] > 0 for point in points(tree)} == {True, False}


@pytest.mark.parametrize(("one", "other"), [("|x|", "x"), (r"\sqrt{x^2}", "x"), ("xy", "x^2"), ("R", "r")])
def test_formulas_that_agree_only_here_or_there_differ(one, other):
    assert not Exact().equal(read(one), read(other))


@given(st.integers(0, 200), st.integers(0, 60))
def test_roots_of_powers_and_binomials_are_exact(n, k):
    assert value(read(rf"\sqrt[3]{{{n**3}}}"), {}) == n
    assert value(read(rf"\sqrt{{\frac{{{n**2}}}{{49}}}}"), {}) == Fraction(n, 7)
    assert value(read(rf"\binom{{{n}}}{{{k}}}"), {}) == comb(n, k)


@pytest.mark.parametrize(
    "text",
    ["10^{10^{10}}", "9999!", r"\binom{10^9}{5 \cdot 10^8}", r"\sqrt2", r"\pi", "e", "i", r"\sin 1", r"\sqrt{-1}"],
)
def test_what_is_too_large_or_not_rational_is_left_to_others(text):
    with pytest.raises(Inexact):
        value(read(text), {})


def test_powers_cannot_pile_up_beyond_the_limit():
    with pytest.raises(Inexact):
        value(read(r"\cdot".join(["9^{6000}"] * 200)), {})


@pytest.mark.parametrize("text", [r"\frac{1}{0}", "0^{-1}", r"5 \bmod 0", "(1,2) + 3"])
def test_what_has_no_value_is_unreadable(text):
    with pytest.raises(Unreadable):
        value(read(text), {})
