"""The reference grader: recorded verdicts of the original, its two normal forms, and that nothing runs as code.

What LaTeX comes to in plain characters was recorded from pylatexenc 2.10, the converter of the original.
"""

import json
from pathlib import Path

import pytest

from opd.grading.equality import Finding, NeedsWorker
from opd.grading.grader import Grader
from opd.grading.pool import Limits
from opd.grading.reference.forms import hendrycks_form, prm800k_form
from opd.grading.reference.formula import same_value
from opd.grading.reference.plaintext import Unplain, plain
from opd.grading.reference.rules import compare, extract
from opd.grading.trees import Unreadable
from opd.records.scores import Verdict

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "grader_cases.jsonl"
ROWS = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()] if CASES.is_file() else []
KINDS = sorted({row["kind"] for row in ROWS}) or ["all kinds"]


@pytest.fixture(scope="module")
def grader():
    with Grader(grader="reference", limits=Limits(workers=1, seconds=60.0)) as grader:
        yield grader


def says(answer, gold):
    return compare(answer, gold, same_value).finding is Finding.EQUAL


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_verdict_of_the_original_is_met(shared, grader, kind):
    rows = [row for row in ROWS if row["kind"] == kind]
    judgements = grader.grade([(row["response"], row["gold"], False) for row in rows])
    other = [
        row["id"]
        for row, one in zip(rows, judgements, strict=True)
        if one.verdict.correct != row["reference_rule_grader"]
    ]
    assert other == []
    assert {one.by for one in judgements} == {"reference"}


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (r"\boxed{12}", "12"),
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}} more }", r"\frac{1}{2}"),
        (r"\boxed{12} in \boxed", None),
        (r"\boxed 7", None),
        (r"\boxed {7}", None),
        (r"\fbox{7}", None),
        (r"\boxed{7", None),
        (r"\boxed{\}}", "\\"),
        (r"\boxed{ }", None),
        ("7", None),
    ],
)
def test_its_answer_is_the_last_box_with_braces_and_every_brace_counts(response, text):
    assert extract(response).text == text


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (r"\dfrac12", r"\frac{1}{2}"),
        (r"\tfrac{1}b", r"\frac{1}b"),
        (r"\frac1{72}", r"\frac{1}{72}"),
        ("0.5", r"\frac{1}{2}"),
        (".5 ", r"\frac{1}{2}"),
        ("3/4", r"\frac{3}{4}"),
        ("03/4", "03/4"),
        ("a/b", "a/b"),
        (r"\sqrt3 + \sqrt{2}", r"\sqrt{3}+\sqrt{2}"),
        (r"5\text{ cm}", "5"),
        (r"5\text{cm}", r"5\text{cm}"),
        (r"\text{5 cm}", "5cm"),
        (r"x = 7", "7"),
        ("area=7", "area=7"),
        (r"90^{\circ}", "90"),
        (r"\left(1,\!000\right)", "(1,000)"),
        (r"7\%", "7"),
        (r"\$7", "7"),
        (r"\frac", r"\frac"),  # the original stumbles over these, and goes on with the text as it is
        (r"2\sqrt", r"2\sqrt"),
        (r"1\text{ a}\text{ b}", r"1\text{ a}\text{ b}"),
    ],
)
def test_hendrycks_normal_form(text, form):
    assert hendrycks_form(text) == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (r"1\frac{4}{5}", "1+4/5"),
        (r"-1\frac12", "-1+1/2"),
        (r"\frac{x+4}{9}", "x+4/9"),
        (r"2\sqrt{3}", "2sqrt(3)"),
        (r"\sqrt[3]{8}", "sqrt(8)"),
        (r"\text{East}", "east"),
        (r"12\text{ inches}^2", "12^2"),
        ("12 inches^2", "12"),
        (r"3 \text{ and } 5", "3,5"),
        ("3 and 5", "3,5"),
        ("52_8", "528"),
        ("1,234.0", "1234"),
        ("4.00000001", "4"),
        ("5 million", "5*10^6"),
        (r"\pi \cup \infty", "piuinf"),
        (r"{7}", "7"),
        (r"- 7", "-7"),
    ],
)
def test_prm800k_normal_form(text, form):
    assert prm800k_form(text) == form


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\frac\pi2", "π/2"),
        (r"2 \frac 59", "2 5/9"),
        (r"\foo{x}y", "xy"),
        (r"\mathbf{x1}", "𝐱1"),
        (r"\mathbb R", "ℝ"),
        (r"12\mbox{ in}^2", "12^2"),
        (r"x^{10}_{2}", "x^10_2"),
        (r"\bar{x}", "x̅"),
        (r"\overline{3}", "3"),
        (r"\{1,\,2\}", "{1, 2}"),
        (r"\begin{pmatrix} 1 & 22 \\ 3 & 4 \end{pmatrix}", "[ 1 22; 3 4 ]"),
        (r"\begin{array}{cc} 1 & 2 \end{array}", "[ 1 2 ]"),
        (r"\binom{3}{2}", "32"),
        (r"{17 \over 50}", "17 50"),
        (r"\textcolor{red}{x}", "x"),
        ("a}b", "ab"),
        ("{a", "a"),
        ("7\\", "7"),
    ],
)
def test_latex_in_plain_characters(latex, text):
    assert " ".join(plain(latex).split()) == text  # the original sets matrices in columns, with more blanks


