"""A formula is arithmetic over claims, and nothing else."""

import math

import pytest

from opd.protocol.report.formulas import evaluated


def test_it_comes_to_what_arithmetic_says():
    values = {"c001": 809, "c002": 484, "c003": 0.5}
    assert evaluated("c001 - c002", values) == 325
    assert evaluated("(c001 - c002) / c003", values) == 650
    assert evaluated("c001 + c002 * c003", values) == 1051
    assert evaluated("sqrt(c001 * c001 + c002)", values) == math.hypot(809, 22)


@pytest.mark.parametrize(
    "formula",
    [
        "c009",
        "c001 ** c001",
        "abs(c001)",
        "sqrt",
        "sqrt()",
        "sqrt(c001, c001)",
        "sqrt(x=c001)",
        "sqrt(c001 - c001 - c001)",
        "math.sqrt(c001)",
        "c001.real",
        "1 + c001",
        "c002",
        "c003",
        "c001 / c004",
        "",
        "c001 if c001 else c001",
    ],
)
def test_anything_else_is_refused(formula):
    with pytest.raises(ValueError, match=r".+"):
        evaluated(formula, {"c001": 809, "c002": "809", "c003": True, "c004": 0})
