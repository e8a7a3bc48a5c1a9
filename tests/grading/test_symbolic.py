import pytest

from opd.grading.symbolic import LONGEST, same_value
from opd.grading.trees import Unreadable


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"\int_0^1 x^{2}\,dx", r"\frac{1}{3}"),
        (r"\sum_{k=1}^{10} k", "55"),
        (r"\int_0^1 x\,dx", r"\frac12"),
        (r"\sum_{k=1}^{1000000000000} k", r"\frac{10^{12}(10^{12}+1)}{2}"),
        (r"\prod_{i=1}^{5} i", "120"),
        (r"\lim_{x\to 0}\frac{\sin x}{x}", "1"),
        (r"\sum_{k=1}^{\infty} \frac{1}{k^2}", r"\frac{\pi^2}{6}"),
        (r"\begin{vmatrix}1 & 2\\3 & 4\end{vmatrix}", "-2"),
        (r"\int x\,dx", r"\frac{x^2}{2}"),
        (r"\cotx", r"\cot x"),
    ],
)
def test_calculus_has_the_values_that_a_textbook_gives(answer, gold):
    assert same_value(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"\int_0^1 x^{2}\,dx", "0.3333333333"),
        (r"\sum_{k=1}^{10} k", "54"),
        (r"\int_0^1 x^{x^{x}}\,dx", "0.5"),
        (r"\int x\,dx", "x^2"),
    ],
)
def test_other_values_are_other_values(answer, gold):
    assert not same_value(answer, gold)


@pytest.mark.parametrize(
    "text",
    [
        r"\sum_{k=1}^{1000000000000} k^k",
        r"\int_0^",
        r"\foo x",
        "__import__('os').abort()",
        r"\int_0^1 x\,dx" + " " * LONGEST,
        r"x = \int_0^1 x\,dx",
    ],
)
def test_what_it_cannot_read_or_bound_is_unreadable(text):
    with pytest.raises(Unreadable):
        same_value(text, "5")
