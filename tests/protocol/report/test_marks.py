"""Marks say which characters belong to which claim, and are gone from the text."""

import pytest

from opd.protocol.report.marks import Marked, unmarked


def test_nested_marks_become_spans_the_outer_one_first():
    inner = Marked("0.5", claim="c001")
    outer = Marked(f"{inner} of it", claim="c002")
    found = unmarked(f"It is {outer}.")
    assert found.text == "It is 0.5 of it."
    assert [(found.text[one.start : one.end], one.of) for one in found.spans] == [
        ("0.5 of it", "c002"),
        ("0.5", "c001"),
    ]


@pytest.mark.parametrize("text", ["\ue000c001\ue001a", "a\ue002"])
def test_marks_that_do_not_fit_are_refused(text):
    with pytest.raises(ValueError, match="closed"):
        unmarked(text)
