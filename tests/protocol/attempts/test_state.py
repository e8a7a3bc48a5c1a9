"""What an attempt has come to, over the situations that it can be in, told apart by hand."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.lease import LEASE, held
from opd.protocol.attempts.state import status
from opd.protocol.clock import Instant, now
from opd.records.attempts import Audited, Evaluated, Explored, Liveness, Replayed, Reported, Stage, Validated
from opd.records.audits import Audit, Axis, Coverage, Finding, Verdict
from opd.records.files import COMPLETE, write_json
from opd.records.receipts import begin
from opd.records.trees import entries, tree_digest


def due(found: Any) -> list[str]:
    return [f"{one.stage}/{one.name}" if one.name else str(one.stage) for one in found.due]


# ---- what happens when nothing goes wrong, and how each stage can end ----

NOTHING: Callable[..., None] = lambda lab: None  # noqa: E731


def _formal_infra(lab: Any) -> None:
    lab.explore()
    lab.formal(Replayed.INFRA_FAILED)


def _ambiguous(verdict: str | None) -> Callable[[Any], None]:
    def happen(lab: Any) -> None:
        lab.explore()
        lab.formal(Replayed.AMBIGUOUS)
        if verdict:
            lab.rule(verdict)

    return happen


def _formal(*outcomes: Replayed, steps: tuple[int, ...] = ()) -> Callable[[Any], None]:
    def happen(lab: Any) -> None:
        lab.explore()
        for outcome in outcomes:
            lab.formal(outcome, steps=steps if outcome is Replayed.COMPLETED else ())

    return happen


def _evaluated(
    validated: dict[int, Validated], finals: dict[int, float | None], steps: tuple[int, ...] = (10, 20, 30)
) -> Callable[[Any], None]:
    def happen(lab: Any) -> None:
        lab.explore()
        lab.formal(steps=steps)
        for step, outcome in validated.items():
            lab.validate(step, outcome)
        for step, mean in finals.items():
            lab.final(step, mean)

    return happen


VALID = dict.fromkeys((10, 20, 30), Validated.VALID)
INVALID = dict.fromkeys((10, 20, 30), Validated.INVALID)
INFRA, DIED, FAILED, DONE = Replayed.INFRA_FAILED, Replayed.INTERRUPTED, Replayed.FAILED_CANDIDATE, Replayed.COMPLETED
ENDED = [one for one in Explored if one not in {Explored.SUBMITTED, Explored.INTERRUPTED, Explored.INFRA_FAILED}]
AUDIT = ["audit"]

SITUATIONS = {
    "new": (NOTHING, "new", ["explore"], "not explored yet"),
    **{
        f"explored: {one}": (lambda lab, one=one: lab.explore(one), "ended", AUDIT, f"the exploration ended by {one}")
        for one in ENDED
    },
    "explored: died": (lambda lab: lab.explore(Explored.INTERRUPTED), "interrupted", ["explore"], "by interrupted"),
    "explored: machine": (lambda lab: lab.explore(Explored.INFRA_FAILED), "interrupted", ["explore"], "infra_failed"),
    "submitted": (lambda lab: lab.explore(), "submitted", ["formal"], "not replayed yet"),
    "submitted from outside": (lambda lab: lab.submit(), "submitted", ["formal"], "not replayed yet"),
    "handed in, then the orchestrator died": (
        lambda lab: lab.explore(Explored.INTERRUPTED, handing_in=True), "submitted", ["formal"], "not replayed yet",
    ),
    "formal: machine": (_formal(INFRA), "submitted", ["formal"], "1 ended for the machine's sake"),
    "formal: interrupted": (_formal(DIED), "submitted", ["formal"], "1 ended for the machine's sake"),
    "formal: retries used up": (_formal(INFRA, DIED, INFRA), "ended", AUDIT, "3 ended for the machine's sake"),
    "formal: failed": (_formal(FAILED), "ended", AUDIT, "formal/attempt-001 ended as failed_candidate"),
    "formal: failed after a retry": (_formal(INFRA, FAILED), "ended", AUDIT, "attempt-002 ended as failed_candidate"),
    "formal: ambiguous": (_ambiguous(None), "waits_for_a_ruling", [], "ended as ambiguous"),
    "formal: ruled the machine's": (_ambiguous("infrastructure"), "submitted", ["formal"], "for the machine's sake"),
    "formal: ruled the candidate's": (_ambiguous("candidate"), "ended", AUDIT, "ended as failed_candidate"),
    "formal: completed": (
        _formal(INFRA, DONE, steps=(10, 20)), "replayed", ["validation/step-000010", "validation/step-000020"],
        "no final evaluation has a score yet",
    ),
    "formal: no checkpoint": (_formal(DONE), "ended", AUDIT, "formal/attempt-001 left no checkpoint"),
    "validation: in part": (
        _evaluated({10: Validated.VALID, 20: Validated.INVALID}, {}), "replayed",
        ["validation/step-000030", "final/step-000010"], "no final evaluation has a score yet",
    ),
    "validation: none valid": (_evaluated(INVALID, {}), "ended", AUDIT, "no checkpoint is valid"),
    "finals: in part": (
        _evaluated(VALID, {20: 0.5}), "validated", ["final/step-000010", "final/step-000030"], (20, 1),
    ),
    "finals: best of three": (_evaluated(VALID, {10: 0.4, 20: 0.6, 30: 0.5}), "evaluated", AUDIT, (20, 3)),
    "finals: a tie goes to the earlier": (
        _evaluated(VALID, {10: 0.4, 20: 0.6, 30: 0.6}), "evaluated", AUDIT, (20, 3),
    ),
    "finals: nothing right is a score": (
        _evaluated(VALID, {10: 0.0, 20: None, 30: None}), "evaluated", AUDIT, (10, 1),
    ),
    "finals: none": (_evaluated(VALID, dict.fromkeys((10, 20, 30))), "ended", AUDIT, "has a score: it broke"),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_situation_has_its_word_what_is_due_and_why_there_is_no_score(lab: Any, name: str) -> None:
    happen, state, expected, result = SITUATIONS[name]
    happen(lab)
    found = lab.status
    assert found.contradictions == ()
    assert (found.state, due(found)) == (state, expected)
    assert (found.waits_for is not None) == (state == "waits_for_a_ruling")
    if isinstance(result, str):
        assert found.official is None
        assert result in (found.missing or "")
    else:
        assert found.missing is None
        assert found.official is not None
        assert (found.official.step, found.official.of) == result


def test_words_for_how_it_ended_and_words_for_whether_it_lives_share_none() -> None:
    terminal = {str(word) for words in (Explored, Replayed, Validated, Evaluated) for word in words}
    assert not terminal & {str(word) for word in Liveness}


def test_the_first_try_that_is_not_the_machines_counts_though_a_later_one_is_better(lab: Any) -> None:
    """faults H16; protocol 4.1: never the best of several."""
    lab.explore()
    lab.formal(steps=(10,))
    lab.formal(steps=(10, 20))
    lab.validate(10)
    lab.final(10, 0.1)
    found = lab.status
    counted = Evidence(lab.attempt, now()).counted
    assert counted is not None
    assert counted.place.name == "formal/attempt-001"
    assert found.contradictions == ("formal/attempt-002 came after formal/attempt-001, which counts",)
    assert found.state == "inconsistent"
    assert (found.official, found.missing) == (
        None, "its files contradict each other in one place; while they do, no score of it is official",
    )  # fmt: skip


def test_scores_of_a_try_that_does_not_count_are_no_result(lab: Any) -> None:
    lab.explore()
    lab.formal(steps=(10,))
    lab.formal(steps=(20,))
    lab.validate(20, of="formal/attempt-002")
    lab.final(20, 0.9, of="formal/attempt-002")
    found = lab.status
    assert found.official is None
    assert (
        "validation/step-000020 does not say that it was made from formal/attempt-001/receipt.json"
        in found.contradictions
    )
    assert any("final/step-000020 is about an artifact that no formal try" in one for one in found.contradictions)


def test_who_damages_the_first_try_does_not_make_the_second_count(lab: Any) -> None:
    lab.explore()
    lab.formal(FAILED)
    lab.formal(steps=(10,))
    (lab.folder / "formal/attempt-001" / COMPLETE).write_text("")
    found = lab.status
    assert (due(found), found.official) == (["audit"], None)
    assert found.missing == "no formal try counts: formal/attempt-001 is damaged"
    assert found.contradictions[0].startswith("formal/attempt-001: its mark does not fit its receipt")


def test_a_score_that_was_forged_is_not_printed_as_official_beside_the_contradiction(lab: Any) -> None:
    """Another final would be the best one now: neither that one nor the true one is named."""
    lab.whole()
    assert lab.status.official.step == 20
    path = lab.folder / "final/step-000010/outcome.json"
    path.chmod(0o644)
    write_json(path, json.loads(path.read_text()) | {"mean": 0.99, "correct": 1980})
    found = lab.status
    assert found.contradictions == ("final/step-000010: its outcome.json is not what its receipt says",)
    assert (found.state, found.official) == ("inconsistent", None)
    assert "no score of it is official" in (found.missing or "")


def test_who_removes_the_first_try_does_not_make_the_second_count_unseen(lab: Any) -> None:
    lab.explore()
    lab.formal(FAILED)
    lab.formal(steps=(10,))
    shutil.rmtree(lab.folder / "formal/attempt-001")
    assert "formal/attempt-001 is gone: a later one is there" in lab.status.contradictions
    assert "the log says that formal/attempt-001 was sealed, and it is not there" in lab.status.contradictions


# ---- when all else is done: an audit of all that is sealed, and a report of that audit ----


def audit(lab: Any, verdict: Verdict = Verdict.NONE_FOUND, **made_from: str) -> None:
    """An audit that has seen all that is sealed, and what else is given."""
    finding = Finding(
        check="lineage", axis=Axis.LINEAGE, verdict=verdict, sentence="s", coverage=Coverage(files=1, bytes=1),
        controls=(),
    )  # fmt: skip
    receipts = Evidence(lab.attempt, now()).receipts
    with lab.trying(lab.attempt.next(Stage.AUDIT), receipts | made_from) as this:
        this.end(Audited.ASSESSED, Audit(findings=(finding,)))


def report(lab: Any, number: int = 1) -> None:
    with lab.trying(lab.attempt.next(Stage.REPORT), lab.receipts(f"audit/attempt-{number:03d}")) as this:
        this.end(Reported.RENDERED)


def test_an_audit_is_due_when_nothing_else_is_and_then_a_report_of_it(lab: Any) -> None:
    lab.whole()
    assert (lab.status.state, due(lab.status), lab.status.verdicts) == ("evaluated", AUDIT, None)
    audit(lab, Verdict.SUSPECTED)
    found = lab.status
    assert (found.state, due(found), found.contradictions) == ("audited", ["report"], ())
    assert found.verdicts is not None
    assert (found.verdicts[Axis.LINEAGE], found.verdicts[Axis.PLATFORM]) == ("suspected", "not_assessed")
    report(lab)
    assert (lab.status.state, due(lab.status), lab.status.contradictions) == ("reported", [], ())
    assert lab.status.official is not None


def test_after_another_audit_another_report_is_due(lab: Any) -> None:
    lab.whole()
    audit(lab)
    report(lab)
    audit(lab, Verdict.CONFIRMED)
    assert (lab.status.state, due(lab.status)) == ("audited", ["report"])
    assert lab.status.verdicts is not None
    assert lab.status.verdicts[Axis.LINEAGE] == "confirmed", "the newest counts"
    report(lab, 2)
    assert (lab.status.state, due(lab.status)) == ("reported", [])


def test_an_audit_that_has_not_seen_what_was_sealed_since_does_not_count(lab: Any) -> None:
    lab.explore()
    lab.formal(Replayed.AMBIGUOUS)
    audit(lab)
    assert lab.status.verdicts is not None
    lab.rule("candidate")
    found = lab.status
    assert (due(found), found.verdicts) == (["audit"], None)
    assert found.due[0].because == "audit/attempt-001 has not seen all that is sealed"
    audit(lab)
    assert due(lab.status) == ["report"]


def test_while_anything_else_is_due_or_waited_for_no_audit_is(lab: Any) -> None:
    assert due(lab.status) == ["explore"]
    lab.explore()
    assert due(lab.status) == ["formal"]
    lab.formal(Replayed.AMBIGUOUS)
    assert (due(lab.status), lab.status.state) == ([], "waits_for_a_ruling")


def test_an_audit_that_was_interrupted_does_not_count(lab: Any) -> None:
    lab.whole()
    with lab.trying(lab.attempt.next(Stage.AUDIT), Evidence(lab.attempt, now()).receipts) as this:
        this.end(Replayed.INTERRUPTED)
    assert (lab.status.state, due(lab.status), lab.status.verdicts) == ("evaluated", AUDIT, None)


# ---- who is at work, and who is not any more ----


def test_a_try_runs_while_its_holder_lives_and_is_left_when_it_does_not(lab: Any) -> None:
    place = lab.attempt.next(Stage.EXPLORE)
    with held(lab.folder) as holder:
        with holder.at(place.name):
            begin(place.folder)
            found = lab.status
            assert (found.state, found.due, found.tries[0].liveness) == ("exploring", (), Liveness.RUNNING)
        assert lab.status.state == "interrupted", "the holder lives, and is not at it"


_WORD = {
    Stage.EXPLORE: "exploring",
    Stage.FORMAL: "replaying",
    Stage.VALIDATION: "validating",
    Stage.FINAL: "evaluating",
    Stage.AUDIT: "auditing",
    Stage.REPORT: "reporting",
}


@pytest.mark.parametrize("stage", _WORD)
def test_each_stage_has_its_word_for_somebody_at_work(lab: Any, stage: Stage) -> None:
    place = lab.attempt.place(stage, 1)
    with held(lab.folder) as holder, holder.at(place.name):
        begin(place.folder)
        assert lab.status.state == _WORD[stage]


def dead_leases(lease: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The lease of somebody who lives, made into those of the dead; the heartbeat of all but one is fresh."""
    holder, heard = lease["holder"], lease["heard"]
    long_ago = {**heard, "monotonic": heard["monotonic"] - 60, "realtime": heard["realtime"] - 60}
    return {
        "the number is somebody else's now": lease | {"holder": holder | {"start_ticks": holder["start_ticks"] - 1}},
        "nobody has the number": lease | {"holder": holder | {"pid": 2**22 - 3}},
        "the machine was started anew": lease
        | {"holder": holder | {"boot_id": "before"}, "heard": heard | {"boot_id": "before"}},
        "it lives and was not heard of for a minute": lease | {"heard": long_ago},
        "another host, heard of in an hour": lease
        | {"host": "elsewhere", "heard": heard | {"boot_id": "elsewhere", "realtime": heard["realtime"] + 3600}},
        "another host, not heard of for a minute": lease
        | {"host": "elsewhere", "heard": long_ago | {"boot_id": "elsewhere"}},
    }


