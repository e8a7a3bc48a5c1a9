r"""Reading. The oracle for formulas is a generator that writes a random formula as LaTeX and keeps its value."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.grading import exact
from opd.grading.cursor import DEEPEST
from opd.grading.grammar import read
from opd.grading.trees import (
    BeyondGrammar,
    Brackets,
    Listing,
    Number,
    Quantity,
    Ratio,
    Relation,
    SetOperation,
    Unreadable,
    Words,
    children,
)

whole = st.integers(1, 20).map(lambda number: (str(number), Fraction(number)))


def combined(parts):
    pairs = st.tuples(parts, parts)
    return st.one_of(
        pairs.map(lambda pair: (rf"\left({pair[0][0]}+{pair[1][0]}\right)", pair[0][1] + pair[1][1])),
        pairs.map(lambda pair: (rf"({pair[0][0]} - {pair[1][0]})", pair[0][1] - pair[1][1])),
        pairs.map(lambda pair: (rf"{{{pair[0][0]}}}\cdot {{{pair[1][0]}}}", pair[0][1] * pair[1][1])),
        pairs.map(lambda pair: (rf"({pair[0][0]})({pair[1][0]})", pair[0][1] * pair[1][1])),
        pairs.filter(lambda pair: pair[1][1] != 0).map(
            lambda pair: (rf"\dfrac{{{pair[0][0]}}}{{{pair[1][0]}}}", pair[0][1] / pair[1][1])
        ),
        parts.map(lambda part: (f"({part[0]})^2", part[1] ** 2)),
        parts.map(lambda part: (f"|{part[0]}|", abs(part[1]))),
        parts.map(lambda part: (f"(-{part[0]})", -part[1])),
    )


@given(st.recursive(whole, combined, max_leaves=8))
def test_a_written_formula_is_read_with_its_value(formula):
    latex, value = formula
    assert exact.value(read(latex), {}) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\frac43", "4/3"),
        (r"\frac 59", "5/9"),
        (r"\frac9{19}", "9/19"),
        (r"\frac{270}7", "270/7"),
        (r"{17 \over 50}", "17/50"),
        (r"1\frac{4}{5}", "9/5"),
        (r"-1\frac12", "-3/2"),
        ("1 4/5", "9/5"),
        (r"2\frac{3}{2}", "3"),  # improper: a product
        ("2^10", "1024"),
        ("2^{-3}", "1/8"),
        (r"2 \times -3", "-6"),
        (r"1/2 \cdot 3", "3/2"),
        ("5!", "120"),
        (r"\binom{5}{2}", "10"),
        (r"{5 \choose 2}", "10"),
        (r"\sqrt[3]{-8}", "-2"),
        (r"\lfloor -3.5 \rfloor", "-4"),
        (r"\lceil 3.2 \rceil", "4"),
        (r"\gcd(12, 18)", "6"),
        (r"17 \bmod 5", "2"),
        (r"8^{1/3}", "2"),
        ("52_8", "42"),
        (r"(1101)_{2}", "13"),
        ("--5", "5"),
        (r"||-3|-5|", "2"),
    ],
)
def test_numbers_are_read_as_people_write_them(text, value):
    assert exact.value(read(text), {}) == Fraction(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1, -2", Listing),
        (r"x=1 \text{ or } x=2", Listing),
        ("(3,4]", Brackets),
        (r"\{1,2\}", Brackets),
        (r"\langle 1,2\rangle", Brackets),
        ("-2 < x", Relation),
        (r"(0,9) \cup (9,36)", SetOperation),
        ("3:5", Ratio),
        (r"864 \mbox{ inches}^2", Quantity),
        (r"\$36", Quantity),
        (r"\text{an ellipse}", Words),
        (r"\text{June 20}", Words),
        (r"\text{twenty-five}", Number),
    ],
)
def test_each_kind_of_answer_has_its_tree(text, kind):
    assert isinstance(read(text), kind)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("x = 5", ("x", None)),
        ("5 = x", (None, "x")),
        ("f(x) = 5", ("f(x)", None)),
        ("AB = 5", ("AB", None)),
        (r"m\angle ABC = 5", ("mangleABC", None)),
        (r"x_{1} = 5", ("x_1", None)),
        (r"\text{Area} = 5", ("area", None)),
        ("(x, y) = (1, 2)", ("(x,y)", None)),
        ("2x = 5", (None, None)),
        ("x + y = 5", (None, None)),
        ("x^2 = 5", (None, None)),
        ("xy = 6", (None, None)),
    ],
)
def test_a_member_of_a_relation_that_only_names_something_is_a_label(text, labels):
    assert read(text).labels == labels


@pytest.mark.parametrize(
    ("text", "degrees"),
    [(r"90^\circ", "degree"), ("90°", "degree"), (r"25^\circ C", "celsius"), (r"90 \text{ degrees}", "degree")],
)
def test_degrees_are_a_unit_of_a_value(text, degrees):
    assert read(text).unit == ((degrees, 1),)


@pytest.mark.parametrize(
    "text",
    [
        r"\frac{12}{}",
        "5 6",
        r"\frac12 3",
        "()",
        "(1",
        "1 +",
        "(1]",
        r"\begin{pmatrix}1&2\\3\end{pmatrix}",
        "3!!",
        r"\bmod 3",
        "x ] y",
    ],
)
def test_broken_formulas_are_unreadable(text):
    with pytest.raises(Unreadable):
        read(text)


@pytest.mark.parametrize("text", [r"\int_0^1 x\,dx", r"\sum_{k=1}^3 k", r"\begin{vmatrix}1\end{vmatrix}"])
def test_what_sympy_may_know_is_beyond_the_grammar(text):
    with pytest.raises(BeyondGrammar):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 900 + "x" + "+1)" * 900,
        "{" * 900 + "x" + "+1}" * 900,
        r"\sqrt" * 600 + "2",
        "2^" * 900 + "2",
        "2" + "^{1}" * 900,
        r"\sin" * 900 + " x",
        "x" + r" \bmod 3" * 400,
        "A" + r" \cup A" * 400,
        r"1 \over" * 400 + " 1",
        "x" + "^2" * 900,
        "|" * 900,
        r"\{" * 900,
    ],
)
def test_hostile_depth_is_refused_and_no_stack_runs_out(text):
    with pytest.raises(Unreadable):
        read(text)


def depth(node):
    return 1 + max((depth(child) for child in children(node)), default=0)


@given(st.text(alphabet="12x+-*/^_(){}[]|,=<\\pi ", max_size=60))
def test_any_text_has_a_tree_of_bounded_depth_or_is_unreadable(text):
    try:
        tree = read(text)
    except Unreadable:
        return
    assert depth(tree) < 8 * DEEPEST
