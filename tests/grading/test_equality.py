"""The house rules, by example. The shared cases are in test_grader.py; these are others, and say which rule."""

import pytest

from opd.grading.equality import Finding, NeedsWorker, compare
from opd.grading.exact import Exact
from opd.grading.numeric import Numeric


def finding(answer, gold):
    try:
        return compare(answer, gold, Exact()).finding
    except NeedsWorker:
        return compare(answer, gold, Numeric(), symbolic=lambda *_: pytest.fail("not for sympy")).finding


def check(answer, gold, *, equal):
    assert finding(answer, gold) is (Finding.EQUAL if equal else Finding.DIFFERENT)


@pytest.mark.parametrize(
    ("answer", "gold", "equal"),
    [
        ("0.75", r"\frac34", True),
        (r"\frac{15}{20}", "0.75", True),
        ("0.3333", r"\frac13", False),
        (r"0.\overline{3}", r"\frac13", True),
        ("2.6", r"\sqrt{7}", False),
        ("99999999999999999999", "100000000000000000000", False),
        (r"\frac{1}{-2}", "-0.5", True),
        ("(a+5)(b+2)", "ab+2a+5b+10", True),
        (r"\frac{n(n+1)}{2}", r"\binom{n+1}{2}", True),
        ("y+1", "x+1", False),
        (r"3+4\text{i}", "3+4i", True),
        ("101010_2", "52_8", True),
        (r"5\%", "0.05", True),
        (r"5\%", "0.5", False),
        (r"2\text{B}4_{12}", "424", True),
        (r"2\text{B}4_{12}", "2B5_{12}", False),
        ("(3A)_{16}", "58", True),
        ("(3A)_{16}", "3A_{12}", False),
        ("1011_{(2)}", "11", True),
        ("1011_{(2)}", "1011", False),
        (r"\textbf{x}+1", "1+x", True),
        (r"\textbf{x}+1", "y+1", False),
        (r"3\text{x}", r"\frac{6\text{x}}{2}", True),
    ],
)
def test_rule_4_equality_is_of_value_and_has_no_tolerance(answer, gold, equal):
    check(answer, gold, equal=equal)


PERCENT = [(r"34\%", "34"), (r"34\%", ".34"), (r"34\%", r"\frac{17}{50}"), (r"34\text{ percent}", "0.34")]


@pytest.mark.parametrize(("one", "other"), [*PERCENT, *((other, one) for one, other in PERCENT)])
def test_a_percentage_is_its_number_by_rule_5_and_its_value_by_rule_4(one, other):
    check(one, other, equal=True)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("34", ".34"), (".34", "34"), ("3400", r"34\%"), (r".34\%", r"34\%"), ("0.0034", r"34\%"), (r"3.4\%", ".34")],
)
def test_numbers_without_the_sign_are_not_taken_for_percentages_of_each_other(answer, gold):
    check(answer, gold, equal=False)


@pytest.mark.parametrize(
    ("answer", "gold", "equal"),
    [
        (r"7\text{ kg}", "7", True),
        ("7", r"7\text{ kg}", True),
        (r"7\text{ kg}", r"7\text{ g}", False),
        (r"7\text{ kilograms}", "7 kg", True),
        ("9 dogs", "9", True),
        ("9 dogs", "9 cats", False),
        (r"\$2.50", "2.5", True),
        (r"7\text{ (kg)}", "7", True),
        ("7 (kg)", "7 kg", True),
        (r"\$2.50", "250 cents", False),
        ("60°", "60", True),
        (r"60^\circ", r"\frac{\pi}{3}", False),
        (r"4^{\text{th}}", "4", True),
        ("7k", "7", False),
        ("7abc", "7", False),
        ("4:17 p.m.", "8:34 p.m.", False),
        (r"8\!:\!34 \text{ p.m.}", "8:34 PM", True),
    ],
)
def test_rule_5_a_unit_on_one_side_is_ignored_and_two_different_ones_differ(answer, gold, equal):
    check(answer, gold, equal=equal)


@pytest.mark.parametrize(
    ("answer", "gold", "equal"),
    [
        ("7, -1", "-1, 7", True),
        ("7, 7, -1", "7, -1", False),
        (r"\{7, 7, -1\}", r"\{7, -1\}", True),
        (r"\{7, -1\}", "-1, 7", True),
        ("7", "7, -1", False),
        ("(7, -1)", "(-1, 7)", False),
        ("(7, -1)", "[7, -1]", False),
        ("7, -1", "(7, -1)", True),
        ("-1, 7", "(7, -1)", False),
        ("(1,2), (3,4)", "(3,4), (1,2)", True),
        (r"4 \pm \sqrt{3}", r"4-\sqrt3, 4+\sqrt3", True),
        (r"4 + \sqrt{3}", r"4 \pm \sqrt3", False),
        (r"\{\pm 2, 5\}", "5, 2, -2", True),
        (r"1 \pm 2 \mp 3", "0, 2", True),
        ("x < 4", r"(-\infty, 4)", True),
        (r"x \le 4", r"(-\infty, 4)", False),
        (r"1 < x \text{ and } x \le 4", "(1, 4]", True),
        (r"x < 1 \text{ or } x > 4", r"(4, \infty) \cup (-\infty, 1)", True),
        (r"x \ne 4", r"\mathbb{R} \setminus \{4\}", True),
        (r"-\sqrt{3} \le t \le \sqrt{3}", r"[-\sqrt3, \sqrt{3}]", True),
        (r"s^2 \le 8r^2", r"8r^2 \ge s^2", True),
        (r"s^2 \le 8r^2", r"s^2 \ge 8r^2", False),
        ("f(2) < f(1)", "f(1) > f(2)", True),
        (r"\begin{bmatrix}1\\2\end{bmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}", True),
        (r"\frac12\begin{pmatrix}1\\4\end{pmatrix}", r"\begin{pmatrix}0.5\\2\end{pmatrix}", True),
        (r"\begin{pmatrix}1 & 2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}", False),
        (r"[[1,2],[3,4]]", r"\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix}", True),
        (r"x < 1 \cup x \ge 4", r"(-\infty, 1) \cup [4, \infty)", True),
        (r"(1, 2) \text{ and } (2, 3)", r"(1,2) \cup (2,3)", True),
        (r"x > 1, x \le 4", "(1, 4]", True),
        ("4:6", "2:3", True),
        ("3:2", "2:3", False),
        (r"\emptyset", r"\{\}", True),
    ],
)
def test_rule_6_lists_are_unordered_tuples_ordered_and_an_inequality_is_its_interval(answer, gold, equal):
    check(answer, gold, equal=equal)


