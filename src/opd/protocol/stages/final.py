"""The final evaluation: each valid artifact on its own, by the task's final protocol and no other.

    final/step-002080/
      evaluation/      what `opd evaluate` of the install wrote: score.json, samples.jsonl, generations
      stdout.log  stderr.log
      outcome.json

One that is interrupted goes on where it was: what was drawn is not drawn again. One that can't be brought to its end
has no score, and says why; its protocol is never loosened to get one.
"""

from collections.abc import Callable
from pathlib import Path

from opd.protocol.at_hand import near
from opd.protocol.attempts.attempt import OUTCOME, Attempt
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.tries import Try, a_try
from opd.protocol.clock import Deadline
from opd.protocol.inputs import locked
from opd.protocol.machine import Machine
from opd.protocol.measures import evaluation, read_score
from opd.protocol.programs import Judge, last_words
from opd.protocol.stages.validation import artifact_of
from opd.protocol.supervision.supervise import Ended
from opd.records.attempts import Evaluated, Final, Stage, Validation
from opd.records.errors import AnswerIsNo
from opd.records.files import sha256
from opd.records.receipts import RECEIPT, Receipt, read_receipt
from opd.records.settings import read

MOST_STARTS = 3  # an evaluation that fails again and again fails for a reason that stays


def evaluate(
    attempt: Attempt, holder: Holder, machine: Machine, *, formal: Path, step: int, cancelled: Callable[[], bool]
) -> Receipt:
    """The receipt of the final evaluation of one valid artifact.

    Raises `AnswerIsNo` when the evaluation's program failed; the same call goes on with it, so many times.
    """
    place, validation = attempt.place(Stage.FINAL, step), attempt.place(Stage.VALIDATION, step)
    artifact, folder = artifact_of(formal, step)
    facts = read(Validation, validation.folder / OUTCOME)
    if facts.artifact_sha256 != artifact.sha256 or facts.faults:
        raise AnswerIsNo(f"{validation.name} does not say that this artifact is valid")
    made_from = {
        f"{validation.name}/{RECEIPT}": sha256(validation.folder / RECEIPT),
        "artifact": artifact.sha256,
        "install": attempt.identity.install_sha256,
    }
    with a_try(attempt, holder, place, made_from=made_from) as this:
        out = this.folder / "evaluation"
        out.mkdir(exist_ok=True)
        ended = _run(attempt, this, machine, artifact=folder, out=out, cancelled=cancelled)
        _close(attempt, this, ended, step=step, artifact_sha256=artifact.sha256, out=out)
    return read_receipt(place.folder)


def _run(
    attempt: Attempt, this: Try, machine: Machine, *, artifact: Path, out: Path, cancelled: Callable[[], bool]
) -> Ended:
    contract = attempt.task.contract
    judge = Judge(contract, machine, code_sha256=attempt.identity.install_sha256)
    verifier = locked(attempt).path("verifier") if contract.final.judged else None
    beside = near(attempt.folder)
    run = evaluation(contract.final, verifier=verifier, workers=max(1, contract.needs.gpus), beside=beside)
    left = contract.budgets.final_seconds - this.before_seconds
    ended = judge.run(
        run.arguments,
        artifact=artifact,
        result=out,
        logs=this.folder,
        deadline=Deadline(this.watch, seconds=this.watch.active_seconds + left),
        others=run.shown,
        stop=lambda: "cancelled" if cancelled() else None,
        tick=lambda _: this.beat(),
        started=lambda mark: this.say("started", mark=mark),
    )
    evaluation(contract.final, verifier=verifier, beside=beside)  # the questions are still those that the task pins
    return ended


def _close(attempt: Attempt, this: Try, ended: Ended, *, step: int, artifact_sha256: str, out: Path) -> None:
    measure = attempt.task.contract.final
    missing = None
    if ended.reason == "stopped":
        raise AnswerIsNo(f"{this.place.name} was stopped; the same command goes on with it")
    if ended.reason == "deadline":
        missing = (
            f"it was not done after {attempt.task.contract.budgets.final_seconds:.0f} s, which is all that it has"
        )
    elif ended.exit_code != 0:
        missing = f"its program ended by {ended.signal or ended.exit_code}: {last_words(this.folder)}".rstrip(": ")
        if _starts(attempt, this) < MOST_STARTS:
            raise AnswerIsNo(f"{this.place.name}: {missing}; the same command goes on with it")
    score = None if missing else read_score(out, measure)
    if score is not None and score.model_digest != artifact_sha256:
        raise AnswerIsNo(f"{this.place.name}: the score is of {score.model_digest[:12]}…, not of this artifact")
    facts = Final(
        step=step,
        artifact_sha256=artifact_sha256,
        benchmark=measure.benchmark,
        protocol_sha256=score.protocol_digest if score else None,
        evaluator_sha256=attempt.identity.install_sha256,
        correct=score.correct if score else None,
        samples=measure.samples,
        mean=score.mean if score else None,
        stderr=score.stderr if score else None,
        cut_short=score.cut_short if score else None,
        seconds=round(this.before_seconds + this.watch.active_seconds, 3),
        missing=missing,
    )
    this.end(Evaluated.SCORED if score else Evaluated.FAILED, facts, because=missing)


def _starts(attempt: Attempt, this: Try) -> int:
    events = attempt.events.read()
    return sum(event.actor == this.place.name and event.kind in {"began", "went_on"} for event in events)
