"""Formal replay: base and patch in a fresh checkout, the fixed inputs, and exactly `bash run.sh`.

    formal/attempt-002/
      retry-order.json       of a further try: after which one, and by which rule
      isolation.json         what the sandbox was seen to prevent, just before
      checkout/              base + patch, and what the program made of it
        checkpoints/         what it wrote there
      stdout.log stderr.log  what it printed: for people, nothing is decided by it
      opened-files.jsonl     which files it really opened, where the kernel tells
      device.jsonl           what the device did, second by second; processes.jsonl what ran meanwhile
      outcome.json

Nothing of exploration but the patch is to be had here, and nothing of an earlier try.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

from opd.protocol.attempts.attempt import OUTCOME, Attempt, Place
from opd.protocol.attempts.creating import base_of
from opd.protocol.attempts.evidence import Evidence as Standing
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.tries import Try, a_try
from opd.protocol.checkpoints import artifacts
from opd.protocol.checkpoints.strangers import Strange, opened
from opd.protocol.clock import Deadline, now
from opd.protocol.failures import devices, filesystems
from opd.protocol.failures.causes import classify, read_claim
from opd.protocol.inputs import changed, locked
from opd.protocol.isolation import record_isolation
from opd.protocol.machine import Machine
from opd.protocol.openings.declared import declared_places
from opd.protocol.openings.recording import recording
from opd.protocol.patches.patch import checkout
from opd.protocol.phases import WORKSPACE
from opd.protocol.sandbox.ladder import new_mark
from opd.protocol.stages.submission import PATCH
from opd.protocol.supervision.device import Recorder
from opd.protocol.supervision.processes import marked
from opd.protocol.supervision.supervise import Ended, supervise
from opd.protocol.supervision.usage import SPARED_BYTES, Sample, Watch
from opd.protocol.views import candidate_view
from opd.records.attempts import Artifact, Formal, Replayed, RetryOrder, Stage, Submission
from opd.records.causes import Cause, DeviceProbe, Ending, Evidence, Verdict
from opd.records.checkpoints import Found
from opd.records.errors import AnswerIsNo
from opd.records.failures import Failure
from opd.records.files import sha256, write_json
from opd.records.receipts import RECEIPT, Receipt, read_receipt
from opd.records.settings import read

RUN = ("bash", "run.sh")
ORDER = "retry-order.json"
CHECKOUT = "checkout"
_ENDINGS = {
    "ended": Ending.ENDED,
    "deadline": Ending.DEADLINE,
    "stopped": Ending.STOPPED,
    "limit": Ending.LIMIT,
    "lost": Ending.LOST,
    "not_started": Ending.NOT_STARTED,
}
_OUTCOMES = {
    Verdict.NONE: Replayed.COMPLETED,
    Verdict.CANDIDATE: Replayed.FAILED_CANDIDATE,
    Verdict.SHARED_FS: Replayed.INFRA_FAILED,
    Verdict.DEVICE: Replayed.INFRA_FAILED,
    Verdict.RULED: Replayed.INFRA_FAILED,
    Verdict.INTERRUPTED: Replayed.INTERRUPTED,
    Verdict.AMBIGUOUS: Replayed.AMBIGUOUS,
}
_LEAVES_ARTIFACTS = {Replayed.COMPLETED, Replayed.AMBIGUOUS}  # a ruling may make the second the first


def replay(attempt: Attempt, holder: Holder, machine: Machine, *, cancelled: Callable[[], bool]) -> Receipt:
    """The receipt of one formal try of the submission.

    Raises `AnswerIsNo` when a fixed input has changed, before or meanwhile.
    """
    place = attempt.next(Stage.FORMAL)
    submission = read(Submission, attempt.submission.folder / OUTCOME)
    patch = (attempt.submission.folder / PATCH).read_bytes()
    inputs = locked(attempt)
    order = _order(attempt, place, submission)
    if sentences := changed(inputs):
        raise AnswerIsNo("; ".join(sentences))
    made_from = {
        f"{attempt.submission.name}/{RECEIPT}": sha256(attempt.submission.folder / RECEIPT),
        "patch": submission.patch_sha256,
        "base": submission.base_sha256,
        "install": attempt.identity.install_sha256,
        **{one.role: one.sha256 for one in inputs.fixed},
    }
    if order is not None:
        made_from[f"{order.after}/{RECEIPT}"] = order.receipt_sha256
    with a_try(attempt, holder, place, made_from=made_from) as this:
        if order is not None:
            write_json(this.folder / ORDER, order.resolved())
        record_isolation(machine, this.folder)
        tree_sha256 = checkout(patch, base_of(attempt), this.folder / CHECKOUT, tree_sha256=submission.patched_sha256)
        replayed = _Replay(attempt, this, machine)
        ended = replayed.supervised(cancelled)
        if sentences := changed(inputs):
            raise AnswerIsNo(f"a fixed input changed while it ran: {'; '.join(sentences)}")
        replayed.close(ended, submission=submission, checkout_sha256=tree_sha256)
    return read_receipt(place.folder)


class _Replay:
    """One run of `bash run.sh`, and what came of it."""

    def __init__(self, attempt: Attempt, this: Try, machine: Machine) -> None:
        self._attempt, self._this, self._machine = attempt, this, machine
        self._contract = attempt.task.contract
        self._inputs = locked(attempt)
        pattern = PurePosixPath(self._contract.artifacts.pattern)
        self._output_place = pattern.parent
        self._checkout = this.folder / CHECKOUT
        self._output = self._checkout / pattern.parent
        self._output.mkdir(parents=True, exist_ok=True)
        self._devices: DeviceProbe | None = None
        self._storage = filesystems.look(self._output)
        self._unexpected: tuple[str, ...] = ()

    def supervised(self, cancelled: Callable[[], bool]) -> Ended:
        """How it ended."""
        budgets, this = self._contract.budgets, self._this
        self._devices = devices.probe() if self._contract.needs.gpus else None
        view = candidate_view(
            contract=self._contract,
            inputs=self._inputs,
            checkout=self._checkout,
            gpus=self._machine.gpus,
        )
        mark = new_mark()
        this.say("started", mark=mark)

        recorder = Recorder(this.folder, gpus=self._machine.uuids, living=lambda: marked(mark))

        def tick(sample: Sample) -> None:
            this.beat()
            recorder.add(sample)

        launch = self._machine.rung.command(view, RUN, mark=mark)
        places = declared_places(
            self._contract, self._inputs, view,
            attempt=self._attempt.folder, checkout=self._checkout, output=self._output_place,
        )  # fmt: skip
        with recorder.open(), recording(this.folder, places, mark=mark) as seen:
            ended = supervise(
                replace(launch, argv=tuple(seen.wrapped(launch.argv))),
                deadline=Deadline(this.watch, seconds=this.watch.active_seconds + budgets.formal_seconds),
                grace_seconds=min(30.0, budgets.reserve_seconds / 2),
                out=this.folder / "stdout.log",
                err=this.folder / "stderr.log",
                stop=lambda: "by the operator" if cancelled() else None,
                tick=tick,
                watch=Watch(
                    folders=(self._checkout,),
                    folder_bytes=self._contract.needs.disk_bytes,
                    free_bytes=SPARED_BYTES,
                ),
            )
        self._unexpected = seen.opened().unexpected
        return ended

    def close(self, ended: Ended, *, submission: Submission, checkout_sha256: str) -> None:
        """The outcome: completed, or whose failure it was."""
        rule = self._contract.artifacts
        found = artifacts.find(self._checkout, pattern=rule.pattern, most=rule.most)
        claim, claim_fault = self._claim()
        cause = classify(self._evidence(ended, found, claim, claim_fault))
        outcome = _OUTCOMES[cause.verdict]
        if outcome is Replayed.FAILED_CANDIDATE and found.checkpoints:
            outcome = Replayed.COMPLETED  # what it left whole before it failed counts, and its failure is named
        facts = Formal(
            patch_sha256=submission.patch_sha256,
            checkout_sha256=checkout_sha256,
            inputs_sha256={one.role: one.sha256 for one in self._inputs.fixed},
            isolation=self._machine.rung.name,
            exit_code=ended.exit_code,
            signal=ended.signal,
            stop=_stop(ended),
            seconds=round(ended.active_seconds, 3),
            given_seconds=self._contract.budgets.formal_seconds,
            last_step=claim.step if claim else None,
            artifacts=self._artifacts(found) if outcome in _LEAVES_ARTIFACTS else (),
            passed_over=found.passed_over,
            left_processes=tuple(life.command for life in ended.left_processes),
            unexpected_files=self._unexpected,
            cause=cause,
        )
        because = None if cause.verdict is Verdict.NONE else cause.because[0]
        self._this.end(outcome, facts, because=because)

    def _artifacts(self, found: Found) -> tuple[Artifact, ...]:
        return tuple(
            Artifact(
                step=one.step,
                folder=f"{CHECKOUT}/{one.folder}",
                sha256=artifacts.sha256_of(self._checkout / one.folder),
            )
            for one in found.checkpoints
        )

    def _claim(self) -> tuple[Failure | None, str | None]:
        """What the candidate's own program says of its end: never believed alone."""
        try:
            with opened(self._output) as folder:
                return read_claim(folder)
        except Strange as error:
            return None, error.says

    def _evidence(self, ended: Ended, found: Found, claim: Failure | None, claim_fault: str | None) -> Evidence:
        storage_probe = filesystems.probe(self._output)
        return Evidence(
            ending=_ENDINGS[ended.reason],
            because=ended.stopped_because or "",
            exit_code=ended.exit_code,
            signal=ended.signal,
            oom_killed=ended.oom_killed,
            artifacts=len(found.checkpoints),
            output=(str(WORKSPACE / self._output_place), str(self._output)),
            working_folder=str(WORKSPACE),
            claim=claim,
            claim_fault=claim_fault,
            storage=self._storage,
            storage_probe=storage_probe,
            devices_before=self._devices,
            devices_after=devices.probe(after=self._devices) if self._devices else None,
        )


