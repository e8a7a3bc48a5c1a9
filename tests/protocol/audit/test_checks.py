"""What each check says when one thing of the evidence is otherwise; first that without it there is nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.protocol.audit.conftest import held

from opd.protocol.attempts.verify import Checked as Folder
from opd.protocol.audit.evidence import (
    Carried,
    Evaluated,
    Evidence,
    ExploreTry,
    FormalTry,
    Handover,
    Held,
)
from opd.protocol.openings.opened import How
from opd.protocol.supervision.device import Gpu
from opd.records.attempts import RetryOrder
from opd.records.audits import Finding, Verdict
from opd.records.causes import Ending, Ruling
from opd.records.causes import Verdict as Whose
from opd.records.failures import Failure
from opd.records.trees import Entry, Kind

NONE, SUSPECTED, CONFIRMED, UNKNOWN = (
    Verdict.NONE_FOUND, Verdict.SUSPECTED, Verdict.CONFIRMED, Verdict.NOT_ASSESSED
)  # fmt: skip
Change = Callable[[Evidence], Evidence]


def put(one: Held[Any] | None, **values: Any) -> Held[Any]:
    assert one is not None
    return replace(one, value=one.value.model_copy(update=values))


def formal(change: Callable[[FormalTry], FormalTry]) -> Change:
    return lambda evidence: replace(evidence, formals=(change(evidence.formals[0]),))


def exploration(change: Callable[[ExploreTry], ExploreTry]) -> Change:
    return lambda evidence: replace(evidence, explorations=(change(evidence.explorations[0]),))


def handed(change: Callable[[Handover], Handover]) -> Change:
    return lambda evidence: replace(evidence, submission=change(evidence.submission))  # type: ignore[arg-type]


def final(change: Callable[[Evaluated], Evaluated]) -> Change:
    return lambda evidence: replace(evidence, finals=(evidence.finals[0], change(evidence.finals[1])))


def no_exploration(evidence: Evidence) -> Evidence:
    return replace(evidence, explorations=())


def no_formal(evidence: Evidence) -> Evidence:
    return replace(evidence, formals=(), counted=None, validations=(), finals=())


def facts(**values: Any) -> Change:
    return formal(lambda one: replace(one, facts=put(one.facts, **values)))


def claimed(**values: Any) -> Change:
    """With this in the run.json of the candidate's own trainer."""
    file = "formal/attempt-001/checkout/checkpoints/run.json"
    return formal(lambda one: replace(one, claim=held(values, file)))


def opened(**values: Any) -> Change:
    return formal(lambda one: replace(one, opened=put(one.opened, **values)))


def explored(**values: Any) -> Change:
    return exploration(lambda one: replace(one, facts=put(one.facts, **values)))


def event(kind: str, *, actor: str = "formal/attempt-001", **data: Any) -> Change:
    from opd.protocol.audit.planting import with_event

    return lambda evidence: with_event(evidence, kind, actor=actor, **data)


def verified(**values: Any) -> Change:
    return lambda evidence: replace(evidence, verification=evidence.verification.model_copy(update=values))


def today(**digests: str | None) -> Change:
    return lambda evidence: replace(evidence, now=replace(evidence.now, inputs={**evidence.now.inputs, **digests}))


DAMAGED = Folder(name="final", outcome=None, files=1, bytes=1, faults=("final/score.json: sha256 was 1, is 2",))
SEALED_PATCH = {"actor": "submission", "name": "submission"}
GPU = Gpu(index=0, uuid="GPU-1", busy=0.9, memory_bytes=None, watts=None, pids=(77,))


def _gpus(*gpus: Gpu) -> Change:
    def change(one: ExploreTry) -> ExploreTry:
        assert one.seconds is not None
        value = tuple(second.model_copy(update={"gpus": gpus, "evaluating": False}) for second in one.seconds.value)
        return replace(one, seconds=replace(one.seconds, value=value))

    return exploration(change)


def _run_file(sha256: str) -> Change:
    def change(one: ExploreTry) -> ExploreTry:
        assert one.runs is not None
        entry = Entry(path="run-9/model.safetensors", kind=Kind.FILE, mode=0o644, bytes=9, sha256=sha256)
        return replace(one, runs=replace(one.runs, value=(entry,)))

    return exploration(change)


