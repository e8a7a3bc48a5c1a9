"""An attempt's files, read once into `Evidence`: each one held against the receipt of its folder before it counts."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from opd.protocol.attempts.attempt import EVENTS, OUTCOME, RULING, RUN, TASK_LOCK, Attempt
from opd.protocol.attempts.events import Event
from opd.protocol.attempts.evidence import Evidence as Standing
from opd.protocol.attempts.evidence import Seen
from opd.protocol.attempts.verify import verify
from opd.protocol.audit.carried import carried
from opd.protocol.audit.evidence import (
    Asked,
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
from opd.protocol.audit.reading import Folder, Reading, is_file
from opd.protocol.audit.states import states
from opd.protocol.clock import now
from opd.protocol.explorer.proxy import Proxy
from opd.protocol.explorer.trajectory import ATIF, FOLDER
from opd.protocol.inputs import INPUTS_LOCK, Inputs, measure
from opd.protocol.install import install_sha256
from opd.protocol.isolation import ISOLATION
from opd.protocol.openings.opened import OPENED, OPENED_FILES, Opened
from opd.protocol.openings.opened import Line as Opening
from opd.protocol.sandbox.probes import Isolation
from opd.protocol.stages.formal import CHECKOUT, ORDER
from opd.protocol.stages.submission import PATCH
from opd.protocol.supervision.device import DEVICE, PROCESSES, Second
from opd.records.attempts import Exploration, Final, Formal, Identity, RetryOrder, Stage, Submission, Validation
from opd.records.causes import Ruling
from opd.records.errors import AskedWrongly
from opd.records.receipts import RECEIPT, Receipt
from opd.records.scores import Score
from opd.records.tasks import ArtifactRule, Task
from opd.records.trajectories import Trajectory, read_trajectory
from opd.records.trees import Entry

_SCORE = "evaluation/score.json"
_RUN = "run.json"  # a trainer's own record, beside its checkpoints


def collect(attempt: Attempt) -> Evidence:
    """All that is sealed, now; damage is in `verification` and in `unread`, and is nobody's exception.

    Raises `AskedWrongly` where not even run.json can be read.
    """
    standing, reading = Standing(attempt, now()), Reading(attempt.folder)
    identity = reading.settings(Identity, RUN)
    if identity is None:
        raise AskedWrongly(f"{attempt.folder / RUN} can't be read: {'; '.join(reading.unread)}")
    inputs = reading.settings(Inputs, INPUTS_LOCK)
    if inputs is not None:
        inputs = reading.with_value(inputs, inputs.value.under(attempt.folder))
    task = _task(reading, identity)
    folders = {seen.place.name: reading.folder(seen) for seen in standing.all() if seen.receipt}
    return Evidence(
        folder=attempt.folder,
        identity=identity,
        task=task,
        inputs=inputs,
        log=_log(reading, standing.log.events),
        explorations=tuple(_exploration(folders[seen.place.name], seen) for seen in standing.sealed(Stage.EXPLORE)),
        submission=_submission(folders, standing.submission),
        formals=tuple(
            _formal(folders[seen.place.name], seen, _output(task)) for seen in standing.sealed(Stage.FORMAL)
        ),
        counted=standing.counted.place.name if standing.counted else None,
        validations=tuple(_checked(folders[one.place.name], one) for one in standing.sealed(Stage.VALIDATION)),
        finals=tuple(_evaluated(folders[one.place.name], one) for one in standing.sealed(Stage.FINAL)),
        verification=verify(attempt),
        now=_now(inputs),
        files=tuple(_files(reading, folders, standing)),
        states=tuple(states(folders)),
        rulings=tuple(_rulings(reading, standing)),
        unread=tuple(reading.unread),
    )


def _task(reading: Reading, identity: Held[Identity]) -> Held[Task] | None:
    """The task, while it is the one that the attempt was made for."""
    task = reading.settings(Task, TASK_LOCK)
    if task is not None and task.value.digest != identity.value.task_sha256:
        reading.unread.append(f"{TASK_LOCK}: another task than the attempt was made for")
        return None
    return task


def _log(reading: Reading, events: tuple[Event, ...]) -> Held[tuple[Event, ...]]:
    """The events as far as the chain is whole."""
    return reading.held(EVENTS, events)


def _exploration(folder: Folder, seen: Seen) -> ExploreTry:
    return ExploreTry(
        name=seen.place.name,
        outcome=seen.outcome or "",
        receipt=folder.receipt,
        facts=folder.settings(Exploration, OUTCOME),
        isolation=folder.settings(Isolation, ISOLATION),
        measured=tuple(_measured(folder)),
        asked=folder.lines("desk.jsonl", _asked),
        commands=folder.lines("commands.jsonl", _command),
        started=folder.lines(PROCESSES, _started),
        seconds=_seconds(folder),
        runs=folder.lines("runs.jsonl", lambda _, value: folder.one(Entry, _without(value, "kept"))),
        trajectory=_trajectory(folder),
    )


def _measured(folder: Folder) -> list[Measured]:
    """Its measurements, each a sealed folder in the folder."""
    names = sorted({entry.split("/")[1] for entry in folder.entries if entry.startswith("proxy/") and "/" in entry})
    found = []
    for name in names:
        receipt = folder.settings(Receipt, f"proxy/{name}/{RECEIPT}")
        facts = folder.settings(Proxy, f"proxy/{name}/{OUTCOME}")
        if receipt is None or facts is None:
            folder.leave_out(f"proxy/{name}", "no whole measurement")
            continue
        score = folder.settings(Score, f"proxy/{name}/{_SCORE}")
        found.append(Measured(name=f"{folder.name}/proxy/{name}", facts=facts, receipt=receipt, score=score))
    return found


def _asked(line: int, value: dict[str, Any]) -> Asked:
    return Asked(
        line=line,
        command=str(value["command"]),
        arguments=dict(value["arguments"]),
        began=str(value["began"]),
        ended=str(value["ended"]),
        exit_code=int(value["exit"]),
        said=tuple(map(str, value["said"])),
    )


def _command(line: int, value: dict[str, Any]) -> Command:
    if "lost_bytes" in value:
        return Command(line=line, at=str(value["at"]), text="", lost_bytes=int(value["lost_bytes"]))
    text = value["command"] if "command" in value else value["as_it_came"]
    return Command(line=line, at=str(value["at"]), text=str(text))


def _started(line: int, value: dict[str, Any]) -> Started:
    return Started(line=line, at=str(value["at"]), pid=int(value["pid"]), command=str(value["command"]))


def _seconds(folder: Folder) -> Held[tuple[Second, ...]] | None:
    return folder.lines(DEVICE, lambda _, value: folder.one(Second, value))


def _trajectory(folder: Folder) -> Held[Trajectory] | None:
    path = f"{FOLDER}/{ATIF}"
    return folder.parsed(path, lambda _: read_trajectory(folder.place / path))


def _submission(folders: dict[str, Folder], seen: Seen | None) -> Handover | None:
    if seen is None:
        return None
    folder = folders[seen.place.name]
    return Handover(
        name=seen.place.name,
        receipt=folder.receipt,
        facts=folder.settings(Submission, OUTCOME),
        patch=folder.file(PATCH),
        carried=folder.parsed(PATCH, carried),
    )


def _output(task: Held[Task] | None) -> str:
    """Where a formal try's checkpoints lie, relative to the try."""
    pattern = task.value.contract.artifacts.pattern if task else ArtifactRule.model_fields["pattern"].default
    return f"{CHECKOUT}/{PurePosixPath(pattern).parent}"