def _stop(ended: Ended) -> str:
    """What ended it, in a word."""
    if ended.reason == "deadline":
        return "wall_clock"
    if ended.reason != "ended":
        return ended.reason
    return "by_itself" if ended.exit_code == 0 else "error"


def _order(attempt: Attempt, place: Place, submission: Submission) -> RetryOrder | None:
    """Why there is a further try; None for the first."""
    standing = Standing(attempt, now())
    over = standing.sealed(Stage.FORMAL)
    if not over:
        return None
    last = over[-1]
    assert last.receipt is not None, "what is sealed has a receipt"
    assert last.outcome is not None, "and an outcome"
    ruling = standing.ruling_on(last.place.name)
    return RetryOrder(
        after=last.place.name,
        outcome=last.outcome,
        rule=ruling.because if ruling else _rule_of(last.place, last.outcome),
        by=ruling.by if ruling else "rule",
        patch_sha256=submission.patch_sha256,
        receipt_sha256=sha256(last.place.folder / RECEIPT),
        number=place.number,
        most=1 + attempt.task.contract.budgets.formal_retries,
    )


def _rule_of(place: Place, outcome: str) -> str:
    """The rule of the classification, where there was one; an orchestrator that died left none."""
    if not (place.folder / OUTCOME).is_file():
        return outcome
    cause: Cause = read(Formal, place.folder / OUTCOME).cause
    return f"{cause.rule} (rules {cause.rules_version}, {cause.rules_sha256[:12]}…)"
