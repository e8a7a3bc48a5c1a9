"""The folder of a formal try: a checkout, what `bash run.sh` made of it, and whose failure its end was."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.protocol.document.course import START_UP_SECONDS
from tests.protocol.document.exploration import isolation
from tests.protocol.document.facts import Facts
from tests.protocol.document.ledger import GPU
from tests.protocol.document.runs import metrics, resolved, summary
from tests.protocol.document.sources import RECIPE
from tests.protocol.document.stand_ins import write_model

from opd.protocol.checkpoints.artifacts import sha256_of
from opd.protocol.clock import utc
from opd.protocol.failures.causes import classify
from opd.protocol.openings.opened import OPENED, OPENED_FILES, How, Kind, Line, Opened
from opd.protocol.patches.source import Tree, write
from opd.records.attempts import Artifact, Formal, Submission
from opd.records.causes import Cause, Device, DeviceProbe, Ending, Evidence, Storage, StorageProbe, Verdict
from opd.records.failures import Failure, Raised, errno_name
from opd.records.files import write_json

CHECKPOINTS = Path("checkout/checkpoints")
STEP_SECONDS = 19.8
_DEVICES = DeviceProbe(
    devices=(Device(uuid=GPU, uncorrected_errors=0),), answered=True, said="", log_sequence=None, xids=()
)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a formal try ran on."""

    facts: Facts
    patched: Tree
    submission: Submission
    inputs: dict[str, str]  # digest by role
    began: float  # seconds since 1970


def write_failed(ran: Ran, folder: Path) -> tuple[Formal, float]:
    """The try that failed writing a checkpoint on the shared file system, and how many seconds it took."""
    facts = ran.facts
    step, number = facts.first_try_step, facts.first_try_errno
    assert number is not None, "there was such a try"
    seconds = round(START_UP_SECONDS + STEP_SECONDS * step + 4.4, 3)
    _write_checkout(ran, folder, steps=step - 1, seconds=None)
    path = f"/workspace/checkpoints/checkpoint-{step}.partial/model.safetensors"
    name = errno_name(number)
    raised = (
        Raised(kind="opd.records.failures.NotWritten", message=f"checkpoint-{step} could not be written", path=path),
        Raised(kind="OSError", message="Communication error on send", errno=number, errno_name=name, path=path),
    )
    claim = Failure(
        exceptions=raised, errno=number, errno_name=name, path=path, phase="save", signal=None, step=step,
        seconds=seconds, checkpoint=None, state=None,
    )  # fmt: skip
    write_json(folder / CHECKPOINTS / "failure.json", claim.resolved())
    (folder / "stderr.log").write_text(f"{path}: errno {number}, {name}\n", encoding="utf-8")
    cause = classify(_evidence(folder, artifacts=0, exit_code=1, claim=claim))
    passed_over = {f"checkpoints/checkpoint-{step}.partial": "was not finished: it has no .complete"}
    return _formal(ran, cause, (), seconds=seconds, stop="error", last_step=step, passed_over=passed_over), seconds


def write_completed(ran: Ran, folder: Path) -> Formal:
    """The try that counts, with its checkpoints."""
    facts = ran.facts
    _write_checkout(ran, folder, steps=facts.last_step, seconds=facts.formal_seconds)
    (folder / "stderr.log").write_text("", encoding="utf-8")
    artifacts = []
    for one in facts.checkpoints:
        place = folder / CHECKPOINTS / f"checkpoint-{one.step}"
        write_model(place, seed=f"formal {one.step}", step=one.step)
        where = place.relative_to(folder).as_posix()
        artifacts.append(Artifact(step=one.step, folder=where, sha256=sha256_of(place)))
    _write_harness_files(facts, folder)
    cause = classify(_evidence(folder, artifacts=len(artifacts), exit_code=0, claim=None))
    assert cause.verdict is Verdict.NONE, cause.because
    return _formal(
        ran, cause, tuple(artifacts), seconds=facts.formal_seconds, stop=facts.stop, last_step=facts.last_step
    )


def _write_harness_files(facts: Facts, folder: Path) -> None:
    """What the harness around the formal run left of its own, and nobody came back to."""
    if facts.control_file:
        control = {
            "status": "running", "attempt_status": "terminal_behavior", "formal_result": "succeeded",
            "patch": "submission/candidate.patch",
        }  # fmt: skip
        write_json(folder / "control.json", control)
    if facts.formal_only_manifest:
        phases = {"formal": {"status": "succeeded"}, "score": {"status": "not_created"}}
        write_json(folder / "manifest.json", {"kind": "formal_only", "phases": phases})


