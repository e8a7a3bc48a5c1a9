"""Evidence of an attempt in which all went well, made by hand: each test changes one thing of it.

evidence    on the embedded task: an exploration with two measurements that ended with little time left, a formal try
            that the clock stopped, two checkpoints, validated and scored
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.verify import Verification
from opd.protocol.audit.assessing import assess
from opd.protocol.audit.catalogue import checks
from opd.protocol.audit.evidence import (
    Asked,
    Carried,
    Checked,
    Command,
    Evaluated,
    Evidence,
    ExploreTry,
    File,
    FormalTry,
    Handover,
    Held,
    Measured,
    Now,
    Started,
)
from opd.protocol.explorer.proxy import Proxy
from opd.protocol.inputs import Fixed, Inputs
from opd.protocol.openings.opened import How, Opened
from opd.protocol.packages import catalogue
from opd.protocol.sandbox.probes import Isolation, Probed
from opd.protocol.sandbox.view import Guarantee
from opd.protocol.supervision.device import Second
from opd.records.attempts import Artifact, Exploration, Final, Formal, Identity, Submission, Validation
from opd.records.audits import Finding
from opd.records.causes import Cause, Ending, Verdict
from opd.records.causes import Evidence as Seen
from opd.records.checkpoints import Structure
from opd.records.receipts import NO_HEAD, Head, Receipt
from opd.records.scores import Protocol, Score
from opd.records.tasks import DataInput, Measure, Task
from opd.records.trajectories import Agent, Step, Trajectory
from opd.records.trees import Entry, Kind

INSTALL, PATCH, BASE, PATCHED = "1" * 64, "2" * 64, "3" * 64, "4" * 64
PROXY_PROTOCOL, FINAL_PROTOCOL = "5" * 64, "6" * 64
STEPS = {60: "7" * 64, 120: "8" * 64}
EXPLORE, FORMAL = "explore/attempt-001", "formal/attempt-001"
UTC = "2026-07-14T12:00:00.000Z"


def held(value: Any, file: str) -> Held[Any]:
    """The value, as if that file held it."""
    return Held(value=value, file=file, sha256="a" * 64, bytes=100)


def task() -> Task:
    """The embedded task."""
    found, _ = catalogue.find("arith_tiny")
    return found


def receipt(kind: str, name: str, outcome: str, **made_from: str) -> Held[Receipt]:
    """Of a try."""
    return held(
        Receipt(
            kind=kind, outcome=outcome, because=None, began_utc=UTC, ended_utc=UTC, active_seconds=1.0,
            opd_version="0.1.0", made_from=made_from, events=NO_HEAD, files=(),
        ),
        f"{name}/receipt.json",
    )  # fmt: skip


def isolation(name: str) -> Held[Isolation]:
    """Of a sandbox that prevents all."""
    probes = tuple(
        Probed(name=one, outcome="prevented", declared=True, inside="refused", outside="done") for one in Guarantee
    )
    return held(
        Isolation(
            rung="bubblewrap", version="0.8", refused={}, kernel="Linux", machine="x86_64", user="root", probes=probes
        ),
        f"{name}/isolation.json",
    )


def score(measure: Measure, *, mean: float, model: str, protocol: str) -> Score:
    """As `opd evaluate` would leave it for this measure."""
    return Score(
        benchmark=measure.benchmark, model="m", model_digest=model, protocol_digest=protocol, mean=mean,
        stderr=0.0129, stderr_naive=0.01, ci95=None, design_effect=None, icc=None, stderr_seeds=None,
        questions=measure.questions,
        samples=measure.samples, correct=round(mean * measure.samples), cut_short=0.05, answered=1.0, tokens=1,
        mean_tokens=1.0, verdicts={}, seconds=1.0, machine={},
        protocol=Protocol(
            benchmark=measure.benchmark, questions=measure.questions,
            samples_per_question=measure.samples_per_question, data_sha256="d" * 64, prompt=measure.prompt,
            temperature=measure.temperature, top_p=measure.top_p, top_k=measure.top_k,
            limit_tokens=measure.limit_tokens, seeds=measure.seeds, grader="rules",
        ),
    )  # fmt: skip


def measured(number: int, *, mean: float, ended: float) -> Measured:
    """A proxy that took eleven seconds."""
    name = f"{EXPLORE}/proxy/{number:03d}"
    taken = score(task().contract.proxy, mean=mean, model=f"{number}" * 64, protocol=PROXY_PROTOCOL)
    facts = Proxy(
        number=number, checkpoint=f"/runs/run-{number}/checkpoint-12", note=None, sha256=taken.model_digest,
        benchmark=taken.benchmark, protocol_sha256=PROXY_PROTOCOL, correct=taken.correct, samples=taken.samples,
        mean=taken.mean, stderr=taken.stderr, cut_short=taken.cut_short, seconds=11.0, began_at_seconds=ended - 11,
        ended_at_seconds=ended, missing=None,
    )  # fmt: skip
    return Measured(
        name=name,
        facts=held(facts, f"{name}/outcome.json"),
        receipt=receipt("proxy", name, "scored", install=INSTALL),
        score=held(taken, f"{name}/evaluation/score.json"),
    )


def exploration() -> ExploreTry:
    """Two measurements, 24 and 26 seconds after each other; 20 of 70 seconds are left."""
    seconds = tuple(
        Second(monotonic=float(at), utc=UTC, processes=2, cpu_share=0.0, evaluating=13 <= at < 24) for at in range(50)
    )
    said = Trajectory(
        schema_version="ATIF-v1.7",
        trajectory_id="t",
        agent=Agent(name="command", version="1"),
        steps=(
            Step(step_id=1, source="user", message="Improve it."),
            Step(step_id=2, source="agent", message="Done."),
        ),
    )
    entry = Entry(path="run-1/model.safetensors", kind=Kind.FILE, mode=0o644, bytes=9, sha256="e" * 64)
    asked = Asked(line=1, command="submit", arguments={}, began=UTC, ended=UTC, exit_code=0, said=("accepted",))
    return ExploreTry(
        name=EXPLORE,
        outcome="submitted",
        receipt=receipt("explore", EXPLORE, "submitted", install=INSTALL),
        facts=held(
            Exploration(
                isolation="bubblewrap", exit_code=0, signal=None, seconds=50.0, given_seconds=70.0,
                suspended_seconds=0.0, idle_seconds=3.0, shortest_pipeline_seconds=24.0, proxies=2, left_processes=(),
                recovery=None,
            ),
            f"{EXPLORE}/outcome.json",
        ),
        isolation=isolation(EXPLORE),
        measured=(measured(1, mean=0.6275, ended=24.0), measured(2, mean=0.6470, ended=50.0)),
        asked=held((asked,), f"{EXPLORE}/desk.jsonl"),
        commands=held((Command(line=1, at=UTC, text="bash run.sh"),), f"{EXPLORE}/commands.jsonl"),
        started=held((Started(line=1, at=UTC, pid=10, command="bash"),), f"{EXPLORE}/processes.jsonl"),
        seconds=held(seconds, f"{EXPLORE}/device.jsonl"),
        runs=held((entry,), f"{EXPLORE}/runs.jsonl"),
        trajectory=held(said, f"{EXPLORE}/trajectory/atif.json"),
    )  # fmt: skip


def submission() -> Handover:
    """With twenty seconds left."""
    facts = Submission(
        origin="explorer", explored_in=EXPLORE, note="shuffle the rows", patch_sha256=PATCH, patch_bytes=10,
        base_sha256=BASE, patched_sha256=PATCHED, changed_paths=("run.sh",), remaining_seconds=20.0,
        processes=("bash explorer.sh", "python -IS /opd/bin/submit"),
    )  # fmt: skip
    return Handover(
        name="submission",
        receipt=receipt("submission", "submission", "sealed"),
        facts=held(facts, "submission/outcome.json"),
        patch=File(path="submission/candidate.patch", bytes=10, sha256=PATCH),
        carried=held(Carried(added_bytes=9_000, packed_bytes=2_500, digits=0), "submission/candidate.patch"),
    )


def cause(verdict: Verdict = Verdict.NONE, **evidence: Any) -> Cause:
    """Of a formal try's end."""
    seen = {
        "ending": Ending.ENDED, "exit_code": 0, "signal": None, "oom_killed": False, "artifacts": 2,
        "output": ("/workspace/checkpoints",), "working_folder": "/workspace", "claim": None,
    }  # fmt: skip
    return Cause(
        verdict=verdict, rule="not_a_failure", because=("its time was over",), ruled=False, rules_version="1",
        rules_sha256="0" * 64, evidence=Seen.model_validate(seen | evidence),
    )  # fmt: skip


