"""Which GPUs an attempt used, and who else was on them: by the record of each second, else by the machine."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.protocol.audit.conftest import EXPLORE, FORMAL, UTC, held

from opd.protocol.audit.evidence import Evidence, FormalTry, Started
from opd.protocol.supervision.device import Gpu, Second
from opd.records.audits import Finding, Verdict
from opd.records.causes import Device, DeviceProbe

NONE, SUSPECTED, CONFIRMED, UNKNOWN = (
    Verdict.NONE_FOUND, Verdict.SUSPECTED, Verdict.CONFIRMED, Verdict.NOT_ASSESSED
)  # fmt: skip
Find = Callable[[str, Evidence], Finding]
Change = Callable[[FormalTry], FormalTry]

OWN, NOBODYS = 10, 77  # processes: of the try's program, and of nobody that is known
GPU = Gpu(index=0, uuid="GPU-1", busy=0.9, memory_bytes=None, watts=None, pids=(OWN,))
OTHER_GPU = GPU.model_copy(update={"index": 1, "uuid": "GPU-2"})
TAKEN_GPU = GPU.model_copy(update={"pids": (OWN, NOBODYS)})
SILENT_GPU = GPU.model_copy(update={"pids": ()})


def seconds(*gpus: Gpu, others: int | None = None) -> tuple[Second, ...]:
    """Fifty of them, with these GPUs at work."""
    one = Second(monotonic=0.0, utc=UTC, processes=1, cpu_share=1.0, evaluating=False, gpus=gpus, other_gpus=others)
    return tuple(one.model_copy(update={"monotonic": float(at)}) for at in range(50))


def explored(evidence: Evidence, *gpus: Gpu, others: int | None = None) -> Evidence:
    """The exploration on these GPUs."""
    one = replace(evidence.explorations[0], seconds=held(seconds(*gpus, others=others), f"{EXPLORE}/device.jsonl"))
    return replace(evidence, explorations=(one,))


def recorded(*gpus: Gpu, others: int | None = None) -> Change:
    """The formal try with a record that says these."""
    own = (Started(line=1, at=UTC, pid=OWN, command="python train.py"),)
    return lambda one: replace(
        one,
        seconds=held(seconds(*gpus, others=others), f"{FORMAL}/device.jsonl"),
        started=held(own, f"{FORMAL}/processes.jsonl"),
    )


def unrecorded(one: FormalTry) -> FormalTry:
    """The formal try as an earlier version left it."""
    return replace(one, seconds=None, started=None)


def on_one_gpu(evidence: Evidence, change: Change = lambda one: one, *, machine: int = 1) -> Evidence:
    """A task with one GPU on a machine that has so many, and the formal try changed."""
    assert evidence.task is not None
    task = evidence.task.value.changed(["metadata.opd.needs.gpus=1"])
    probe = DeviceProbe(
        devices=tuple(Device(uuid=f"GPU-{number}", uncorrected_errors=0) for number in range(1, machine + 1)),
        answered=True, said="", log_sequence=None, xids=(),
    )  # fmt: skip
    one = evidence.formals[0]
    assert one.facts is not None
    cause = one.facts.value.cause
    seen = cause.model_copy(update={"evidence": cause.evidence.model_copy(update={"devices_before": probe})})
    facts = replace(one.facts, value=one.facts.value.model_copy(update={"cause": seen}))
    changed = replace(evidence, task=replace(evidence.task, value=task))
    return explored(replace(changed, formals=(change(replace(one, facts=facts)),)), GPU)


def test_a_process_of_nobody_on_the_gpu_is_suspected_and_one_of_the_explorer_is_not(
    evidence: Evidence, finding: Find
) -> None:
    """faults H12."""
    evidence = on_one_gpu(evidence)
    assert finding("single_device", evidence).verdict is NONE
    found = finding("single_device", explored(evidence, TAKEN_GPU))
    assert (found.verdict, "process 77 for 50 s" in found.sentence) == (SUSPECTED, True)


def test_where_no_process_is_named_other_gpus_could_be_used_unseen(evidence: Evidence, finding: Find) -> None:
    evidence = on_one_gpu(evidence)
    assert finding("single_device", explored(evidence, SILENT_GPU, others=0)).verdict is NONE
    found = finding("single_device", explored(evidence, SILENT_GPU, others=7))
    assert found.verdict is UNKNOWN
    assert found.sentence.startswith(
        "explore/attempt-001: the machine has 7 GPUs more, and its driver names no process"
    )


NOT_RECORDED = "formal/attempt-001: the machine has 2 GPUs, and which of them it used was not recorded"
UNNAMED = (
    "formal/attempt-001: the machine has 1 GPU more, and its driver names no process on any, as in some containers: "
    "use of it would not have been seen"
)
RECORDS: dict[str, tuple[Change, int, Verdict, str]] = {
    "one of two": (
        recorded(GPU, others=1), 2, NONE,
        "1 GPU and no other, used by nobody else, in 50 seconds of exploration and 50 seconds of formal training",
    ),
    "two": (
        recorded(GPU, OTHER_GPU, others=0), 2, CONFIRMED,
        "formal/attempt-001 used 2 GPUs, and the task gives 1: GPU-1 for 50 s, GPU-2 for 50 s",
    ),
    "a stranger's process": (
        recorded(TAKEN_GPU, others=1), 2, SUSPECTED,
        "formal/attempt-001: on its GPUs computed what is no known process of its program's: process 77 for 50 s",
    ),
    "no process is named": (
        recorded(SILENT_GPU, others=1), 2, UNKNOWN,
        UNNAMED,
    ),
    "the driver said nothing, on two": (
        recorded(), 2, UNKNOWN, NOT_RECORDED,
    ),
    "no record, on two": (
        unrecorded, 2, UNKNOWN, NOT_RECORDED,
    ),
    "no record, on one": (
        unrecorded, 1, NONE, "1 GPU and no other, used by nobody else, in 50 seconds of exploration",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_the_record_of_a_formal_try_says_which_gpus_it_used(name: str, evidence: Evidence, finding: Find) -> None:
    change, machine, verdict, sentence = RECORDS[name]
    found = finding("single_device", on_one_gpu(evidence, change, machine=machine))
    assert (found.verdict, found.sentence) == (verdict, sentence)
    assert all(control.found for control in found.controls)


def test_a_formal_try_of_a_task_without_gpus_used_none(evidence: Evidence, finding: Find) -> None:
    change = recorded(GPU)
    found = finding("single_device", replace(evidence, formals=(change(evidence.formals[0]),)))
    assert (found.verdict, found.sentence) == (
        CONFIRMED, "formal/attempt-001 used 1 GPU, and the task gives 0: GPU-1 for 50 s",
    )  # fmt: skip


def test_a_formal_record_has_controls_of_its_own(evidence: Evidence, finding: Find) -> None:
    def controls(evidence: Evidence) -> int:
        return sum("formal try" in one.name for one in finding("single_device", evidence).controls)

    assert controls(on_one_gpu(evidence, unrecorded)) == 0
    assert controls(on_one_gpu(evidence, recorded(GPU))) == 2
