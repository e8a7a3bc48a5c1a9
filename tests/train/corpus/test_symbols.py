"""Marks: what is spelling, what is mathematics."""

import pytest

from opd.train.corpus.symbols import Kind, formulas, marks, seen, symbol_form

SPELLINGS = [
    (r"\dfrac{a}{b}", r"\frac{a}{b}"),
    (r"\frac12", r"\frac{1}{2}"),
    (r"\frac{1}{2}", "1/2"),
    (r"\left| m - n \right|", "|m-n|"),
    (r"a_1, \dots, a_n", r"a_1,\ldots,a_n"),
    ("$x$ is 18.", r"\[x\] is $18$"),
    ("a_{1}", "a_1"),
    ("x ≤ 3", r"x \leq 3"),
    ("1,000 coins", "1000 coins"),
    ("Find X.", "find X"),
    (r"\text{when }n", "when n"),
]
DIFFERENT = [
    ("z^4-z^2+1", "z^4+z^2+1"),
    ("x^{2y}", "x^2y"),
    ("(0, 1)", "[0, 1]"),
    ("f(1,2)", "f(12)"),
    ("word ELEVEN", "word TARTAR"),
    ("x", "X"),
    (r"\sin x", r"\cos x"),
    (r"a \times b", r"a \cdot b"),
    ("n!", "n"),
    ("3.5", "35"),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
def test_spelling_is_not_seen(one: str, other: str) -> None:
    assert symbol_form(one) == symbol_form(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_mathematics_is_seen(one: str, other: str) -> None:
    assert symbol_form(one) != symbol_form(other)


def test_braces_are_no_marks_of_a_comparison() -> None:
    """Authors set bars and subscripts either way; a form that groups rows for dropping is stricter."""
    assert seen(marks(r"\overline{r_1}")) == seen(marks(r"\overline{r}_1"))
    assert symbol_form(r"\overline{r_1}") != symbol_form(r"\overline{r}_1")


def test_the_kinds_of_marks() -> None:
    assert [(mark.text, mark.kind) for mark in marks("Let $a$ be a five-digit odd number. 求?")] == [
        ("let", Kind.WORD),
        ("a", Kind.SYMBOL),
        ("be", Kind.WORD),
        ("an", Kind.WORD),  # the article, and not the variable
        ("five", Kind.TERM),
        ("-", Kind.SYMBOL),
        ("digit", Kind.WORD),
        ("odd", Kind.TERM),
        ("number", Kind.WORD),
        (".", Kind.STOP),
        ("求", Kind.WORD),
        ("?", Kind.STOP),
    ]


def test_formulas_are_what_a_translation_keeps() -> None:
    assert formulas(marks("若 $x+2y=7$，求 $x$。")) == formulas(marks("If $x+2y = 7$, find $x$."))
