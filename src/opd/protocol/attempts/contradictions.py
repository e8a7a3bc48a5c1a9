"""What does not fit together in an attempt, each a sentence; nothing of it is passed over silently.

files      a mark that doesn't fit its receipt, a record that isn't what its receipt says, a number left out
log        a chain that breaks, a receipt that it doesn't know, one that it knows and that isn't there
lineage    task → submission → formal try → validation → final → audit → report: each says what it was made from
order      a formal try after the one that counts, a final without a valid artifact, a ruling about nothing
"""

from collections.abc import Iterator

from opd.protocol.attempts.evidence import FACTS, Evidence, Seen
from opd.protocol.clock import Instant
from opd.records.attempts import (
    Explored,
    Final,
    Formal,
    Liveness,
    Replayed,
    Reported,
    Stage,
    Submission,
    Validation,
)
from opd.records.files import sha256
from opd.records.receipts import RECEIPT, is_sealed, read_receipt

_JUST_NOW_SECONDS = 1.0  # a holder says what it is about to begin before it begins it


def contradictions(evidence: Evidence, at: Instant) -> Iterator[str]:
    """All of them, at this moment; what is in a sealed folder beside its receipt and its record is not read again."""
    yield from _files(evidence)
    yield from _log(evidence)
    yield from _lineage(evidence)
    yield from _patch(evidence)
    yield from _artifacts(evidence)
    yield from _order(evidence)
    yield from _rulings(evidence)
    yield from _lease(evidence, at)


def _files(evidence: Evidence) -> Iterator[str]:
    for seen in evidence.all():
        if seen.liveness is Liveness.DAMAGED:
            yield f"{seen.place.name}: its mark does not fit its receipt, or its receipt can't be read"
        if seen.place.folder.exists() and seen.place.partial.exists():
            yield f"{seen.place.name} is there twice: in place, and as begun"
        if seen.receipt and seen.receipt.kind != seen.place.stage:
            yield f"{seen.place.name} holds the receipt of a {seen.receipt.kind}"
        kind = FACTS.get((seen.place.stage, seen.receipt.outcome)) if seen.receipt else None
        if kind and evidence.facts(kind, seen) is None:
            yield f"{seen.place.name}: its outcome.json is not what its receipt says"
    for stage in (Stage.EXPLORE, Stage.FORMAL, Stage.AUDIT, Stage.REPORT):
        numbers = [seen.place.number for seen in evidence.tries[stage]]
        for number in sorted({*range(1, max(numbers, default=0))} - {*numbers}):
            yield f"{evidence.attempt.place(stage, number).name} is gone: a later one is there"


def _log(evidence: Evidence) -> Iterator[str]:
    if evidence.log.broken:
        yield f"the log is not whole: {evidence.log.broken}"
        return
    for name, digest in evidence.log_before.sealed.items():
        folder = evidence.attempt.folder / name
        if not is_sealed(folder) and not (folder / RECEIPT).exists():
            yield f"the log says that {name} was sealed, and it is not there"
        elif (folder / RECEIPT).exists() and sha256(folder / RECEIPT) != digest:
            yield f"{name}/{RECEIPT} is not the one that the log says was sealed"
    if not evidence.log.events:
        yield "the log is gone, or empty: it begins with the attempt"
    for seen in evidence.all():
        if seen.liveness is Liveness.UNMARKED or seen.receipt:
            head = read_receipt(seen.place.folder).events
            if head not in evidence.log.heads:
                yield f"{seen.place.name}/{RECEIPT} names line {head.seq} of a log that is not this one"


def _lineage(evidence: Evidence) -> Iterator[str]:
    """What a try says that it was made from is what is there."""
    for seen in evidence.all():
        if seen.receipt is None:
            continue
        made_from = seen.receipt.made_from
        for name in sorted(name for name in made_from if name.endswith(f"/{RECEIPT}")):
            path = evidence.attempt.folder / name
            if not path.is_file() or sha256(path) != made_from[name]:
                yield f"{seen.place.name} was made from another {name} than the one that is there"
        if made_from.get("task") != evidence.attempt.identity.task_sha256:
            yield f"{seen.place.name} was made for another task"
        for parent in _parents(evidence, seen):
            if f"{parent}/{RECEIPT}" not in made_from:
                yield f"{seen.place.name} does not say that it was made from {parent}/{RECEIPT}"
        if seen.outcome == Reported.RENDERED and not any(name.startswith(f"{Stage.AUDIT}/") for name in made_from):
            yield f"{seen.place.name} does not say which audit it was made from"


def _parents(evidence: Evidence, seen: Seen) -> tuple[str, ...]:
    """What a try has to be made from; nothing for the first of the chain."""
    attempt, number = evidence.attempt, seen.place.number
    if seen.place.stage is Stage.FORMAL:  # a further one is ordered after the one before it
        before = (attempt.place(Stage.FORMAL, number - 1).name,) if number > 1 else ()
        return (attempt.submission.name, *before)
    if seen.place.stage is Stage.VALIDATION:
        return (evidence.counted.place.name,) if evidence.counted else ()
    if seen.place.stage is Stage.FINAL:
        return (attempt.place(Stage.VALIDATION, number).name,)
    return ()