@pytest.mark.parametrize(
    ("answer", "gold", "equal"),
    [
        (r"\text{The Circle}", "circle", True),
        ("circle", r"\text{square}", False),
        (r"\text{pots}", r"\text{stop}", False),
        ("WXYZ", r"\text{WXYZ}", True),
        (r"\text{July 4}", r"\text{July 14}", False),
        (r"\text{July 4}", "4", False),
        ("True", "1", False),
        (r"\text{(B)}", "B", True),
        (r"\textbf{(B)} \frac12", "B", True),
        ("B. 12", r"\text{(C)}", False),
        (r"\text{C and B}", r"\text{B, C}", True),
        (r"\text{seven}", "7", True),
        (r"\text{infinity}", r"\infty", True),
    ],
)
def test_rule_7_text_counts_without_case_and_wrappers(answer, gold, equal):
    check(answer, gold, equal=equal)


@pytest.mark.parametrize(
    ("answer", "gold", "equal"),
    [
        ("n = 9", "9", True),
        ("9", "n = 9", True),
        ("9 = n", "n = 9", True),
        ("n = 9", "m = 9", False),
        ("f(x) = x^2", "x^2", True),
        ("a + b = 9", "9", True),
        ("9", "a + b = 9", False),
        ("a + b = 0", "0", False),
        ("n = 3, 6", "6, 3", True),
        ("n = 3, 6", "m = 6, 3", False),
        ("0", "x - y = 0", False),
        ("4 + 5 = 9", "9", True),
        (r"x = \frac{9}{7} \approx 1.29", r"\frac97", True),
        ("x = 1, 2", "2, 1", True),
        ("x = 1, y = 2", "(1, 2)", True),
        ("x = 2, y = 1", "(1, 2)", False),
        ("(x, y) = (1, 2)", "(1, 2)", True),
        ("2x - 2y = 4", "y = x - 2", True),
        ("2x - 2y = 4", "y = x + 2", False),
        (r"x \in [1, 2]", "[1, 2]", True),
        (r"P(X = 1) = \frac12", "0.5", True),
        (r"P(A \cup B) = \frac12", r"\frac13", False),
        (r"P(X \le 1) = P(X \le 2) = 1", "1", True),
        (r"\sin\theta = \frac12", "0.5", True),
        (r"\frac{AB}{BC} = \frac23", r"\frac23", True),
        (r"\frac{AB}{2} = 3", "3", False),
        (r"\sqrt{x} = 3", "3", False),
        ("2x = 6", "6", False),
        ("x^2 = 9", "9", False),
    ],
)
def test_rule_8_what_only_names_the_value_is_dropped(answer, gold, equal):
    check(answer, gold, equal=equal)


@pytest.mark.parametrize(
    "text", ["9^{9^{9^{9}}}", r"\frac{1}{0}", r"\text{no } \wp \text{ here}", r"\int_0^1 x^{x^x}dx", "5 6 7"]
)
def test_rule_9_identical_answers_are_equal_without_evaluation(text):
    outcome = compare(text, f" {text} ", Exact())
    assert (outcome.finding, outcome.stage) == (Finding.EQUAL, "string")


@pytest.mark.parametrize(
    ("answer", "gold"), [("1,234", "1, 234"), ("1,234", "1234"), ("100,200,300", "300, 100, 200"), ("2,004", "2004")]
)
def test_a_number_with_commas_may_be_a_list_where_the_other_side_is_one(answer, gold):
    check(answer, gold, equal=True)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("(1,2", "12"), ("1.1(7", "1.17"), (r"\frac{5}{}", "5"), ("-(5", "5"), ("[v for v in (7,)][0]", "7")],
)
def test_what_cannot_be_read_is_unreadable_and_equal_to_nothing_else(answer, gold):
    assert finding(answer, gold) is Finding.UNREADABLE


def test_what_exact_arithmetic_cannot_decide_is_handed_on_and_nothing_else_is():
    for answer, gold in [(r"\sqrt{8}", r"2\sqrt2"), (r"\int_0^1 x\,dx", "0.5"), ("i^2", "-1")]:
        with pytest.raises(NeedsWorker):
            compare(answer, gold, Exact())
    assert compare("1, 2", r"1, 2, \sqrt{8}", Exact()).finding is Finding.DIFFERENT


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').abort()",
        "exec('raise SystemExit')",
        "().__class__.__mro__",
        "lambda: 7",
        "7 if 1 else 7",
        "eval(7)",
        "print(7) or 7",
    ],
)
def test_code_like_text_is_never_run_and_is_not_the_number_in_it(text):
    assert finding(text, "7") is not Finding.EQUAL
