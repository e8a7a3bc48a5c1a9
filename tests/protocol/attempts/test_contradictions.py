"""What was changed by hand does not fit together any more, and is said; nothing is chosen silently."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.records.attempts import Audited, Explored, Liveness, Replayed, Reported, Stage
from opd.records.audits import Audit, Axis, Coverage, Finding, Verdict
from opd.records.files import COMPLETE, canonical_json, digest, sha256, write_json
from opd.records.receipts import RECEIPT, Sealed

FINDING = Finding(
    check="lineage", axis=Axis.LINEAGE, verdict=Verdict.NONE_FOUND, sentence="all holds",
    coverage=Coverage(files=1, bytes=1), controls=(),
)  # fmt: skip


def _reseal(folder: Path) -> None:
    """Mark again what was changed, as somebody would who knows how."""
    kind = json.loads((folder / RECEIPT).read_text())["kind"]
    write_json(folder / COMPLETE, Sealed(kind=kind, receipt_sha256=sha256(folder / RECEIPT)).resolved())


def _change_receipt(folder: Path, **changes: Any) -> None:
    receipt = json.loads((folder / RECEIPT).read_text())
    write_json(folder / RECEIPT, receipt | changes)
    _reseal(folder)


def _damage_mark(lab: Any) -> None:
    (lab.folder / "final/step-000020" / COMPLETE).write_text("{}")


def _better_score(lab: Any) -> None:
    path = lab.folder / "final/step-000010/outcome.json"
    write_json(path, json.loads(path.read_text()) | {"mean": 0.99})


def _better_outcome(lab: Any) -> None:
    _change_receipt(lab.folder / "formal/attempt-001", outcome="infra_failed")


def _replace_submission(lab: Any) -> None:
    other = type(lab)(lab.folder.with_name("other"))
    other.submit(patch=b"another")
    shutil.rmtree(lab.folder / "submission")
    shutil.copytree(other.folder / "submission", lab.folder / "submission")


def _another_task(lab: Any) -> None:
    folder = lab.folder / "validation/step-000010"
    made_from = json.loads((folder / RECEIPT).read_text())["made_from"]
    _change_receipt(folder, made_from=made_from | {"task": "0" * 64})


def _cut_log(lab: Any) -> None:
    lines = lab.attempt.events.path.read_bytes().splitlines(keepends=True)
    lab.attempt.events.path.write_bytes(b"".join(lines[:-1]))


def _change_log(lab: Any) -> None:
    path = lab.attempt.events.path
    path.write_bytes(path.read_bytes().replace(b'"infrastructure"', b'"candidate"'))


def _forge_log(lab: Any) -> None:
    """A whole chain, made anew with one line changed."""
    path, before, made = lab.attempt.events.path, "0" * 64, []
    for line in path.read_bytes().splitlines():
        event = json.loads(line) | {"prev_sha256": before}
        if event["kind"] == "created":
            event["data"]["files"] = {}
        del event["own_sha256"]
        made.append(canonical_json(event | {"own_sha256": digest(event)}).encode())
        before = hashlib.sha256(made[-1]).hexdigest()
    path.write_bytes(b"\n".join(made) + b"\n")


def _cut_more_of_the_log(lab: Any) -> None:
    _cut_log(lab)
    _cut_log(lab)


def _no_log(lab: Any) -> None:
    lab.attempt.events.path.unlink()


def _twice(lab: Any) -> None:
    shutil.copytree(lab.folder / "formal/attempt-002", lab.folder / "formal/attempt-002.partial")


def _swap(lab: Any) -> None:
    one, two = lab.folder / "final/step-000010", lab.folder / "final/step-000020"
    one.rename(lab.folder / "aside")
    two.rename(one)
    (lab.folder / "aside").rename(two)


def _final_of_an_invalid_one(lab: Any) -> None:
    folder = lab.folder / "validation/step-000010"
    _change_receipt(folder, outcome="invalid")


def _other_kind(lab: Any) -> None:
    shutil.rmtree(lab.folder / "validation/step-000010")
    shutil.copytree(lab.folder / "final/step-000010", lab.folder / "validation/step-000010")


def _change_ruling(lab: Any) -> None:
    path = lab.folder / "rulings/001/ruling.json"
    write_json(path, json.loads(path.read_text()) | {"verdict": "candidate"})


FORGERIES = {
    _damage_mark: "final/step-000020: its mark does not fit its receipt",
    _better_score: "final/step-000010: its outcome.json is not what its receipt says",
    _better_outcome: "formal/attempt-001/receipt.json is not the one that the log says was sealed",
    _replace_submission: "formal/attempt-001 was made from another submission/receipt.json than the one",
    _another_task: "validation/step-000010 was made for another task",
    _cut_more_of_the_log: "final/step-000020/receipt.json names line",
    _change_log: "the log is not whole",
    _forge_log: "of a log that is not this one",
    _no_log: "the log is gone",
    _twice: "formal/attempt-002 is there twice: in place, and as begun",
    _swap: "final/step-000010 is about another artifact than the one that the formal try left",
    _final_of_an_invalid_one: "final/step-000010: its artifact was not found valid",
    _other_kind: "validation/step-000010 holds the receipt of a final",
    _change_ruling: "rulings/001: its ruling.json is not what its receipt says",
}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__.strip("_"))
def test_what_was_changed_by_hand_does_not_fit_together(lab: Any, forge: Callable[[Any], None]) -> None:
    lab.whole()
    assert (lab.status.contradictions, lab.status.state) == ((), "evaluated")
    forge(lab)
    found = lab.status
    assert any(FORGERIES[forge] in one for one in found.contradictions), found.contradictions
    assert found.state == "inconsistent"


@pytest.mark.parametrize("changed", ["patch_sha256", "checkout_sha256"])
def test_a_formal_try_of_another_patch_or_tree_is_a_contradiction(lab: Any, changed: str) -> None:
    lab.explore()
    lab.formal(steps=(10,), **{changed: "0" * 64})
    says = {"patch_sha256": "ran another patch", "checkout_sha256": "began with another tree"}[changed]
    assert len(lab.status.contradictions) == 1
    assert says in lab.status.contradictions[0]


def test_a_submission_for_another_base_is_a_contradiction(lab: Any) -> None:
    lab.submit(base_sha256="0" * 64)
    assert "its patch applies to another tree" in lab.status.contradictions[0]


@pytest.mark.parametrize("changes", [{"protocol_sha256": "3" * 64}, {"evaluator_sha256": "3" * 64}])
def test_finals_by_two_protocols_are_a_contradiction(lab: Any, changes: dict[str, str]) -> None:
    """faults H49."""
    lab.explore()
    lab.formal(steps=(10, 20))
    for step in (10, 20):
        lab.validate(step)
    lab.final(10, 0.5)
    assert lab.status.contradictions == ()
    lab.final(20, 0.5, **changes)
    assert "the finals were not all taken by one protocol and one evaluator" in lab.status.contradictions


def test_a_second_ruling_changes_nothing_and_is_a_contradiction(lab: Any) -> None:
    lab.explore()
    lab.formal(Replayed.AMBIGUOUS)
    lab.rule("candidate")
    lab.rule("infrastructure")
    found = lab.status
    assert found.tries[-1].outcome == "failed_candidate"
    assert found.contradictions == (
        "rulings/002 is about formal/attempt-001, which was ruled on before; the first ruling holds",
    )


def test_a_ruling_about_what_needs_none_changes_nothing(lab: Any) -> None:
    lab.explore()
    lab.formal(Replayed.FAILED_CANDIDATE)
    lab.rule("infrastructure")
    found = lab.status
    assert ([str(one.stage) for one in found.due], found.tries[-1].outcome) == (["audit"], "failed_candidate")
    assert found.contradictions == ("rulings/001 is about formal/attempt-001, which needed no ruling",)


def test_a_submission_from_an_exploration_that_handed_in_nothing_is_a_contradiction(lab: Any) -> None:
    lab.explore(Explored.DEADLINE, handing_in=True)
    assert lab.status.contradictions == (
        "submission: it says that it comes from explore/attempt-001, which is deadline",
    )


def test_an_exploration_that_submitted_without_a_submission_is_a_contradiction(lab: Any) -> None:
    lab.explore(Explored.SUBMITTED, handing_in=False)
    assert lab.status.contradictions == ("explore/attempt-001 says that it submitted, and there is no submission",)


def test_what_a_crash_in_the_last_instant_leaves_is_not_believed_and_no_contradiction(lab: Any) -> None:
    """The line that a try was sealed is missing, and all else is there: `resume` writes it."""
    lab.whole()
    _cut_log(lab)
    found = lab.status
    assert (found.tries[-1].liveness, found.state, found.contradictions) == (Liveness.UNMARKED, "interrupted", ())
    assert found.official is not None
    assert found.official.step == 10, "the better one is not counted yet"


def test_a_report_that_names_no_audit_is_a_contradiction(lab: Any) -> None:
    lab.whole()
    with lab.trying(lab.attempt.next(Stage.REPORT), {}) as this:
        this.end(Reported.RENDERED)
    assert lab.status.contradictions == ("report/attempt-001 does not say which audit it was made from",)


def test_an_audit_that_is_gone_while_a_later_one_is_there_is_a_contradiction(lab: Any) -> None:
    lab.whole()
    for _ in range(2):
        with lab.trying(lab.attempt.next(Stage.AUDIT), {}) as this:
            this.end(Audited.ASSESSED, Audit(findings=()))
    assert lab.status.contradictions == ()
    shutil.rmtree(lab.folder / "audit/attempt-001")
    assert "audit/attempt-001 is gone: a later one is there" in lab.status.contradictions


def test_an_audit_that_was_rewritten_is_a_contradiction(lab: Any) -> None:
    """faults H40: a verdict is no text that somebody may edit."""
    lab.whole()
    with lab.trying(lab.attempt.next(Stage.AUDIT), {}) as this:
        this.end(Audited.ASSESSED, Audit(findings=()))
    assert lab.status.contradictions == ()
    path = lab.folder / "audit/attempt-001/outcome.json"
    path.chmod(0o644)
    write_json(path, {"findings": [], "advice": []} | {"findings": [FINDING.resolved()]})
    assert lab.status.contradictions == ("audit/attempt-001: its outcome.json is not what its receipt says",)
