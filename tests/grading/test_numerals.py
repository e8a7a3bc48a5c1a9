from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.grading.numerals import in_base, number_from_words, number_value
from opd.grading.trees import Unreadable


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=0, places=6, max_value=10**9))
def test_a_decimal_has_its_exact_value(decimal):
    assert number_value(str(decimal)) == Fraction(decimal)


@given(st.integers(1, 999), st.integers(1, 999))
def test_repeating_digits_have_the_value_of_the_fraction_that_long_division_gives_them_for(numerator, denominator):
    whole, rest = divmod(numerator, denominator)
    digits, seen = "", {}
    while rest not in seen:
        seen[rest] = len(digits)
        digits += str(rest * 10 // denominator)
        rest = rest * 10 % denominator
    once, again = digits[: seen[rest]], digits[seen[rest] :]
    assert number_value(rf"{whole}.{once}\overline{{{again}}}") == Fraction(numerator, denominator)


@pytest.mark.parametrize("digits", ["3e-4", "1.25E3", ".5e1"])
def test_programmers_notation_is_read_as_decimal_does(digits):
    assert number_value(digits) == Fraction(Decimal(digits))


@pytest.mark.parametrize("digits", ["1e999999999", "1e-999999999", "A5"])
def test_a_number_out_of_bounds_or_without_its_base_is_unreadable(digits):
    with pytest.raises(Unreadable):
        number_value(digits)


@given(st.integers(0, 10**6), st.integers(2, 10))
def test_digits_in_a_base_have_the_value_of_their_places(value, base):
    digits, rest = "", value
    while rest or not digits:
        digits, rest = str(rest % base) + digits, rest // base
    assert in_base(digits, f"_{base}").value == value


@pytest.mark.parametrize(
    ("digits", "base", "value"),
    [("152A", "_11", 1 * 11**3 + 5 * 11**2 + 2 * 11 + 10), ("0.11", "_2", Fraction(3, 4)), ("11", "_two", 3)],
)
def test_letters_places_and_bases_in_words_count_too(digits, base, value):
    assert in_base(digits, base).value == value


@pytest.mark.parametrize(("digits", "base"), [("19", "_8"), ("1", "_1"), ("1", "_n"), ("1", "_99999999")])
def test_a_digit_that_the_base_does_not_have_is_unreadable(digits, base):
    with pytest.raises(Unreadable):
        in_base(digits, base)


@pytest.mark.parametrize(
    ("spoken", "value"),
    [
        ("zero", 0),
        ("twelve", 12),
        ("twenty five", 25),
        ("three hundred seven", 307),
        ("two thousand forty", 2040),
        ("one million", 10**6),
        ("hundred", None),
        ("zero hundred", None),
        ("five twenty", None),
        ("two three", None),
        ("twenty zero", None),
        ("三", 3),
        ("十", 10),
        ("二十五", 25),
        ("三百零五", 305),
        ("一千零二十", 1020),
        ("二五", None),
        ("三 个", None),
        ("two apples", None),
    ],
)
def test_numbers_in_words(spoken, value):
    assert number_from_words(spoken.split()) == value
