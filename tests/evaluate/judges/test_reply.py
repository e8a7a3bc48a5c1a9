r"""Replies as judges write them; the grammar stands in the docstring of `evaluate/judges/reply.py`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.evaluate.judges.exchange import Reply
from opd.evaluate.judges.reply import Reading, Unread, read_reply, verdict_of
from opd.records.scores import Verdict


def label(text: str) -> str | None:
    reading = read_reply(Reply(text=text))
    return reading.label if isinstance(reading, Reading) else None


def reason(text: str) -> str:
    reading = read_reply(Reply(text=text))
    assert isinstance(reading, Unread), reading
    return reading.reason


@pytest.mark.parametrize("text", ["A", " B", "C\n", "\n\tA \n"])
def test_a_letter_and_nothing_else_is_read_strictly(text: str) -> None:
    assert read_reply(Reply(text=text)) == Reading(label=text.strip(), parsed="strict")  # type: ignore[arg-type]


TOLERANT = [
    ("A.", "A"),
    ("B)", "B"),
    ("(C)", "C"),
    ("[A]", "A"),
    ('"B"', "B"),
    ("**A**", "A"),
    ("`C`.", "C"),
    ("__B__", "B"),
    (r"\boxed{A}", "A"),
    (r"$\boxed{B}$", "B"),
    (r"\boxed{\text{C}}", "C"),
    (r"\boxed{\textbf{A}}.", "A"),
    (r"\boxed{ CORRECT }", "A"),
    (r"**\boxed{B}**", "B"),
    ("CORRECT", "A"),
    ("Incorrect.", "B"),
    ("invalid", "C"),
    ("**INCORRECT**", "B"),
    ("A: CORRECT", "A"),
    ("B - incorrect", "B"),
    ("A (correct)", "A"),
    ("A. Correct.", "A"),
    (r"Final Judgment: \boxed{A}", "A"),
    ("Final Judgement: B", "B"),
    ("**Final Judgment:** C", "C"),
    ("Verdict = A", "A"),
    ("Label: B: INCORRECT", "B"),
    ("The sums agree.\n\nSo the final judgment is **A**.", "A"),
    ("Both are 1/2.\nFinal Judgment: \\boxed{A} - CORRECT", "A"),
    ("A\n\nThe candidate commits to 1/2, as the reference does.", "A"),
    ("The candidate says 3, the reference 4.\n\nB", "B"),
    ("I find the two equal, hence \\boxed{A} is my reply.", "A"),
    ("<think>\nCould be B.\nB\n</think>\n\nA", "A"),
    ("A\nA", "A"),
    ("A\r\n", "A"),
]


@pytest.mark.parametrize(("text", "expected"), TOLERANT)
def test_a_dressed_label_is_read_tolerantly(text: str, expected: str) -> None:
    reading = read_reply(Reply(text=text))
    assert reading == Reading(label=expected, parsed="strict" if text.strip() in "ABC" else "tolerant")  # type: ignore[arg-type]


CONTRADICTORY = [
    "A or B",
    "A\nB",
    "A: INCORRECT",
    "B. Correct",
    r"\boxed{A} \boxed{B}",
    "Final Judgment: \\boxed{B}\nA",
    "Verdict: A\nVerdict: C",
    "A: CORRECT\nB: INCORRECT\nC: INVALID",
    "CORRECT\nINCORRECT",
]


@pytest.mark.parametrize("text", CONTRADICTORY)
def test_a_reply_that_says_two_things_says_nothing(text: str) -> None:
    assert label(text) is None


def test_a_contradiction_is_named_with_its_labels() -> None:
    assert reason("A\nB") == "the reply contradicts itself (A and B): 'A\\nB'"


@pytest.mark.parametrize(
    "text",
    [
        "The answer is correct.",
        "I cannot judge this.",
        "A candidate gave 5.",
        "Apple",
        "a",
        "AB",
        "D",
        "A1",
        r"\boxed{5}",
        r"\boxed{AB}",
        "Final Judgment:",
        "Final Judgment: A more careful look is needed",
        "The verdict is open, A and B are both possible",
        "not correct",
        "incorrectly put",
        "<think>\nA\n",
        "5",
        "yes",
        "{}",
        "<html>502 Bad Gateway</html>",
    ],
)
def test_prose_and_garbage_are_no_verdict(text: str) -> None:
    """H48: the absence of a verdict is not read as one."""
    assert label(text) is None


@pytest.mark.parametrize("text", ["", "  ", "\n\n"])
def test_an_empty_reply_is_no_verdict(text: str) -> None:
    assert reason(text) == "the reply is empty"


def test_a_reply_that_the_limit_cut_off_is_no_verdict() -> None:
    """ "A" may be how "A closer look shows…" begins."""
    reading = read_reply(Reply(text="A", cut_short=True))
    assert isinstance(reading, Unread)
    assert "limit" in reading.reason


def test_only_a_counts_as_correct() -> None:
    assert [verdict_of(one) for one in ("A", "B", "C")] == [Verdict.CORRECT, Verdict.WRONG, Verdict.WRONG]


@given(
    st.sampled_from(["A", "B", "C"]),
    st.sampled_from(["", "**", "`", "(", "$", '"', r"\boxed{"]),
    st.sampled_from(["", "Final Judgment: ", "final judgement is ", "Verdict: ", "Label = "]),
    st.text(alphabet="xyz 0123.\n", max_size=40),
)
def test_any_dress_behind_any_mark_after_any_thoughts_is_the_label(
    letter: str, dress: str, mark: str, thoughts: str
) -> None:
    closing = {"(": ")", r"\boxed{": "}"}.get(dress, dress)
    assert label(f"{thoughts}\n{mark}{dress}{letter}{closing}") == letter


@given(st.text(alphabet="ABC \n.:*", max_size=30))
def test_a_verdict_names_a_letter_that_stands_in_the_reply_and_no_lone_line_denies_it(text: str) -> None:
    """Slow definition of the promise: among the lines that are a bare letter, all are the verdict's."""
    found = label(text)
    bare = {line.strip() for line in text.splitlines() if line.strip() in {"A", "B", "C"}}
    if len(bare) > 1:
        assert found is None
    if found is not None:
        assert found in text
        assert bare <= {found}


@pytest.mark.parametrize(
    "text",
    [
        "A" + " " * 200_000 + "x",
        "judgment " * 50_000,
        "\\boxed{" * 50_000,
        "*" * 200_000,
        "A" + "(" * 200_000,
        "A" + "*" * 30_000 + "x",
        ("final" + " " * 500) * 400,
        "A\n" * 100_000,
    ],
)
def test_no_reply_is_long_to_read(text: str) -> None:
    started = time.process_time()
    read_reply(Reply(text=text))
    assert time.process_time() - started < 2.0


def test_a_failure_shows_both_ends_of_a_long_reply() -> None:
    shown = reason("start " + "x" * 10_000 + " end")
    assert "start" in shown
    assert "end" in shown
    assert len(shown) < 200