def formal() -> FormalTry:
    """Stopped by the clock at 120."""
    data = task().contract.data.given_sha256
    facts = Formal(
        patch_sha256=PATCH, checkout_sha256=PATCHED, inputs_sha256={"data": data, "student": "b" * 64},
        isolation="bubblewrap", exit_code=0, signal=None, stop="wall_clock", seconds=149.0, given_seconds=150.0,
        last_step=120, artifacts=tuple(
            Artifact(step=step, folder=f"checkout/checkpoints/checkpoint-{step}", sha256=digest)
            for step, digest in STEPS.items()
        ),
        passed_over={}, left_processes=(), unexpected_files=(), cause=cause(),
    )  # fmt: skip
    opened = Opened(
        how=How.FANOTIFY, because=None, files={}, inputs={"student": 1, "data": 1}, unexpected=(), doubtful=(),
        others=(), lost=0, overflowed=False, left_out=0, not_covered={},
    )  # fmt: skip
    weights = tuple(
        File(
            path=f"{FORMAL}/checkout/checkpoints/checkpoint-{step}/model.safetensors", bytes=9, sha256=f"{step:064d}"
        )
        for step in STEPS
    )
    return FormalTry(
        name=FORMAL,
        number=1,
        outcome="completed",
        receipt=receipt("formal", FORMAL, "completed", install=INSTALL),
        facts=held(facts, f"{FORMAL}/outcome.json"),
        isolation=isolation(FORMAL),
        opened=held(opened, f"{FORMAL}/opened.json"),
        openings=held((), f"{FORMAL}/opened-files.jsonl"),
        order=None,
        started=held((Started(line=1, at=UTC, pid=20, command="bash run.sh"),), f"{FORMAL}/processes.jsonl"),
        seconds=held(
            tuple(
                Second(monotonic=float(at), utc=UTC, processes=2, cpu_share=1.0, evaluating=False)
                for at in range(149)
            ),
            f"{FORMAL}/device.jsonl",
        ),
        artifact_files=weights,
        claim=None,
    )