def _write_checkout(ran: Ran, folder: Path, *, steps: int, seconds: float | None) -> None:
    write_json(folder / "isolation.json", isolation().resolved())
    write(ran.patched, folder / "checkout")
    output = folder / CHECKPOINTS
    output.mkdir()
    facts = ran.facts
    limits = [f"budget.max_wall_seconds={facts.formal_given_seconds}", "budget.reserve_seconds=1200.0"]
    if facts.stop == "steps":
        limits.append(f"budget.steps={facts.last_step}")
    recipe = resolved(ran.patched[RECIPE].content.decode(), limits)
    write_json(output / "recipe.json", recipe)
    each = STEP_SECONDS if seconds is None else (seconds - START_UP_SECONDS) / steps
    lines = (json.dumps(metrics(step, each, rewarded=False)) + "\n" for step in range(1, steps + 1))
    (output / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "stdout.log").write_text(f"{steps} steps\n", encoding="utf-8")
    if seconds is not None:
        left = [one.step for one in facts.checkpoints]
        write_json(output / "run.json", summary(recipe, steps, left, facts.stop, seconds).resolved())
    _write_opened(ran, folder)


def _write_opened(ran: Ran, folder: Path) -> None:
    lines = [line.resolved() for line in _opened(ran, folder)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / OPENED_FILES).write_text(text, encoding="utf-8")
    kinds = {kind: sum(line["kind"] == kind for line in lines) for kind in (Kind.CHECKOUT, Kind.INPUT, Kind.SYSTEM)}
    inputs = {"student": 4, "teacher": 4, "data": 1}
    opened = Opened(
        how=How.FANOTIFY, because=None, files=kinds, inputs=inputs, unexpected=(), doubtful=(), others=(), lost=0,
        overflowed=False, left_out=0, not_covered={},
    )  # fmt: skip
    write_json(folder / OPENED, opened.resolved())


def _opened(ran: Ran, folder: Path) -> Iterator[Line]:
    models = ("config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json")
    found = [("/usr/bin/bash", Kind.SYSTEM, "system"), ("/usr/bin/python3.11", Kind.SYSTEM, "system")]
    found += [(f"/workspace/{path}", Kind.CHECKOUT, "checkout") for path in sorted(map(str, ran.patched))]
    found += [(f"/inputs/{role}/{name}", Kind.INPUT, role) for role in ("student", "teacher") for name in models]
    found += [("/inputs/train.jsonl", Kind.INPUT, "data")]
    for inode, (path, kind, role) in enumerate(found, start=4_000):
        yield Line(
            path=path, kind=kind, role=role, first_utc=utc(ran.began + 2.0), count=1, executed=kind is Kind.SYSTEM,
            by="bash", certain=True, device=64_513, inode=inode,
        )  # fmt: skip


def _evidence(folder: Path, *, artifacts: int, exit_code: int, claim: Failure | None) -> Evidence:
    """A share below an overlay, which doesn't show itself as a network's; it took our own write again afterwards."""
    output = str(Path("/runs") / folder.parent.parent.name / "formal" / folder.stem / CHECKPOINTS)
    storage = Storage(
        folder=output, kind="overlay", source="overlay", mount_point="/", device="0:61", network=False,
        read_only=False, free_bytes=3_871_002_624_000, free_files=None,
    )  # fmt: skip
    probe = StorageProbe(storage=storage, ok=True, failed_at=None, errno=None, errno_name=None, seconds=0.21)
    return Evidence(
        ending=Ending.ENDED, exit_code=exit_code, signal=None, oom_killed=False, artifacts=artifacts,
        output=("/workspace/checkpoints", output), working_folder="/workspace", claim=claim, storage=storage,
        storage_probe=probe, devices_before=_DEVICES, devices_after=_DEVICES,
    )  # fmt: skip


def _formal(
    ran: Ran, cause: Cause, artifacts: tuple[Artifact, ...], *, seconds: float, stop: str, last_step: int,
    passed_over: dict[str, str] | None = None,
) -> Formal:  # fmt: skip
    return Formal(
        patch_sha256=ran.submission.patch_sha256, checkout_sha256=ran.submission.patched_sha256,
        inputs_sha256=ran.inputs, isolation="bubblewrap", exit_code=cause.evidence.exit_code, signal=None, stop=stop,
        seconds=seconds, given_seconds=ran.facts.formal_given_seconds, last_step=last_step, artifacts=artifacts,
        passed_over=passed_over or {}, left_processes=(), unexpected_files=(), cause=cause,
    )  # fmt: skip