@pytest.mark.parametrize("how", dead_leases({"holder": {"start_ticks": 0}, "heard": {"monotonic": 0, "realtime": 0}}))
def test_the_dead_never_run(lab: Any, how: str) -> None:
    """faults H6, H13."""
    place = lab.attempt.next(Stage.FORMAL)
    lab.explore()
    with held(lab.folder) as holder, holder.at(place.name):
        begin(place.folder)
        lease = json.loads((lab.folder / LEASE).read_text())
        assert lab.status.state == "replaying", "the living one runs"
        write_json(lab.folder / LEASE, dead_leases(lease)[how])
        found = lab.status
    assert found.state == "interrupted"
    assert found.tries[-1].liveness is Liveness.LEFT
    assert due(found) == ["formal"]


def test_a_zombie_does_not_run(lab: Any) -> None:
    """faults H13: its number is there, and answers to `kill -0`."""
    place = lab.attempt.next(Stage.EXPLORE)
    program = "import sys; from pathlib import Path; from opd.protocol.attempts.lease import held\n"
    program += f"with held(Path(sys.argv[1])) as holder, holder.at({place.name!r}):\n  print(flush=True)\n  input()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, lab.folder], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        begin(place.folder)
        assert lab.status.state == "exploring"
        child.kill()
        while b"\nState:\tZ" not in Path(f"/proc/{child.pid}/status").read_bytes():
            pass
        os.kill(child.pid, 0)
        assert lab.status.state == "interrupted"


