"""What an attempt has come to: a function of its receipts, its log, its lease and the time; stored nowhere.

    submission  ←  what an exploration handed in
    formal      ←  the first try that did not end for the machine's sake; earlier ones are history
    validation  ←  each artifact of that try
    final       ←  each artifact that is valid
    official    ←  the best of the finals
    audit       ←  when nothing else is due: of all that is sealed; another, when more is sealed since
    report      ←  of that audit

What does not fit together is a contradiction, and is said; nothing is chosen silently.
"""

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.contradictions import contradictions
from opd.protocol.attempts.evidence import Evidence, Seen
from opd.protocol.clock import Instant, now
from opd.records.attempts import (
    ANOTHER_TRY,
    Due,
    Liveness,
    Official,
    Replayed,
    Stage,
    Status,
    TryState,
    Validated,
)
from opd.records.audits import Audit, Axis, Verdict

_AT_WORK = {
    Stage.EXPLORE: "exploring",
    Stage.SUBMISSION: "exploring",
    Stage.FORMAL: "replaying",
    Stage.VALIDATION: "validating",
    Stage.FINAL: "evaluating",
    Stage.AUDIT: "auditing",
    Stage.REPORT: "reporting",
}
_COME_TO = {
    Stage.FORMAL: "submitted",
    Stage.VALIDATION: "replayed",
    Stage.FINAL: "validated",
    Stage.REPORT: "audited",
}


def status(attempt: Attempt, *, at: Instant | None = None) -> Status:
    """What the attempt has come to at this moment. Nothing is written; with `at`, the same files give the same."""
    at = at or now()
    evidence = Evidence(attempt, at)
    found = tuple(contradictions(evidence, at))
    due, waits_for = ((), None) if evidence.running else _due(evidence)
    if not (due or waits_for or evidence.running):
        due = _due_at_last(evidence)
    official, missing = _result(evidence, found)
    return Status(
        case=attempt.identity.case,
        task=attempt.identity.task,
        state="inconsistent" if found else _state(evidence, due, waits_for),
        tries=tuple(_try_state(seen) for seen in evidence.all()),
        due=due,
        waits_for=waits_for,
        official=official,
        missing=missing,
        verdicts=_verdicts(evidence),
        contradictions=found,
    )


def _result(evidence: Evidence, contradictions: tuple[str, ...]) -> tuple[Official | None, str | None]:
    """The official result, or why there is none: of files that contradict each other none is."""
    official = _official(evidence)
    if official is None:
        return None, _why_no_score(evidence)
    if contradictions:
        places = "one place" if len(contradictions) == 1 else f"{len(contradictions)} places"
        return None, f"its files contradict each other in {places}; while they do, no score of it is official"
    return official, None


def _due(evidence: Evidence) -> tuple[tuple[Due, ...], str | None]:
    """What comes next, and what a person has to say first."""
    if evidence.submission is None:
        return _due_before_submission(evidence), None
    if evidence.counted is None:
        return _due_formal(evidence), None
    if evidence.counted.outcome == Replayed.AMBIGUOUS:
        name = evidence.counted.place.name
        return (), f"a ruling on {name}: `opd attempt rule ATTEMPT {name} infrastructure|candidate --because …`"
    if evidence.formal is None:
        return (), None
    steps = [artifact.step for artifact in evidence.formal.artifacts]
    checked = {seen.place.number for seen in evidence.sealed(Stage.VALIDATION)}
    evaluated = {seen.place.number for seen in evidence.sealed(Stage.FINAL)}
    return (
        *(
            _due_about(evidence, Stage.VALIDATION, step, "it was not checked yet")
            for step in steps
            if step not in checked
        ),
        *(
            _due_about(evidence, Stage.FINAL, step, "it has no score yet")
            for step in steps
            if step in evidence.valid_steps and step not in evaluated
        ),
    ), None


def _due_about(evidence: Evidence, stage: Stage, step: int, because: str) -> Due:
    return Due(stage=stage, name=evidence.attempt.place(stage, step).folder.name, because=because)


def _due_before_submission(evidence: Evidence) -> tuple[Due, ...]:
    tries = evidence.tries[Stage.EXPLORE]
    if evidence.tries[Stage.SUBMISSION] and not any(_is_left(seen) for seen in evidence.tries[Stage.SUBMISSION]):
        return ()  # there is one that can't be believed
    if not tries:
        return (Due(stage=Stage.EXPLORE, name=None, because="nothing was explored yet"),)
    return _another(Stage.EXPLORE, tries[-1])


def _due_formal(evidence: Evidence) -> tuple[Due, ...]:
    tries = evidence.tries[Stage.FORMAL]
    if not tries:
        return (Due(stage=Stage.FORMAL, name=None, because="the submission was not replayed yet"),)
    if len(tries) > evidence.attempt.task.contract.budgets.formal_retries:
        return ()
    return _another(Stage.FORMAL, tries[-1])


