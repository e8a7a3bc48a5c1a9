"""Values at many digits. The oracle is sympy, or an identity that a book has."""

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from opd.grading.grammar import read
from opd.grading.numeric import Numeric
from opd.grading.trees import Unreadable


def equal(one, other):
    return Numeric().equal(read(one), read(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\sqrt{12}", r"2\sqrt{3}"),
        (r"\sqrt{5+2\sqrt{6}}", r"\sqrt2+\sqrt3"),
        (r"e^{i\pi}", "-1"),
        (r"e^{i\pi/4}", r"\frac{\sqrt2}{2}+\frac{\sqrt2}{2}i"),
        (r"\sin^2 x + \cos^2 x", "1"),
        (r"\sin 2x", r"2\sin x\cos x"),
        (r"\sin 30^\circ", r"\frac12"),
        (r"\cos^{-1} 0", r"\frac{\pi}{2}"),
        (r"\ln x^2", r"2\ln x"),  # wherever both are real
        (r"\log_2 8", "3"),
        (r"\log 1000", "3"),  # the common logarithm
        (r"\log x", r"\ln x"),  # or the natural one
        (r"(-1)^n", r"\cos(n\pi)"),  # real at whole numbers only
        (r"n!", r"n(n-1)!"),
        (r"\lfloor \log_{10} 1000 \rfloor", "3"),
        (r"\sqrt[3]{-8}\pi", r"-2\pi"),
        (r"(-8)^{1/3}\pi", r"-2\pi"),
        (r"|3+4i|", "5"),
        (r"2\,\mathrm{cis}\,60^\circ", r"1+\sqrt3 i"),
    ],
)
def test_identities_hold(one, other):
    assert equal(one, other)
    assert equal(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\sqrt2", "1.4142135623730950488016887242096980785696718753769480731766797379907324784621"),
        (r"\pi", r"\frac{355}{113}"),
        (r"1 + e^{-1000}", "1"),  # differ at the 435th digit
        (r"\cos(10^{-200})", "1"),
        (r"\sqrt{1+10^{-300}}", "1"),
        (r"\sqrt{x^2}", "x"),
        (r"\sqrt2 + 10^{-80}x", r"\sqrt2"),
        (r"e^{\pi\sqrt{163}}", "262537412640768744"),  # agree in 30 digits
        (r"\binom{10^9}{5\cdot 10^8}", "1"),
        ("2^{729000000}", "2"),
        (r"x^{\pi}", r"x^{3.14159265358979}"),
        ("1+2i", "1-2i"),
    ],
)
def test_near_misses_are_not_equal(one, other):
    assert not equal(one, other)
    assert not equal(other, one)


roots = st.lists(st.tuples(st.integers(-5, 5), st.integers(2, 30)), min_size=1, max_size=3)


@settings(max_examples=40)
@given(roots, roots)
def test_sums_of_roots_are_equal_exactly_when_sympy_says_so(one, other):
    def written(terms):
        return " ".join(rf"{factor:+d}\sqrt{{{radicand}}}" for factor, radicand in terms)

    def exactly(terms):
        return sum((factor * sympy.sqrt(radicand) for factor, radicand in terms), sympy.Integer(0))

    assert equal(written(one), written(other)) is bool(exactly(one) - exactly(other) == 0)
    assert Numeric().less(read(written(one)), read(written(other))) is bool(exactly(one) < exactly(other))


@pytest.mark.parametrize(
    "text",
    [
        "2^{2^{2^{2^{2^{2}}}}}",
        r"7^{7^{7^{7}}} - 7",
        r"\sin(10^{10^{6}})",
        r"(10^{10}!)! + \pi",
        r"\sqrt[10^{10^{9}}]{8}",
        r"e^{e^{e^{e^{e}}}}",
        r"\ln 0",
        r"\frac{\pi}{\sin\pi - \sin\pi}",
    ],
)
def test_what_has_no_value_or_none_within_bounds_is_unreadable_at_once(text):
    with pytest.raises(Unreadable):
        equal(text, r"\pi")


def test_equations_are_told_apart_by_their_multiples():
    one, other = read(r"\pi x - \sqrt2 y"), read(r"\sqrt{2}\pi x - 2y")
    assert Numeric().proportional(one, other, positive=True)
    assert not Numeric().proportional(one, read(r"\pi x + \sqrt2 y"), positive=False)
    assert not Numeric().proportional(one, read(r"\sqrt2 y - \pi x"), positive=True)
