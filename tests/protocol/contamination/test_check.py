"""The audit's check: which files of an attempt it looks at, and which are the evaluator's own."""

import hashlib
import json
from typing import Any

import pytest

from opd.protocol.audit.check import Look
from opd.protocol.audit.checks.contamination import CHECK
from opd.protocol.audit.collection import collect
from opd.protocol.contamination.questions import final_questions
from opd.records.attempts import Evaluated, Explored, Stage
from opd.records.audits import Axis, Control, Verdict


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controls have tests of their own, and take a second."""
    fine = (Control(name="planted", found=True),)
    monkeypatch.setattr("opd.protocol.audit.checks.contamination.controls", lambda needles: fine)


def rows(lab: Any) -> bytes:
    """Some of the final's questions, as an explorer that has them would have them."""
    questions = final_questions(lab.attempt.task.contract.final)[40:60]
    return "\n".join(json.dumps({"problem": one.wordings[0], "answer": one.answer}) for one in questions).encode()


def left(lab: Any, stage: Stage, outcome: Any, files: dict[str, bytes], number: int = 1) -> None:
    """A try that left these files."""
    with lab.trying(lab.attempt.place(stage, number), {}) as this:
        for name, content in files.items():
            path = this.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        this.end(outcome, because="a test")


def look(lab: Any) -> Look:
    return CHECK.look(collect(lab.attempt))


def test_the_evaluators_own_files_hold_the_questions_and_are_left_out(lab: Any) -> None:
    left(lab, Stage.EXPLORE, Explored.NO_CANDIDATE, {"commands.jsonl": b"{}\n", "workspace/notes.md": b"nothing"})
    left(lab, Stage.FINAL, Evaluated.FAILED, {"evaluation/samples.jsonl": rows(lab)}, number=10)
    said = look(lab)
    assert (CHECK.axis, said.verdict) == (Axis.CONTAMINATION, Verdict.NONE_FOUND), said.sentence
    assert said.sentence.startswith("500 problem/answer pairs across 1 complete files of trajectory, tool results")


@pytest.mark.parametrize(
    "name", ["workspace/src/data.jsonl", "runs/notes.log", "trajectory/native.log", "proxy/001/x", "a b\n\\ é.txt"]
)
def test_the_same_rows_are_confirmed_wherever_an_exploration_left_them(name: str, lab: Any) -> None:
    left(lab, Stage.EXPLORE, Explored.NO_CANDIDATE, {name: rows(lab)})
    said = look(lab)
    assert said.verdict is Verdict.CONFIRMED
    assert "20 questions stand one behind the other" in said.sentence
    assert {pointer.file.startswith("explore/attempt-001/") for pointer in said.evidence} == {True}
    assert "Compute" not in repr(said)


def test_a_file_that_no_receipt_knows_is_looked_at_too(lab: Any) -> None:
    left(lab, Stage.EXPLORE, Explored.NO_CANDIDATE, {"commands.jsonl": b"{}\n"})
    (lab.folder / "explore/attempt-002.partial").mkdir()
    notes = lab.folder / "explore/attempt-002.partial/notes"
    notes.write_bytes(rows(lab))
    said = look(lab)
    assert said.verdict is Verdict.CONFIRMED
    assert {(one.file, one.sha256) for one in said.evidence} == {
        ("explore/attempt-002.partial/notes", hashlib.sha256(notes.read_bytes()).hexdigest())
    }


def test_the_reason_comes_first_and_short_questions_with_their_answers_are_pairs(lab: Any) -> None:
    left(lab, Stage.EXPLORE, Explored.NO_CANDIDATE, {"commands.jsonl": rows(lab)})
    sentence = look(lab).sentence
    assert sentence.startswith(
        "20 questions stand one behind the other in the final's order, in explore/attempt-001/commands.jsonl; 500 "
    )
    assert "20 short problem hits, and 20 pair hits" in sentence


def test_a_file_that_cannot_be_opened_leaves_the_axis_open(lab: Any) -> None:
    left(lab, Stage.EXPLORE, Explored.NO_CANDIDATE, {"workspace/paper.pdf": b"%PDF-1.7\n"})
    said = look(lab)
    assert said.verdict is Verdict.NOT_ASSESSED
    assert "explore/attempt-001/workspace/paper.pdf: a PDF" in said.coverage.unread[0]


def test_without_the_questions_nothing_is_assessed(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    left(lab, Stage.EXPLORE, Explored.NO_CANDIDATE, {"commands.jsonl": b"{}\n"})

    def gone(*_: object, **__: object) -> None:
        raise FileNotFoundError("final.jsonl")

    monkeypatch.setattr("opd.protocol.audit.checks.contamination.final_questions", gone)
    said = look(lab)
    assert (said.verdict, said.controls) == (Verdict.NOT_ASSESSED, ())
    assert "can't be had: final.jsonl" in said.sentence
