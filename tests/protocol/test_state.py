"""What an attempt has come to, over the situations that it can be in, told apart by hand."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempt import Attempt
from opd.protocol.clock import Instant, now
from opd.protocol.lease import LEASE, held
from opd.protocol.state import status
from opd.records.attempts import Evaluated, Explored, Liveness, Replayed, Stage, Validated
from opd.records.files import COMPLETE, canonical_json, sha256, write_json
from opd.records.receipts import RECEIPT, Sealed, begin, faults
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

SITUATIONS = {
    "new": (NOTHING, "new", ["explore"], "not explored yet"),
    **{
        f"explored: {one}": (lambda lab, one=one: lab.explore(one), "ended", [], f"the exploration ended by {one}")
        for one in ENDED
    },
    "explored: interrupted": (lambda lab: lab.explore(Explored.INTERRUPTED), "interrupted", ["explore"], "interrupted"),
    "explored: machine": (lambda lab: lab.explore(Explored.INFRA_FAILED), "interrupted", ["explore"], "infra_failed"),
    "submitted": (lambda lab: lab.explore(), "submitted", ["formal"], "not replayed yet"),
    "submitted from outside": (lambda lab: lab.submit(), "submitted", ["formal"], "not replayed yet"),
    "handed in, then the orchestrator died": (
        lambda lab: lab.explore(Explored.INTERRUPTED, handing_in=True), "submitted", ["formal"], "not replayed yet",
    ),
    "formal: machine": (_formal(INFRA), "submitted", ["formal"], "1 ended for the machine's sake"),
    "formal: interrupted": (_formal(DIED), "submitted", ["formal"], "1 ended for the machine's sake"),
    "formal: retries used up": (_formal(INFRA, DIED, INFRA), "ended", [], "3 ended for the machine's sake"),
    "formal: failed": (_formal(FAILED), "ended", [], "formal/attempt-001 ended as failed_candidate"),
    "formal: failed after a retry": (_formal(INFRA, FAILED), "ended", [], "formal/attempt-002 ended as failed_candidate"),
    "formal: ambiguous": (_ambiguous(None), "waits_for_a_ruling", [], "ended as ambiguous"),
    "formal: ruled the machine's": (_ambiguous("infrastructure"), "submitted", ["formal"], "for the machine's sake"),
    "formal: ruled the candidate's": (_ambiguous("candidate"), "ended", [], "ended as failed_candidate"),
    "formal: completed": (
        _formal(INFRA, DONE, steps=(10, 20)), "replayed", ["validation/step-000010", "validation/step-000020"],
        "no final evaluation has a score yet",
    ),
    "formal: no checkpoint": (_formal(DONE), "ended", [], "formal/attempt-001 left no checkpoint"),
    "validation: in part": (
        _evaluated({10: Validated.VALID, 20: Validated.INVALID}, {}), "replayed",
        ["validation/step-000030", "final/step-000010"], "no final evaluation has a score yet",
    ),
    "validation: none valid": (_evaluated(INVALID, {}), "ended", [], "no checkpoint is valid"),
    "finals: in part": (_evaluated(VALID, {20: 0.5}), "validated", ["final/step-000010", "final/step-000030"], (20, 1)),
    "finals: best of three": (_evaluated(VALID, {10: 0.4, 20: 0.6, 30: 0.5}), "evaluated", [], (20, 3)),
    "finals: a tie goes to the earlier": (_evaluated(VALID, {10: 0.4, 20: 0.6, 30: 0.6}), "evaluated", [], (20, 3)),
    "finals: a score of nothing is a score": (_evaluated(VALID, {10: 0.0, 20: None, 30: None}), "evaluated", [], (10, 1)),
    "finals: none": (_evaluated(VALID, dict.fromkeys((10, 20, 30))), "ended", [], "has a score: it broke"),
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
    assert found.official is not None
    assert (found.official.step, found.official.mean) == (10, 0.1)
    assert found.contradictions == ("formal/attempt-002 came after formal/attempt-001, which counts",)
    assert found.state == "inconsistent"


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
    assert (due(found), found.official) == ([], None)
    assert found.missing == "no formal try counts: formal/attempt-001 is damaged"
    assert found.contradictions[0].startswith("formal/attempt-001: its mark does not fit its receipt")


def test_who_removes_the_first_try_does_not_make_the_second_count_unseen(lab: Any) -> None:
    lab.explore()
    lab.formal(FAILED)
    lab.formal(steps=(10,))
    shutil.rmtree(lab.folder / "formal/attempt-001")
    assert "formal/attempt-001 is gone: a later one is there" in lab.status.contradictions
    assert "the log says that formal/attempt-001 was sealed, and it is not there" in lab.status.contradictions


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
    program = "import sys; from pathlib import Path; from opd.protocol.lease import held\n"
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


# ---- what does not fit together ----


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
        made.append(canonical_json(event).encode())
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
    _replace_submission: "formal/attempt-001 was made from another submission/receipt.json than the one that is there",
    _another_task: "validation/step-000010 was made for another task",
    _cut_log: "final/step-000020 is not in the log",
    _cut_more_of_the_log: "final/step-000020/receipt.json names line",
    _change_log: "the log is not whole",
    _forge_log: "names line 4 of a log that is not this one",
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
    if forge is _cut_log:  # the same files that a crash in the last instant leaves: not believed, and not forged
        assert (found.tries[-1].liveness, found.state) == (Liveness.UNMARKED, "interrupted")
        assert found.official is not None
        assert found.official.step == 10
        return
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
    lab.formal(FAILED)
    lab.rule("infrastructure")
    found = lab.status
    assert (due(found), found.tries[-1].outcome) == ([], "failed_candidate")
    assert found.contradictions == ("rulings/001 is about formal/attempt-001, which needed no ruling",)


def test_a_submission_from_an_exploration_that_handed_in_nothing_is_a_contradiction(lab: Any) -> None:
    lab.explore(Explored.DEADLINE, handing_in=True)
    assert lab.status.contradictions == (
        "submission: it says that it comes from explore/attempt-001, which is deadline",
    )


def test_an_exploration_that_submitted_without_a_submission_is_a_contradiction(lab: Any) -> None:
    lab.explore(Explored.SUBMITTED, handing_in=False)
    assert lab.status.contradictions == ("explore/attempt-001 says that it submitted, and there is no submission",)


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


# ---- killed at every edge ----

_KILLED = """
import importlib.util, os, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("attempt_lab", {conftest!r})
laboratory = importlib.util.module_from_spec(spec)
sys.modules["attempt_lab"] = laboratory
spec.loader.exec_module(laboratory)
lab = object.__new__(laboratory.Lab)
lab.folder, what, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
lab.attempt, lab.holder, calls = laboratory.Attempt(lab.folder), None, 0
def edge():
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), 9)
def dies(owner, name):
    real = getattr(owner, name)
    def wrapped(*arguments, **named):
        edge()
        return real(*arguments, **named)
    setattr(owner, name, wrapped)