def _patch(evidence: Evidence) -> Iterator[str]:
    """One patch, from the submission to every formal try."""
    submission = evidence.facts(Submission, evidence.submission) if evidence.submission else None
    if submission is None:
        return
    if submission.base_sha256 != evidence.attempt.identity.base_sha256:
        yield "submission: its patch applies to another tree than the one that the explorer began with"
    for seen in evidence.sealed(Stage.FORMAL):
        formal = evidence.facts(Formal, seen)
        if formal and formal.patch_sha256 != submission.patch_sha256:
            yield f"{seen.place.name} ran another patch than the one that was submitted"
        if formal and formal.checkout_sha256 != submission.patched_sha256:
            yield f"{seen.place.name} began with another tree than base and patch give"


def _artifacts(evidence: Evidence) -> Iterator[str]:
    """One artifact, from the formal try that counts to its score."""
    artifacts = {one.step: one.sha256 for one in evidence.formal.artifacts} if evidence.formal else {}
    scores = set()
    for stage, kind in ((Stage.VALIDATION, Validation), (Stage.FINAL, Final)):
        for seen in evidence.sealed(stage):
            facts = evidence.facts(kind, seen)
            assert facts is None or isinstance(facts, Validation | Final), "as was asked for"
            step = seen.place.number
            if step not in artifacts:
                yield f"{seen.place.name} is about an artifact that no formal try which counts has left"
            elif facts and (facts.step, facts.artifact_sha256) != (step, artifacts[step]):
                yield f"{seen.place.name} is about another artifact than the one that the formal try left"
            if stage is Stage.FINAL and step in artifacts and step not in evidence.valid_steps:
                yield f"{seen.place.name}: its artifact was not found valid"
            if isinstance(facts, Final) and facts.protocol_sha256:
                scores.add((facts.protocol_sha256, facts.evaluator_sha256))
    if len(scores) > 1:
        yield "the finals were not all taken by one protocol and one evaluator"
    if scores and {evaluator for _, evaluator in scores} != {evidence.attempt.identity.install_sha256}:
        yield "a final was taken by another evaluator than the one that the attempt was made with"


def _order(evidence: Evidence) -> Iterator[str]:
    submitted = [seen.place.name for seen in evidence.sealed(Stage.EXPLORE) if seen.outcome == Explored.SUBMITTED]
    if len(submitted) > 1:
        yield f"{' and '.join(submitted)} both say that they submitted"
    if submitted and not evidence.tries[Stage.SUBMISSION]:
        yield f"{submitted[0]} says that it submitted, and there is no submission"
    submission = evidence.facts(Submission, evidence.submission) if evidence.submission else None
    if submission and submission.origin == "explorer":
        explored_in = {seen.place.name: seen.outcome for seen in evidence.tries[Stage.EXPLORE]}
        outcome = explored_in.get(submission.explored_in or "", "missing")
        if outcome not in {None, Explored.SUBMITTED, Explored.INTERRUPTED, Explored.INFRA_FAILED}:
            yield f"submission: it says that it comes from {submission.explored_in}, which is {outcome}"
    counted = evidence.counted
    later = [seen for seen in evidence.tries[Stage.FORMAL] if counted and seen.place.number > counted.place.number]
    for seen in later:
        yield f"{seen.place.name} came after {counted.place.name if counted else ''}, which counts"


def _rulings(evidence: Evidence) -> Iterator[str]:
    tries = {seen.place.name: seen for seen in evidence.all()}
    ruled = set()
    for one in evidence.rulings:
        about = one.ruling.about if one.ruling else ""
        seen = tries.get(about)
        if one.ruling is None:
            yield f"{one.place.name}: its ruling.json is not what its receipt says"
        elif seen is None or seen.receipt is None or seen.receipt.outcome != Replayed.AMBIGUOUS:
            yield f"{one.place.name} is about {about}, which needed no ruling"
        elif one.receipt.made_from.get(f"{about}/{RECEIPT}") != seen.receipt_sha256:
            yield f"{one.place.name} was made about another {about} than the one that is there"
        elif about in ruled:
            yield f"{one.place.name} is about {about}, which was ruled on before; the first ruling holds"
        ruled.add(about)


def _lease(evidence: Evidence, at: Instant) -> Iterator[str]:
    if evidence.lease is None or evidence.lease.heard.seconds_until(at) < _JUST_NOW_SECONDS:
        return
    there = {seen.place.name for seen in evidence.all()}
    for name in evidence.lease.at:
        if name not in there:
            yield f"the lease says that {name} is being filled, and there is no such try"
