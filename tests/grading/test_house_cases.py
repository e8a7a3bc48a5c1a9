"""The house rules on our own cases, of the kinds of the shared ones; each says why it is expected.

`reference` is what the public rule grader said of the case when it was run on it; where there is a `reference_why`,
that follows by hand from the two steps that it publishes.
"""

import json
import threading
from collections import Counter
from pathlib import Path

import pytest

from opd.grading.grader import Grader
from opd.grading.pool import Limits

ROWS = [json.loads(line) for line in Path(__file__).with_name("house_cases.jsonl").read_text("utf-8").splitlines()]
KINDS = sorted({row["kind"] for row in ROWS})


LIMITS = Limits(workers=1, seconds=60.0)  # not a test of how busy the machine is


@pytest.fixture(scope="module")
def grader():
    with Grader(limits=LIMITS) as grader:
        yield grader


@pytest.fixture(scope="module")
def reference():
    with Grader(grader="reference", limits=LIMITS) as grader:
        yield grader


def of_kind(kind):
    return [row for row in ROWS if row["kind"] == kind]


def graded(grader, rows):
    return grader.grade([(row["response"], row["gold"], False) for row in rows])


def test_the_cases_are_of_37_kinds_and_each_is_there_once():
    assert len(KINDS) == 37
    assert max(Counter(row["id"] for row in ROWS).values()) == 1
    assert max(Counter((row["response"], row["gold"]) for row in ROWS).values()) == 1


def test_the_documentation_counts_the_cases():
    page = (Path(__file__).parents[2] / "docs" / "grading.md").read_text(encoding="utf-8")
    assert f"has {len(ROWS)} cases" in page
    assert f"the {len(ROWS)} cases above" in page


@pytest.mark.parametrize("kind", KINDS)
def test_every_case_comes_to_its_expected_verdict_and_kills_nothing(grader, kind):
    rows = of_kind(kind)
    judgements = graded(grader, rows)
    wrong = [row["id"] for row, one in zip(rows, judgements, strict=True) if one.verdict.correct != row["expected"]]
    assert wrong == []
    assert all(one.verdict.settled for row, one in zip(rows, judgements, strict=True) if row["gold"].strip("$"))
    assert grader.retries == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_grader_says_of_every_case_what_the_original_said(reference, kind):
    rows = of_kind(kind)
    judgements = graded(reference, rows)
    other = [row["id"] for row, one in zip(rows, judgements, strict=True) if one.verdict.correct != row["reference"]]
    assert other == []


def test_the_verdicts_that_were_derived_follow_from_the_two_steps_of_the_original():
    """Texts without a left side of at most two characters, then sympy's parser on gold minus answer, within a try."""
    from sympy import SympifyError, simplify
    from sympy.parsing.sympy_parser import parse_expr

    def text(answer):
        left, equals, right = answer.partition("=")
        return right if equals and len(left) <= 2 else answer

    def is_zero(difference):
        try:
            return simplify(parse_expr(difference)) == 0
        except (SympifyError, SyntaxError, TypeError):
            return False

    assert is_zero("(2)-(1+1)")  # the second step finds what is there to find
    derived = [row for row in ROWS if "reference_why" in row]
    assert [row["id"] for row in derived] == ["h798", "h799", "h800", "h801", "h802"]
    for row in derived:
        answer = row["response"].partition(r"\boxed{")[2].removesuffix("}$.")
        found = text(answer) == text(row["gold"]) or is_zero(f"({row['gold']})-({answer})")
        assert found is row["reference"], row["id"]


def test_the_cases_of_threads_come_to_the_same_in_a_thread_E70():
    found = []

    def work():
        with Grader(limits=LIMITS) as grader:
            found.extend(one.verdict.correct for one in graded(grader, of_kind("thread_signal")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [row["expected"] for row in of_kind("thread_signal")]