from opd.records import receipts
for owner, name in ((os, "fsync"), (os, "write"), (os, "mkdir"), (os, "replace"), (os, "unlink"), (os, "chmod"),
                    (receipts, "_rename_to_new"), (Path, "write_text"), (Path, "write_bytes")):
    dies(owner, name)
lab.explore() if what == "explore" else lab.formal(steps=(10,))
print(calls)
"""


def _killed_at(folder: Path, what: str, at: int) -> bool:
    program = _KILLED.format(conftest=str(Path(__file__).with_name("conftest.py")))
    pid = os.fork()
    if pid == 0:  # a fork, not a new interpreter: hundreds of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["", str(folder), what, str(at)]
        code = 1
        try:
            exec(compile(program, "killed", "exec"), {"__name__": "killed"})
            code = 0
        finally:
            os._exit(code)
    _, ended = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) == 0, "it failed instead of being killed"
    return os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL


@pytest.mark.patient
@pytest.mark.parametrize("what", ["explore", "formal"])
def test_killed_at_any_edge_nothing_is_running_lost_or_repeated(new_lab: Any, what: str) -> None:
    """Acceptance: SIGKILL of the orchestrator at every write, rename, flush and removal; faults H6, H7, H14, H16."""
    from opd.protocol.resuming import resume

    template = new_lab("template")
    if what == "formal":
        template.explore()
    words, livenesses, at = set(), set(), 0
    while True:
        at += 1
        folder = template.folder.with_name(f"killed-{at}")
        shutil.copytree(template.folder, folder)
        if not _killed_at(folder, what, at):
            break
        found = status(Attempt(folder))
        last = next((one for one in reversed(found.tries) if one.stage == what), None)
        assert found.contradictions == (), at
        assert found.official is None
        words.add(found.state)
        if last:
            livenesses.add(last.liveness)
            assert last.liveness is not Liveness.RUNNING
        if last and last.liveness is Liveness.SEALED:
            assert last.outcome in {"submitted", "completed"}
        elif found.state != {"explore": "new", "formal": "submitted"}[what]:
            assert found.state == "interrupted", at

        had_ended = {event.actor for event in Attempt(folder).events.read() if event.kind == "ended"}
        with held(folder) as holder:
            resume(Attempt(folder), holder, say=lambda _: None)
        found = status(Attempt(folder))
        assert found.contradictions == (), at
        assert not [one for one in found.tries if one.liveness is not Liveness.SEALED], at
        assert sum(one.stage == what for one in found.tries) <= 1
        before = tree_digest(entries(folder))
        with held(folder) as holder:
            resume(Attempt(folder), holder, say=lambda _: None)
        assert tree_digest(entries(folder)) == before, "what is whole is left alone"
        for one in found.tries:
            assert faults(folder / one.name) == (), at
        for one in found.tries:
            if one.name in had_ended:
                assert one.outcome in {"submitted", "sealed", "completed"}, f"{at}: {one.name} was at its end"
        shutil.rmtree(folder)
    assert at > 30, "the edges were passed"
    assert (
        words
        == {"explore": {"new", "interrupted", "submitted"}, "formal": {"submitted", "interrupted", "replayed"}}[what]
    )
    assert livenesses == {Liveness.LEFT, Liveness.UNMARKED, Liveness.SEALED}
