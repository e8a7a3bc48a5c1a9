"""Control files that say something else than the receipt beside them: named, and resolved by what came last."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from opd.protocol.audit.evidence import Evidence, Held
from opd.protocol.audit.states import said
from opd.records.audits import Finding, Verdict

Say = Callable[[str, Evidence], Finding]


def saying(evidence: Evidence, *files: tuple[str, dict[str, Any]]) -> Evidence:
    states = tuple(Held(value=value, file=name, sha256="a" * 64, bytes=9) for name, value in files)
    return replace(evidence, states=states)


CONTROL = ("formal/attempt-001/control.json", {"status": "Running", "attempt_status": "terminal_behavior"})
MANIFEST = ("formal/attempt-001/manifest.json", {"phases": [{"name": "score", "score": {"status": "not_created"}}]})


def test_a_control_file_that_still_says_running_is_named_and_resolved_by_the_receipt(
    evidence: Evidence, finding: Say
) -> None:
    """faults H8: two sources of the truth."""
    assert finding("contradictions", evidence).verdict is Verdict.NONE_FOUND
    found = finding("contradictions", saying(evidence, CONTROL))
    assert found.verdict is Verdict.CONFIRMED
    assert found.sentence == (
        "formal/attempt-001/control.json still says status: 'running', and formal/attempt-001 ended as completed"
    )
    assert found.protected is not None
    assert found.protected.startswith("the same file says attempt_status: 'terminal_behavior'; ")
    assert "formal/attempt-001/receipt.json (completed, 2026-07-14T12:00:00.000Z)" in found.protected
    assert next((one.file, one.pointer) for one in found.evidence) == ("formal/attempt-001/control.json", "/status")


def test_a_manifest_that_knows_of_no_score_stands_against_the_finals_that_there_are(
    evidence: Evidence, finding: Say
) -> None:
    found = finding("contradictions", saying(evidence, MANIFEST))
    assert found.verdict is Verdict.CONFIRMED
    assert "says /phases/0/score/status: 'not_created'" in found.sentence
    assert "final/step-000060/receipt.json" in found.sentence
    assert found.protected is not None
    unscored = replace(saying(evidence, MANIFEST), finals=())
    assert finding("contradictions", unscored).verdict is Verdict.NONE_FOUND, "then it says what is so"


def test_two_contradictions_are_counted_with_how_many_are_resolved(evidence: Evidence, finding: Say) -> None:
    both = finding("contradictions", saying(evidence, CONTROL, MANIFEST))
    assert both.sentence.startswith("2 contradictions, 2 of them resolved: ")
    bare = saying(evidence, CONTROL)
    bare = replace(
        bare, verification=bare.verification.model_copy(update={"contradictions": ("formal/attempt-003 is gone",)})
    )
    one = finding("contradictions", bare)
    assert one.sentence.startswith("2 contradictions, 1 of them resolved: ")
    assert one.protected is None, "nothing resolves what the protocol's own records leave open"


@pytest.mark.parametrize(
    "value",
    [
        {"status": "completed"},
        {"status": None},
        {"status": ["running"]},
        {"state": {"step": 12}},
        {"name": "running", "status": "done"},
        {"phases": {"train": {"status": "not_created"}}},
    ],
)
def test_what_says_nothing_else_than_the_receipt_is_no_contradiction(
    value: dict[str, Any], evidence: Evidence, finding: Say
) -> None:
    changed = saying(evidence, ("formal/attempt-001/x.json", value))
    assert finding("contradictions", changed).verdict is Verdict.NONE_FOUND


def test_a_file_nested_without_end_is_read_to_a_depth_and_no_further(evidence: Evidence, finding: Say) -> None:
    deep: Any = {"status": "running"}
    for _ in range(50):
        deep = {"phases": deep}
    assert finding("contradictions", saying(evidence, ("formal/attempt-001/x.json", deep))).verdict is (
        Verdict.NONE_FOUND
    )


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("status.txt", "running\n", {"status": "running"}),
        ("status.txt", "status: running\n", {"status": "running"}),
        ("c.yaml", "---\nrun:\n  a: x\nstatus: 'running'  # by hand\n", {"run": {"a": "x"}, "status": "running"}),
        ("m.yml", "phases:\n  score:\n    status: not_created\n", {"phases": {"score": {"status": "not_created"}}}),
        ("s.txt", "state = done\n", {"state": "done"}),
        ("notes.txt", "The status: running late.\nIt is still going.\n", {}),
        ("status.txt", "We saw that status: running\nstood there.", {}),
    ],
)  # fmt: skip
def test_a_status_is_read_from_lines_of_text_as_from_json(path: str, text: str, value: dict[str, Any]) -> None:
    assert said(text, PurePosixPath(path)) == value


def test_a_text_file_that_still_says_running_is_named_as_a_whole(evidence: Evidence, finding: Say) -> None:
    found = finding("contradictions", saying(evidence, ("formal/attempt-001/status.txt", {"status": "running"})))
    assert found.verdict is Verdict.CONFIRMED
    assert (found.evidence[0].file, found.evidence[0].pointer) == ("formal/attempt-001/status.txt", "")