def checked(step: int) -> Checked:
    """A valid checkpoint."""
    structure = Structure(bytes=1, tensors=1, parameters=1, dtypes={}, tensor_sha256=None, compared=(), faults=())
    facts = Validation(step=step, artifact_sha256=STEPS[step], structure=structure, loaded=None, faults=())
    name = f"validation/step-{step:06d}"
    return Checked(
        name=name, step=step, outcome="valid", receipt=receipt("validation", name, "valid"),
        facts=held(facts, f"{name}/outcome.json"),
    )  # fmt: skip


def evaluated(step: int, *, mean: float) -> Evaluated:
    """A scored checkpoint."""
    name = f"final/step-{step:06d}"
    taken = score(task().contract.final, mean=mean, model=STEPS[step], protocol=FINAL_PROTOCOL)
    facts = Final(
        step=step, artifact_sha256=STEPS[step], benchmark=taken.benchmark, protocol_sha256=FINAL_PROTOCOL,
        evaluator_sha256=INSTALL, correct=taken.correct, samples=taken.samples, mean=mean, stderr=taken.stderr,
        cut_short=taken.cut_short, seconds=1.0, missing=None,
    )  # fmt: skip
    return Evaluated(
        name=name,
        step=step,
        outcome="scored",
        receipt=receipt("final", name, "scored", install=INSTALL),
        facts=held(facts, f"{name}/outcome.json"),
        score=held(taken, f"{name}/evaluation/score.json"),
    )


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    """All of it."""
    contract = task().contract
    roles = {"student": "b" * 64, "teacher": "c" * 64, "data": contract.data.given_sha256}
    for role, wanted in contract.fixed_inputs.items():
        if not isinstance(wanted, DataInput) and wanted.files_sha256:
            roles[role] = wanted.files_sha256
    inputs = Inputs(
        fixed=tuple(Fixed(role=role, path=f"/in/{role}", sha256=sha256) for role, sha256 in roles.items())
    )
    one = formal()
    assert one.facts is not None
    one = replace(one, facts=held(one.facts.value.model_copy(update={"inputs_sha256": roles}), one.facts.file))
    identity = Identity(
        case="c", task="arith_tiny", task_sha256=task().digest, harness="command", command=("bash", "explorer.sh"),
        shown=(), endpoint=None, model=None, effort=None, opd_version="0.1.0", install_sha256=INSTALL,
        base_sha256=BASE, created_utc=UTC,
    )  # fmt: skip
    whole = Verification(
        case="c", folders=(), unsealed=(), faults=(), lineage=(), contradictions=(),
        head=Head(seq=0, sha256="0" * 64), bytes=0, seconds=0.0,
    )  # fmt: skip
    return Evidence(
        folder=tmp_path,
        identity=held(identity, "run.json"),
        task=held(task(), "task.lock.json"),
        inputs=held(inputs, "inputs.lock.json"),
        log=held((), "events.jsonl"),
        explorations=(exploration(),),
        submission=submission(),
        formals=(one,),
        counted=FORMAL,
        validations=(checked(60), checked(120)),
        finals=(evaluated(60, mean=0.80), evaluated(120, mean=0.86)),
        rulings=(),
        verification=whole,
        now=Now(install_sha256=INSTALL, inputs=dict(roles)),
        files=(File(path="run.sh", bytes=7, sha256="9" * 64),),
        states=(),
        unread=(),
    )


@pytest.fixture
def finding() -> Callable[[str, Evidence], Finding]:
    """`finding("lineage", evidence)`: what that check says, with its controls."""
    return lambda name, evidence: assess(name, checks()[name], evidence)