def test_a_host_whose_clock_is_ahead_is_alive(lab: Any) -> None:
    place = lab.attempt.next(Stage.EXPLORE)
    with held(lab.folder) as holder, holder.at(place.name):
        begin(place.folder)
        lease = json.loads((lab.folder / LEASE).read_text())
        heard = lease["heard"] | {"boot_id": "elsewhere", "realtime": lease["heard"]["realtime"] + 3}
        write_json(lab.folder / LEASE, lease | {"host": "elsewhere", "heard": heard})
        assert lab.status.state == "exploring"


def test_a_lease_at_a_try_that_is_not_there_is_a_contradiction_after_a_moment(lab: Any) -> None:
    """faults H8."""
    with held(lab.folder) as holder, holder.at("formal/attempt-001"):
        at = now()
        assert status(lab.attempt, at=at).contradictions == ()
        later = at.model_copy(update={"monotonic": at.monotonic + 3})
        found = status(lab.attempt, at=later)
    assert found.contradictions == (
        "the lease says that formal/attempt-001 is being filled, and there is no such try",
    )
    assert found.state == "inconsistent"


def test_looking_changes_nothing_and_says_the_same_again(lab: Any) -> None:
    lab.whole()
    with held(lab.folder) as holder, holder.at("final/step-000030"):
        begin(lab.folder / "final/step-000030")

        def look() -> tuple[str, dict[Path, int]]:
            return tree_digest(entries(lab.folder)), {p: p.stat().st_mtime_ns for p in lab.folder.rglob("*")}

        before, at = look(), now()
        assert status(Attempt(lab.folder), at=at) == status(Attempt(lab.folder), at=at)
        assert look() == before


def test_the_word_depends_on_the_time_alone_when_the_files_stay(lab: Any) -> None:
    """No writer is needed for a dead one to be seen: time passes, and the word changes."""
    place = lab.attempt.next(Stage.EXPLORE)
    with held(lab.folder) as holder, holder.at(place.name):
        begin(place.folder)
        at = now()
        assert status(lab.attempt, at=at).state == "exploring"
        for seconds, state in ((14, "exploring"), (16, "interrupted")):
            later: Instant = at.model_copy(update={"monotonic": at.monotonic + seconds})
            assert status(lab.attempt, at=later).state == state