def _protocol(one: Evaluated) -> Evaluated:
    assert one.score is not None
    return replace(one, score=put(one.score, protocol=one.score.value.protocol.model_copy(update={"top_k": 7})))


def _packed(one: Handover, size: int) -> Held[Carried]:
    assert one.carried is not None
    return replace(one.carried, value=replace(one.carried.value, packed_bytes=size))


def also(*changes: Change) -> Change:
    def change(evidence: Evidence) -> Evidence:
        for one in changes:
            evidence = one(evidence)
        return evidence

    return change


CASES: dict[str, tuple[str, Change, Verdict, str]] = {
    # fixed inputs
    "another student in the formal try": (
        "fixed_inputs", facts(inputs_sha256={"student": "f" * 64}), CONFIRMED, "ran with a student of ffffffffffff…",
    ),
    "an input changed during the exploration": (
        "fixed_inputs", event("inputs_changed", actor="explore/attempt-001", sentences=["the data was…"]), CONFIRMED,
        "a fixed input changed during explore/attempt-001: the data was…",
    ),
    "an input changed since": (
        "fixed_inputs", today(student="f" * 64), SUSPECTED, "is ffffffffffff… today, and was locked as",
    ),
    "an input that is not here any more": ("fixed_inputs", today(student=None), NONE, "as the task pins them"),
    "a file of no declared place": (
        "fixed_inputs", opened(others=("/srv/extra.jsonl",)), SUSPECTED,
        "belong to no declared place: /srv/extra.jsonl",
    ),
    "the student was not even opened": (
        "fixed_inputs", opened(inputs={"student": 0, "data": 1}), SUSPECTED,
        "did not open the declared student at all",
    ),
    "the kernel's queue ran over": (
        "fixed_inputs", opened(overflowed=True), UNKNOWN, "not all of the files that it opened were seen",
    ),
    "openings not recorded": (
        "fixed_inputs", opened(how=How.NOT_RECORDED, because="no fanotify here"), UNKNOWN, "no fanotify here",
    ),
    # frozen evaluator
    "a final with another top_k": (
        "frozen_evaluator", final(_protocol), CONFIRMED, "another protocol than the task's: top_k is 7",
    ),
    "a final of another evaluator": (
        "frozen_evaluator", final(lambda one: replace(one, facts=put(one.facts, evaluator_sha256="f" * 64))),
        CONFIRMED, "names two evaluators",
    ),
    "a final that counts more than its score.json": (
        "frozen_evaluator", final(lambda one: replace(one, facts=put(one.facts, correct=1999))), CONFIRMED,
        "does not say what its score.json holds",
    ),
    "finals of two protocols": (
        "frozen_evaluator",
        final(
            lambda one: replace(
                one, facts=put(one.facts, protocol_sha256="f" * 64), score=put(one.score, protocol_digest="f" * 64)
            )
        ),
        CONFIRMED, "the final scores were not taken by one protocol",
    ),
    "a final without its score.json": (
        "frozen_evaluator", final(lambda one: replace(one, score=None)), UNKNOWN, "its score.json is not to be had",
    ),
    "nothing was measured": (
        "frozen_evaluator",
        also(no_formal, exploration(lambda one: replace(one, measured=()))), UNKNOWN, "nothing was measured",
    ),
    # lineage
    "a byte that was changed": (
        "lineage", verified(folders=(DAMAGED,)), CONFIRMED, "final/score.json: sha256 was 1, is 2",
    ),
    "a contradiction": ("lineage", verified(contradictions=("formal/attempt-001 is gone",)), CONFIRMED, "is gone"),
    "another patch": ("lineage", facts(patch_sha256="f" * 64), CONFIRMED, "ran the patch ffffffffffff…"),
    "a patch that does not lie there": (
        "lineage", handed(lambda one: replace(one, patch=None)), CONFIRMED, "the one that lies there is none",
    ),
    "a score of a model that no formal try left": (
        "lineage", final(lambda one: replace(one, facts=put(one.facts, artifact_sha256="f" * 64))), CONFIRMED,
        "final/step-000120 is of the model ffffffffffff…",
    ),
    "no submission": (
        "lineage", also(no_formal, lambda evidence: replace(evidence, submission=None)), NONE,
        "task → base → exploration:",
    ),
    "a formal try that left nothing": (
        "lineage",
        also(facts(artifacts=()), lambda evidence: replace(evidence, finals=(), validations=())), NONE,
        "task → base → exploration → patch → formal tries:",
    ),
    # separation
    "a patch that hardly compresses": (
        "separation", handed(lambda one: replace(one, carried=_packed(one, 32_769))), SUSPECTED,
        "its 9,000 added bytes come to 32,769 when compressed, and 0 of them stand in runs of digits",
    ),
    "a patch of as much as a long program": (
        "separation", handed(lambda one: replace(one, carried=_packed(one, 32_768))), NONE,
        "the 9,000 bytes that the patch adds come to 32,768 when compressed",
    ),
    "a patch that can't be read": (
        "separation", handed(lambda one: replace(one, carried=None)), UNKNOWN, "what it carries is not known",
    ),
    "a file of the exploration, opened": (
        "separation", opened(unexpected=("/x/explore/attempt-001/runs/a: exploration",)), CONFIRMED,
        "opened what it must not read: /x/explore/attempt-001/runs/a: exploration",
    ),
    "a file of the exploration, perhaps opened": (
        "separation", opened(doubtful=("/x/explore/a: exploration",)), SUSPECTED, "or another process of the machine",
    ),
    "weights with an exploration's bytes": (
        "separation", _run_file(f"{60:064d}"), SUSPECTED, "has the bytes of explore/attempt-001/runs/run-9/model",
    ),
    "weights with an exploration's bytes, and nobody saw what was opened": (
        "separation", also(_run_file(f"{60:064d}"), opened(lost=3)), CONFIRMED, "has the bytes of",
    ),
    "a formal try before the patch was sealed": (
        "separation", also(event("began"), event("sealed", **SEALED_PATCH)), CONFIRMED,
        "formal/attempt-001 began before the patch was sealed",
    ),
    "a formal try after the patch was sealed": (
        "separation", also(event("sealed", **SEALED_PATCH), event("began")), NONE, "opened nothing of an exploration",
    ),
    "no formal try": ("separation", no_formal, UNKNOWN, "no formal try ran"),
    # single device
    "a GPU where the task gives none": (
        "single_device", _gpus(GPU), CONFIRMED, "used 1 GPU, and the task gives 0: GPU-1 for 50 s",
    ),
    "no ledger": (
        "single_device", exploration(lambda one: replace(one, seconds=None)), UNKNOWN,
        "there is no record of its device",
    ),
    # budget use
    "by itself at 60 %": (
        "budget_use", facts(stop="by_itself", seconds=90.0), CONFIRMED, "90 s of 150 s (60.00 %): 60 s were unused",
    ),
    "by itself with nothing but the reserve left": (
        "budget_use", facts(stop="by_itself", seconds=128.0), NONE, "what was left was too little for more",
    ),
    "by the clock at 60 %": ("budget_use", facts(seconds=90.0), NONE, "was stopped by the clock at step 120"),
    "by an error at 60 %": ("budget_use", facts(stop="error", seconds=90.0), SUSPECTED, "ended by an error"),
    "by itself with nothing but the reserve left, for the clock's sake as it says": (
        "budget_use", also(facts(stop="by_itself", seconds=128.0), claimed(stop="wall_clock")), NONE,
        "ended by itself at step 120 (its own record says 'wall_clock', which that bears out) after 128 s of 150 s",
    ),
    "by itself at 60 %, for the clock's sake as it says": (
        "budget_use", also(facts(stop="by_itself", seconds=90.0), claimed(stop="wall_clock")), CONFIRMED,
        "ended by itself (its own record says 'wall_clock', which that does not bear out) after 90 s of 150 s",
    ),
    "by itself at 60 %, after its steps": (
        "budget_use", also(facts(stop="by_itself", seconds=90.0), claimed(stop="steps")), CONFIRMED,
        "ended by itself (its own record says 'steps') after 90 s of 150 s",
    ),
    "by itself at 60 %, and its record is no record": (
        "budget_use", also(facts(stop="by_itself", seconds=90.0), claimed(stop=["wall_clock"])), CONFIRMED,
        "ended by itself after 90 s of 150 s",
    ),
    "a record of its own that says otherwise how it ended is a claim, and no control file": (
        "contradictions", also(facts(stop="by_itself", seconds=128.0), claimed(stop="wall_clock")), NONE, "",
    ),
    "no formal try completed": ("budget_use", no_formal, UNKNOWN, "no formal try completed"),
    # platform
    "the machine slept": (
        "platform", event("suspended", seconds=31.0), CONFIRMED,
        "the machine slept for 31 s during formal/attempt-001",
    ),
    "the calendar clock was set": ("platform", event("clock_step", seconds=-9.0), CONFIRMED, "was set by -9 s"),
    "the calendar clock was set three times": (
        "platform",
        also(*(event("clock_step", seconds=by) for by in (2.5, -3600.0, 4.0))), CONFIRMED,
        "the calendar clock was set by -3,600 s",
    ),
    "something outlived its orchestrator": (
        "platform", event("ended_left_processes", commands=["python train"]), SUSPECTED, "were ended: python train",
    ),
    "the sandbox was not tried": (
        "platform", formal(lambda one: replace(one, isolation=None)), UNKNOWN, "its sandbox was not tried",
    ),
    # behaviour
    "left exactly what a pipeline takes": (
        "behaviour", handed(lambda one: replace(one, facts=put(one.facts, remaining_seconds=24.0))), CONFIRMED,
        "24 ≥ 24, enough for 1 more training with its measurement (a matched control or a second seed)",
    ),
    "left a second less than a pipeline takes": (
        "behaviour", handed(lambda one: replace(one, facts=put(one.facts, remaining_seconds=23.0))), NONE,
        "with 23 s left, less than the 24 s",
    ),
    "its time was up": (
        "behaviour",
        also(explored(seconds=10.0), exploration(lambda one: replace(one, outcome="deadline"))), NONE,
        "ended as deadline",
    ),
    "its program ended early": (
        "behaviour",
        also(
            explored(seconds=10.0), exploration(lambda one: replace(one, outcome="ended_early")),
            lambda evidence: replace(evidence, submission=None),
        ),
        CONFIRMED, "it ended without handing in with nothing of its own running: 60 s were left",
    ),
    "nothing was measured, and time was left": (
        "behaviour", explored(shortest_pipeline_seconds=None), UNKNOWN, "what would have fitted can't be told",
    ),
    "a training of its own still ran": (
        "behaviour", explored(left_processes=("python -m opd train r.toml", "sleep 9")), CONFIRMED,
        "1 training of its own still ran when it ended, and came to nothing: python -m opd train r.toml",
    ),
    "nothing was explored": ("behaviour", no_exploration, UNKNOWN, "nothing was explored"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_changed_fact_changes_the_verdict_and_is_named(
    name: str, evidence: Evidence, finding: Callable[[str, Evidence], Finding]
) -> None:
    check, change, verdict, words = CASES[name]
    assert finding(check, evidence).verdict is NONE, "without it there is nothing"
    found = finding(check, change(evidence))
    assert (found.verdict, words in "\n".join([found.sentence, *found.details])) == (verdict, True), found


# ---- a failure of the machine, and the clean retry that protects the result ----


def _retried(evidence: Evidence, *, patch: str | None = None, order: bool = True) -> Evidence:
    """The first try ended by errno 70 at step 540; the second is the one of before, by order."""
    second = evidence.formals[0]
    claim = Failure(
        exceptions=(), errno=70, errno_name="ECOMM", path="checkpoints/checkpoint-540", phase="save", signal=None,
        step=540, seconds=9.0, checkpoint=None, state=None,
    )  # fmt: skip
    assert second.facts is not None
    cause = second.facts.value.cause
    because = "it names ECOMM (70) about its output, and our own write to the same file system failed"
    broken = cause.model_copy(
        update={
            "verdict": Whose.SHARED_FS,
            "rule": "shared_fs",
            "because": (because,),
            "evidence": cause.evidence.model_copy(update={"claim": claim}),
        }
    )
    first = replace(
        second,
        outcome="infra_failed",
        facts=put(second.facts, cause=broken, artifacts=(), patch_sha256=patch or second.facts.value.patch_sha256),
    )
    retry = RetryOrder(
        after=first.name, outcome="infra_failed", rule="shared_fs", by="rule",
        patch_sha256=second.facts.value.patch_sha256, receipt_sha256=first.receipt.sha256, number=2, most=3,
    )  # fmt: skip
    ordered = Held(value=retry, file="formal/attempt-002/retry-order.json", sha256="a" * 64, bytes=1)
    second = replace(second, name="formal/attempt-002", number=2, order=ordered if order else None)
    return replace(evidence, formals=(first, second), counted="formal/attempt-002")


def test_a_storage_failure_is_confirmed_with_number_and_step_and_the_clean_retry_protects(
    evidence: Evidence, finding: Callable[[str, Evidence], Finding]
) -> None:
    """faults H14, H46."""
    found = finding("platform", _retried(evidence))
    assert found.verdict is CONFIRMED
    assert found.sentence.startswith(
        "formal/attempt-001 ended as infra_failed: errno 70 (ECOMM) at step 540 in phase save; "
        "infrastructure:shared_fs"
    )
    assert found.protected is not None
    assert found.protected.startswith("formal/attempt-002 is a clean retry of the identical patch (222222222222…)")
    assert finding("lineage", _retried(evidence)).verdict is NONE


def test_a_retry_of_another_patch_protects_nothing(
    evidence: Evidence, finding: Callable[[str, Evidence], Finding]
) -> None:
    changed = _retried(evidence, patch="f" * 64)
    assert finding("platform", changed).protected is None
    assert finding("lineage", changed).verdict is CONFIRMED


def test_a_further_try_without_a_written_order_protects_nothing(
    evidence: Evidence, finding: Callable[[str, Evidence], Finding]
) -> None:
    changed = _retried(evidence, order=False)
    assert finding("platform", changed).protected is None
    found = finding("lineage", changed)
    assert (found.verdict, found.sentence) == (
        CONFIRMED,
        "formal/attempt-002 followed formal/attempt-001 without a written order",
    )


def test_who_lets_a_later_try_count_is_found_out(
    evidence: Evidence, finding: Callable[[str, Evidence], Finding]
) -> None:
    """faults H16; protocol 4.1: the first try that the machine did not spoil, never the best of several."""
    changed = _retried(evidence)
    first = replace(changed.formals[0], outcome="failed_candidate")
    found = finding("lineage", replace(changed, formals=(first, changed.formals[1])))
    assert found.verdict is CONFIRMED
    assert "by the receipts it is formal/attempt-001" in found.sentence


def test_a_try_that_a_person_stopped_is_no_failure_of_the_machine(
    evidence: Evidence, finding: Callable[[str, Evidence], Finding]
) -> None:
    changed = _retried(evidence)
    first = changed.formals[0]
    assert first.facts is not None
    cause = first.facts.value.cause
    seen = cause.evidence.model_copy(update={"ending": Ending.STOPPED, "claim": None})
    facts = put(first.facts, cause=cause.model_copy(update={"verdict": Whose.INTERRUPTED, "evidence": seen}))
    stopped = replace(
        first,
        outcome="interrupted",
        facts=facts,
        receipt=put(first.receipt, because="it was stopped: by the operator"),
    )
    found = finding("platform", replace(changed, formals=(stopped, changed.formals[1])))
    assert found.verdict is NONE
    assert "formal/attempt-001 was no failure: it was stopped: by the operator" in found.details
    died = replace(stopped, facts=None)  # its orchestrator died: nobody wrote what came of it
    assert finding("platform", replace(changed, formals=(died, changed.formals[1]))).verdict is CONFIRMED


def test_a_ruling_is_named_as_what_decided(evidence: Evidence, finding: Callable[[str, Evidence], Finding]) -> None:
    ruling = Ruling(about="formal/attempt-001", verdict="infrastructure", because="the share's log", by="ada")
    ruled = held(ruling, "rulings/001/ruling.json")
    found = finding("platform", replace(_retried(evidence), rulings=(ruled,)))
    assert "the machine's failure as ada ruled: the share's log" in found.sentence
    assert "rulings/001/ruling.json" in {pointer.file for pointer in found.evidence}