@pytest.mark.parametrize("latex", [r"\sqrt", r"\frac{1}", "{" * 100])
def test_a_missing_argument_or_braces_without_end_are_said(latex):
    with pytest.raises(Unplain):
        plain(latex)


@pytest.mark.parametrize(
    ("answer", "gold", "correct"),
    [
        ("6/8", "3/4", False),  # an unreduced fraction
        ("0.75", "3/4", True),
        (r"\sqrt{4}", "2", False),  # an integer needs an integer
        ("2,1", "1,2", False),  # a list has an order
        ("(1,2)", "(1, 2)", True),
        ("[1,2)", "(1,2)", False),
        ("(0.5,2)", "(1/2,2)", True),
        ("x+1", "1+x", True),
        ("x+y+z", "z+y+x", False),  # three letters
        ("2^{10}x", "1024x", False),  # too large a power
        (r"12\text{ km}", r"12\text{ cm}", True),
        ("no", "on", True),  # a product of letters
        ("2.0000000001", "2", True),
    ],
)
def test_what_it_accepts_and_refuses_mistakes_included(answer, gold, correct):
    assert says(answer, gold) is correct


@pytest.mark.parametrize(
    ("gold", "given", "same"),
    [
        ("2sqrt(3)", "sqrt(12)", True),
        ("1/2x", "x/2", True),
        ("x(x+1)", "x^2+x", True),
        ("-x^2", "(-x)^2", False),
        ("2^-1", "0.5", True),
        ("3!", "6", True),
        ("5!!", "15", True),
        ("ln(4)", "2ln(2)", True),
        ("2pi", "pi*2", True),
        ("x_1+1", "1+x_1", True),
        ("e^(pi*i)", "-1", False),  # every letter is a variable
        ("", "1", False),
        ("1", "(1", False),
        ("1", "1)", False),
        ("x", "ln", False),
        ("x=1", "x=1", False),
        ("1:2", "1:2", False),
        ("oo", "2oo", False),  # sympy: not a number
        ("1e3", "1000", True),
        ("1_000", "1000", True),
    ],
)
def test_formulas_are_read_as_the_originals_parser_reads_them(gold, given, same):
    assert same_value(gold, given) is same


@pytest.mark.parametrize("given", ["9**9**9**9", "99999!", "(" * 100, "-" * 500 + "1", "1+" * 600 + "1", "1e9999x"])
def test_what_is_too_large_to_compute_is_unreadable_before_any_work_is_done(given):
    with pytest.raises(Unreadable):
        same_value("1/3", given)


SPY = "open({place!r},'w')"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').mkdir({place!r})",
        "().__class__.__mro__[1].__subclasses__()",
        'exec("import os; os.mkdir({place!r})")',
        "(lambda:open({place!r},'w'))()",
        "open({place!r},'w')",
        "a.b",
        "all",
        "id(1)",
        "'a'*9",
        "[1][0]",
        "print",
    ],
)
def test_no_text_is_run_as_code(text, tmp_path):
    """First that the condition can occur: the spy, run as Python, leaves a file."""
    place = tmp_path / "was_here"
    eval(SPY.format(place=str(place))).close()
    assert place.exists()
    place.unlink()
    payload = text.format(place=str(place)) if "{place" in text else text
    assert same_value("1", payload) is False
    assert same_value(payload, "1") is False
    assert list(tmp_path.iterdir()) == []


def test_text_decides_without_a_process_and_values_need_one():
    with Grader(grader="reference", limits=Limits(workers=1)) as grader:
        grader.grade([(r"\boxed{3/4}", r"\frac34", False), (r"\boxed{5}", "6", False)] * 3)
        assert grader.process_ids == ()
        judgements = grader.grade([(r"\boxed{\sqrt{12}}", r"2\sqrt{3}", False)])
        assert judgements[0].verdict is Verdict.CORRECT
        assert len(grader.process_ids) == 1
    with pytest.raises(NeedsWorker):
        compare(r"\sqrt{12}", r"2\sqrt3")


def test_its_judgements_have_the_verdicts_of_all_graders(grader):
    responses = [r"\boxed{5}", r"\boxed{6}", "5", "5", r"<think>\boxed{5}", r"\boxed{" + "7" * 5000 + "}"]
    cut = [False, False, False, True, False, False]
    judgements = grader.grade([(response, "5", short) for response, short in zip(responses, cut, strict=True)])
    assert [one.verdict for one in judgements] == [
        Verdict.CORRECT,
        Verdict.WRONG,
        Verdict.NO_ANSWER,
        Verdict.CUT_SHORT,
        Verdict.CORRECT,
        Verdict.UNREADABLE,
    ]
    assert [one.inside_reasoning for one in judgements] == [False, False, False, False, True, False]


@pytest.mark.patient
def test_what_sympy_never_finishes_is_a_failure_of_the_grader_and_not_a_wrong_answer_E70():
    endless = "*".join(f"(x^9+y+{number})^9" for number in range(2, 10))
    with Grader(grader="reference", limits=Limits(workers=1, seconds=1.0)) as grader:
        failed, after = grader.grade(
            [(rf"\boxed{{{endless}}}", "1/3x", False), (r"\boxed{\sqrt{12}}", r"2\sqrt{3}", False)]
        )
        assert (failed.verdict, failed.reason) == (Verdict.GRADER_FAILED, "killed: it took longer than 1 s")
        assert after.verdict is Verdict.CORRECT
        assert grader.retries == 1
