"""Which distributions can be asked for."""

import pytest
from pydantic import ValidationError

from opd.models.interfaces import Sampling


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"temperature": float("inf")},
        {"top_p": 0.0},
        {"top_p": 1.01},
        {"top_k": -1},
        {"limit_tokens": 0},
    ],
)
def test_a_distribution_that_can_not_be_drawn_from_is_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Sampling(**({"limit_tokens": 8} | wrong))


@pytest.mark.parametrize(
    ("sampling", "full"),
    [({}, True), ({"temperature": 0.7}, True), ({"top_p": 0.999}, False), ({"top_k": 50}, False)],
)
def test_only_a_cut_takes_tokens_away(sampling, full):
    assert Sampling(limit_tokens=8, **sampling).full_support is full
