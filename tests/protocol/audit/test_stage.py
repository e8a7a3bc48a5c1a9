"""The audit as a stage: made of all that is sealed, sealed itself; of an attempt that was tampered with as well."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from opd.cli.main import run
from opd.protocol.attempts.lease import held
from opd.protocol.attempts.resuming import resume
from opd.protocol.attempts.running import audit_anew
from opd.protocol.attempts.verify import verify
from opd.protocol.audit.catalogue import checks
from opd.records.attempts import Explored, Replayed, Stage
from opd.records.audits import Audit, Axis, Finding, Verdict
from opd.records.errors import AnswerIsNo
from opd.records.files import sha256
from opd.records.receipts import Receipt, begin
from opd.records.settings import read


def audited(lab: Any, *, cancelled: bool = False) -> Receipt:
    with held(lab.folder) as holder:
        return audit_anew(lab.attempt, holder, say=lambda _: None, cancelled=lambda: cancelled)


def finding(lab: Any, check: str, number: int = 1) -> Finding:
    return read(Finding, lab.folder / f"audit/attempt-{number:03d}/findings/{check}.json")


def test_an_audit_is_sealed_with_every_receipt_that_it_has_seen_and_a_finding_of_each_check(lab: Any) -> None:
    lab.whole()
    names = ("explore/attempt-001", "submission", "formal/attempt-001", "formal/attempt-002", "rulings/001")
    judged = tuple(f"{stage}/step-{step:06d}" for stage in ("validation", "final") for step in (10, 20))
    receipt = audited(lab)
    assert receipt.outcome == "assessed"
    seen = {name: digest for name, digest in receipt.made_from.items() if name.endswith("receipt.json")}
    assert seen == {f"{name}/receipt.json": sha256(lab.folder / name / "receipt.json") for name in (*names, *judged)}
    made = read(Audit, lab.folder / "audit/attempt-001/outcome.json")
    assert [one.check for one in made.findings] == list(checks())
    assert list(made.findings) == [finding(lab, name) for name in checks()]
    assert lab.status.contradictions == ()
    assert lab.status.verdicts == {axis: made.of(axis) for axis in Axis}
    found = verify(lab.attempt)
    assert found.holds, found.text()
    assert [link.holds for link in found.lineage if link.name == "receipts → audit/attempt-001"] == [True]


def test_a_tampered_attempt_is_audited_and_the_audit_says_so(lab: Any) -> None:
    lab.whole()
    path = lab.folder / "final/step-000020/outcome.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace("1500", "1999"))
    assert lab.status.contradictions, "the bad condition is there"
    assert audited(lab).outcome == "assessed"
    said = finding(lab, "lineage")
    assert said.verdict is Verdict.CONFIRMED
    assert any("step-000020/outcome.json: " in detail and "sha256 was" in detail for detail in said.details)
    assert "final/step-000020/outcome.json: not as its receipt says" in said.coverage.unread


def test_where_the_log_is_broken_no_audit_can_be_sealed_and_nothing_is_written(lab: Any) -> None:
    lab.whole()
    lines = lab.attempt.events.path.read_bytes().splitlines(keepends=True)
    lab.attempt.events.path.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    with pytest.raises(AnswerIsNo, match="no audit can be sealed, for the log is not whole"):
        audited(lab)
    assert not (lab.folder / "audit").exists()


def test_an_exploration_that_handed_in_nothing_is_audited_too(lab: Any) -> None:
    lab.explore(Explored.NO_CANDIDATE)
    assert audited(lab).outcome == "assessed"
    said = finding(lab, "lineage")
    assert (said.verdict, said.details[0]) == (
        Verdict.NONE_FOUND,
        "nothing was handed in: the chain ends with the exploration",
    )
    assert finding(lab, "budget_use").verdict is Verdict.NOT_ASSESSED


def test_a_stopped_audit_is_sealed_as_interrupted_and_another_is_due(lab: Any) -> None:
    lab.whole()
    with pytest.raises(AnswerIsNo, match="the audit was stopped"):
        audited(lab, cancelled=True)
    assert lab.receipt("audit/attempt-001").outcome == Replayed.INTERRUPTED
    assert [one.stage for one in lab.status.due] == [Stage.AUDIT]


def test_an_audit_that_was_killed_is_refused_until_it_is_sealed_and_then_another_is_made(lab: Any) -> None:
    lab.whole()
    begin(lab.folder / "audit/attempt-001")
    assert lab.status.state == "interrupted"
    with pytest.raises(AnswerIsNo, match="audit/attempt-001 was left unfinished; `opd attempt resume` seals it"):
        audited(lab)
    with held(lab.folder) as holder:
        resume(lab.attempt, holder, say=lambda _: None)
    assert lab.receipt("audit/attempt-001").outcome == Replayed.INTERRUPTED
    assert lab.attempt.next(Stage.AUDIT).name == "audit/attempt-002"


def test_nothing_that_is_sealed_is_nothing_to_audit(lab: Any) -> None:
    with pytest.raises(AnswerIsNo, match="nothing is sealed yet that could be audited"):
        audited(lab)


@pytest.mark.journey
def test_the_command_prints_a_verdict_an_axis_and_says_no_only_when_it_is_strict(
    lab: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.explore(Explored.NO_CANDIDATE)
    judge = f"{sys.executable} -c 'print(input())'"
    assert run(["attempt", "audit", str(lab.folder), "--judge", judge]) == 0
    said = capsys.readouterr().out
    assert all(f" {axis} " in said for axis in Axis)
    assert "audit/attempt-001: sealed" in said
    assert f"advice of {judge}: none, it did not answer the question" in said
    assert run(["attempt", "audit", str(lab.folder), "--strict", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["findings"]
    assert "not none_found" in err
    assert (lab.folder / "audit/attempt-002").is_dir(), "it was made and sealed all the same"
    assert run(["attempt", "status", str(lab.folder)]) == 0
    assert "audit: fixed_inputs " in capsys.readouterr().out


@pytest.mark.parametrize("judge", ["nosuchprogram --now", "", "'half"])
def test_a_judge_that_is_no_program_is_refused_before_anything_is_sealed(
    lab: Any, judge: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.explore(Explored.NO_CANDIDATE)
    assert run(["attempt", "audit", str(lab.folder), "--judge", judge]) == 2
    assert f"--judge {judge!r}: " in capsys.readouterr().err
    assert not (lab.folder / "audit").exists()


def test_reading_an_attempt_leaves_no_trace_in_it(lab: Any) -> None:
    from opd.protocol.audit.collection import collect

    lab.whole()
    before = {path: path.lstat().st_mtime_ns for path in Path(lab.folder).rglob("*")}
    collect(lab.attempt)
    assert {path: path.lstat().st_mtime_ns for path in Path(lab.folder).rglob("*")} == before