def _claim(folder: Folder, output: str) -> Held[dict[str, Any]] | None:
    """What the candidate's trainer says of its run, where it wrote a JSON object; anything else says nothing."""
    file = folder.file(f"{output}/{_RUN}")
    return folder.object(file) if file else None


def _formal(folder: Folder, seen: Seen, output: str) -> FormalTry:
    facts = folder.settings(Formal, OUTCOME)
    places = tuple(f"{one.folder}/" for one in facts.value.artifacts) if facts else ()
    return FormalTry(
        name=seen.place.name,
        number=seen.place.number,
        outcome=seen.outcome or "",
        receipt=folder.receipt,
        facts=facts,
        isolation=folder.settings(Isolation, ISOLATION),
        opened=folder.settings(Opened, OPENED),
        openings=folder.lines(OPENED_FILES, lambda _, value: folder.one(Opening, value)),
        order=folder.settings(RetryOrder, ORDER),
        started=folder.lines(PROCESSES, _started),
        seconds=_seconds(folder),
        artifact_files=tuple(one for one in folder.files() if places and folder.relative(one).startswith(places)),
        claim=_claim(folder, output),
    )


def _checked(folder: Folder, seen: Seen) -> Checked:
    return Checked(
        name=seen.place.name,
        step=seen.place.number,
        outcome=seen.outcome or "",
        receipt=folder.receipt,
        facts=folder.settings(Validation, OUTCOME),
    )


def _evaluated(folder: Folder, seen: Seen) -> Evaluated:
    return Evaluated(
        name=seen.place.name,
        step=seen.place.number,
        outcome=seen.outcome or "",
        receipt=folder.receipt,
        facts=folder.settings(Final, OUTCOME),
        score=folder.settings(Score, _SCORE),
    )


def _rulings(reading: Reading, standing: Standing) -> Iterator[Held[Ruling]]:
    for one in standing.rulings:
        folder = reading.folder_at(one.place.name)
        ruling = folder.settings(Ruling, RULING) if folder else None
        if ruling is not None:
            yield ruling


def _now(inputs: Held[Inputs] | None) -> Now:
    return Now(
        install_sha256=install_sha256(),
        inputs={one.role: _measured_now(Path(one.path)) for one in inputs.value.fixed} if inputs else {},
    )


def _measured_now(path: Path) -> str | None:
    try:
        return measure(path)
    except (OSError, AskedWrongly):
        return None


def _files(reading: Reading, folders: dict[str, Folder], standing: Standing) -> list[File]:
    """Of the base, every try but audits and reports, and every ruling."""
    closing = (f"{Stage.AUDIT}/", f"{Stage.REPORT}/")
    found = [file for name, folder in folders.items() if not name.startswith(closing) for file in folder.files()]
    for name in ("base", *(one.place.name for one in standing.rulings)):
        if is_file(reading.root / name / RECEIPT):
            folder = reading.folder_at(name)
            found += folder.files() if folder else ()
    return found


def _without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name != key}