def _due_at_last(evidence: Evidence) -> tuple[Due, ...]:
    """When nothing else is: an audit of all that is sealed, then a report of that audit."""
    if not evidence.receipts:
        return ()
    if evidence.audit is None:
        made = evidence.sealed(Stage.AUDIT)
        because = f"{made[-1].place.name} has not seen all that is sealed" if made else "nothing was audited"
        return (Due(stage=Stage.AUDIT, name=None, because=because),)
    if evidence.report is None:
        return (Due(stage=Stage.REPORT, name=None, because=f"{evidence.audit.place.name} has no report"),)
    return ()


def _verdicts(evidence: Evidence) -> dict[Axis, Verdict] | None:
    audit = evidence.facts(Audit, evidence.audit) if evidence.audit else None
    return {axis: audit.of(axis) for axis in Axis} if audit else None


def _another(stage: Stage, last: Seen) -> tuple[Due, ...]:
    """A further try after one that ended for the machine's sake, or will be sealed as interrupted."""
    if last.outcome in ANOTHER_TRY:
        return (Due(stage=stage, name=None, because=f"{last.place.name} was {last.outcome}"),)
    if _is_left(last):
        return (
            Due(stage=stage, name=None, because=f"{last.place.name} was left, and will be sealed as interrupted"),
        )
    return ()


def _is_left(seen: Seen) -> bool:
    return seen.liveness is Liveness.LEFT


def _official(evidence: Evidence) -> Official | None:
    """The attempt's result: of equal scores, the earlier checkpoint's."""
    scored = [(final.mean, -final.step, final) for final in evidence.finals if final.mean is not None]
    if not scored:
        return None
    mean, _, best = max(scored, key=lambda one: one[:2])
    assert best.correct is not None, "a final with a mean has a count"
    return Official(
        step=best.step, correct=best.correct, samples=best.samples, mean=mean, stderr=best.stderr, of=len(scored)
    )


def _why_no_score(evidence: Evidence) -> str:
    """One sentence: the furthest that the attempt has come, and why not further."""
    if evidence.submission is None:
        over = evidence.sealed(Stage.EXPLORE)
        return f"nothing was submitted: the exploration ended by {over[-1].outcome}" if over else "not explored yet"
    if evidence.counted is None:
        return _why_none_counts(evidence)
    if evidence.formal is None:
        return (
            f"{evidence.counted.place.name} completed, and its record can't be believed"
            if evidence.counted.outcome == Replayed.COMPLETED
            else f"{evidence.counted.place.name} ended as {evidence.counted.outcome}"
        )
    if not evidence.formal.artifacts:
        return f"{evidence.counted.place.name} left no checkpoint"
    outcomes = [seen.outcome for seen in evidence.sealed(Stage.VALIDATION)]
    if outcomes and Validated.VALID not in outcomes and len(outcomes) == len(evidence.formal.artifacts):
        return "no checkpoint is valid"
    reasons = [seen.receipt.because for seen in evidence.sealed(Stage.FINAL) if seen.receipt and seen.receipt.because]
    return f"no final evaluation has a score: {reasons[0]}" if reasons else "no final evaluation has a score yet"


def _why_none_counts(evidence: Evidence) -> str:
    tries = evidence.tries[Stage.FORMAL]
    unsettled = next((seen for seen in tries if seen.outcome not in ANOTHER_TRY), None)
    if unsettled:
        return f"no formal try counts: {unsettled.place.name} is {unsettled.liveness}"
    return f"no formal try counts: {len(tries)} ended for the machine's sake" if tries else "not replayed yet"


def _try_state(seen: Seen) -> TryState:
    receipt = seen.receipt
    return TryState(
        stage=seen.place.stage,
        name=seen.place.name,
        liveness=seen.liveness,
        outcome=seen.outcome,
        because=receipt.because if receipt else None,
        active_seconds=receipt.active_seconds if receipt else None,
    )


def _state(evidence: Evidence, due: tuple[Due, ...], waits_for: str | None) -> str:
    """One word, or a few, for a person."""
    if evidence.running:
        return _AT_WORK[evidence.running.place.stage]
    return _at_rest(evidence, due, waits_for)


def _at_rest(evidence: Evidence, due: tuple[Due, ...], waits_for: str | None) -> str:
    if any(seen.liveness in {Liveness.LEFT, Liveness.UNMARKED} for seen in evidence.all()):
        return "interrupted"
    if waits_for:
        return "waits_for_a_ruling"
    if due and due[0].stage is Stage.EXPLORE:
        return "interrupted" if evidence.tries[Stage.EXPLORE] else "new"
    if not due and evidence.report:
        return "reported"
    over = "evaluated" if evidence.finals else "ended"
    return _COME_TO.get(due[0].stage, over) if due else over
