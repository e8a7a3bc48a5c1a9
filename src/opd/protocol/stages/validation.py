"""Validation: each artifact that counts, by its files alone, then loaded in a process of its own.

validation/step-002080/
  loaded.json  stdout.log  stderr.log       what `opd load` of the install said
  control/                                  the same of the start, where it said nothing of the artifact
  outcome.json
"""

import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from opd.protocol.attempts.attempt import OUTCOME, Attempt
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.tries import Try, a_try
from opd.protocol.checkpoints.artifacts import sha256_of
from opd.protocol.checkpoints.structure import Input, check
from opd.protocol.clock import Deadline
from opd.protocol.inputs import locked
from opd.protocol.machine import Machine
from opd.protocol.phases import ARTIFACT, STUDENT
from opd.protocol.programs import Judge, last_words
from opd.protocol.views import RESULT
from opd.records.attempts import Artifact, Formal, Stage, Validated, Validation
from opd.records.checkpoints import Loaded, Structure
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import read_json, sha256
from opd.records.receipts import RECEIPT, Receipt, read_receipt
from opd.records.settings import read, validated

LOADED = "loaded.json"
CONTROL = "control"


def artifact_of(formal: Path, step: int) -> tuple[Artifact, Path]:
    """The artifact of this step that a formal try left, and where it lies; raises `AnswerIsNo` if it was changed."""
    facts = read(Formal, formal / OUTCOME)
    artifact = next((one for one in facts.artifacts if one.step == step), None)
    if artifact is None:
        raise AskedWrongly(
            f"{formal.name} has no artifact of step {step}; it has {[a.step for a in facts.artifacts]}"
        )
    folder = formal / artifact.folder
    if (now := sha256_of(folder)) != artifact.sha256:
        raise AnswerIsNo(f"{folder} has digest {now[:12]}…, and the formal try left {artifact.sha256[:12]}…")
    return artifact, folder


def validate(
    attempt: Attempt, holder: Holder, machine: Machine, *, formal: Path, step: int, cancelled: Callable[[], bool]
) -> Receipt:
    """The receipt of the validation of one artifact of a formal try."""
    place = attempt.place(Stage.VALIDATION, step)
    artifact, folder = artifact_of(formal, step)
    made_from = {
        f"formal/{formal.name}/{RECEIPT}": sha256(formal / RECEIPT),
        "artifact": artifact.sha256,
        "install": attempt.identity.install_sha256,
    }
    with a_try(attempt, holder, place, made_from=made_from) as this:
        structure = _structure(attempt, folder)
        loaded, failure = (None, None)
        if structure.valid:
            loaded, failure = _load(attempt, this, machine, folder, cancelled)
        faults = tuple(
            [fault.sentence for fault in structure.faults]
            + list(loaded.faults if loaded else ())
            + ([failure] if failure else [])
        )
        facts = Validation(
            step=step, artifact_sha256=artifact.sha256, structure=structure, loaded=loaded, faults=faults
        )
        this.end(Validated.INVALID if faults else Validated.VALID, facts, because=faults[0] if faults else None)
    return read_receipt(place.folder)


def _structure(attempt: Attempt, folder: Path) -> Structure:
    inputs = locked(attempt)
    start, teacher = (
        Input(role=role, folder=inputs.path(role), digest=inputs.sha256(role)) for role in ("student", "teacher")
    )
    return check(folder, attempt.task.contract.artifacts, start=start, others=[teacher])


def _load(
    attempt: Attempt, this: Try, machine: Machine, folder: Path, cancelled: Callable[[], bool]
) -> tuple[Loaded | None, str | None]:
    """What `opd load` says, or why it said nothing.

    Raises `AnswerIsNo` where it says nothing of the start either: then it is not the artifact's fault.
    """
    loaded, failure = _asked(attempt, this, machine, folder, cancelled, logs=this.folder)
    if loaded is None:
        start = locked(attempt).path("student")
        control, same = _asked(attempt, this, machine, start, cancelled, logs=this.folder / CONTROL)
        if control is None:
            raise AnswerIsNo(f"{this.place.name}: the judge's program does not load the start either: {same}")
    return loaded, failure


def _asked(
    attempt: Attempt, this: Try, machine: Machine, folder: Path, cancelled: Callable[[], bool], *, logs: Path
) -> tuple[Loaded | None, str | None]:
    budgets, inputs = attempt.task.contract.budgets, locked(attempt)
    result = logs / "result"
    shutil.rmtree(result, ignore_errors=True)  # of a validation that was interrupted
    result.mkdir(parents=True)
    judge = Judge(attempt.task.contract, machine, code_sha256=attempt.identity.install_sha256)
    ended = judge.run(
        ["load", ARTIFACT, "--like", STUDENT, "--out", RESULT / LOADED],
        artifact=folder,
        result=result,
        logs=logs,
        deadline=Deadline(this.watch, seconds=this.watch.active_seconds + budgets.validation_seconds),
        others={PurePosixPath(STUDENT): inputs.path("student")},
        stop=lambda: "cancelled" if cancelled() else None,
        tick=lambda _: this.beat(),
        started=lambda mark: this.say("started", mark=mark),
    )
    if ended.reason == "stopped":
        raise AnswerIsNo(f"{this.place.name} was stopped; the same command goes on with it")
    if not (result / LOADED).is_file():
        return None, f"it did not load: the program ended by {ended.reason}, {last_words(logs)}".rstrip(", ")
    return validated(Loaded, read_json(result / LOADED), source=LOADED), None
