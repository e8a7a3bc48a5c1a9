import pytest

from opd.grading.units import agree, unit_of


def unit(text):
    return unit_of([(word, 1) for word in text.split()])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("inches", "in"),
        ("feet", "foot"),
        ("square inches", "sq in"),
        ("cubic centimetres", "cu cm"),
        ("meters squared", "square meters"),
        ("dollars", "usd"),
        ("people", "person"),
        ("boxes", "box"),
        ("cities", "city"),
        ("平方厘米", "square cm"),
        ("厘米", "centimeters"),
    ],
)
def test_spellings_of_one_unit_are_one(one, other):
    assert unit(one) == unit(other) != ()


def test_powers_count_however_they_are_written():
    assert unit_of([("inches", 2)]) == unit("square inches")
    assert unit("mph") == unit_of([("miles", 1), ("hour", -1)])


@pytest.mark.parametrize("text", ["", "units", "square units", "个", "单位"])
def test_nothing_in_particular_is_no_unit(text):
    assert unit(text) == ()


@pytest.mark.parametrize(
    ("one", "other", "agreed"),
    [
        ("cm", "", True),
        ("cm", "km", False),
        ("cm", "square cm", False),
        ("apples", "pears", False),
        ("integers", "distinct integers", True),
        ("dollars", "cents", False),
        ("square units", "square cm", True),
        ("hours", "miles hours", False),
    ],
)
def test_a_missing_unit_agrees_and_a_different_one_does_not(one, other, agreed):
    assert agree(unit(one), unit(other)) is agreed
    assert agree(unit(other), unit(one)) is agreed
