"""Whether the machine did its part: sandbox, storage, devices, clocks, and tries that ended for its sake.

A failure of the machine is confirmed by what it did, not by what a program printed; where a clean retry of the
identical patch followed it by order, that is what protects the result.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from opd.protocol.attempts.events import Event
from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, ExploreTry, FormalTry, Held
from opd.protocol.audit.planting import changed, with_event, with_exploration, with_formal
from opd.protocol.audit.wording import names, seconds, short
from opd.protocol.sandbox.probes import Isolation, Probed
from opd.records.attempts import ANOTHER_TRY, Explored, Formal, Replayed
from opd.records.audits import Axis, Verdict
from opd.records.causes import Ending, Ruling
from opd.records.failures import errno_name

_CLOCKS = {
    "suspended": ("the machine slept for {} during {}", "a budget's clock stands still while the machine sleeps"),
    "clock_step": ("the calendar clock was set by {} during {}", "budgets go by a clock that nobody can set"),
}


def _look(evidence: Evidence) -> Look:
    tries = evidence.tries
    notes = chain(
        *(_isolation(one) for one in tries),
        *(_formal(evidence, one) for one in evidence.formals),
        *(_exploration(evidence, one) for one in evidence.explorations),
        _events(evidence),
    )
    probes = [probe for one in tries if one.isolation for probe in one.isolation.value.probes]
    prevented = [probe for probe in probes if probe.outcome == "prevented"]
    return concluded(
        notes,
        clear=f"{names(one.name for one in tries)}: no failure of the machine; of {len(probes)} forbidden things "
        f"that were tried in the sandbox {len(prevented)} were seen to be prevented",
        coverage=evidence.coverage(
            evidence.log, *(held for one in tries for held in (one.isolation, one.facts, one.receipt)),
            unread=evidence.unread_in("explore/", "formal/", "events.jsonl"),
        ),
        beside=_beside(evidence),
        cites=(one.isolation.at("/probes") for one in tries if one.isolation),
    )  # fmt: skip


def _beside(evidence: Evidence) -> Iterator[str]:
    for one in evidence.tries:
        if one.isolation:
            loose = [str(probe.name) for probe in one.isolation.value.probes if probe.outcome == "not_prevented"]
            unknown = [str(probe.name) for probe in one.isolation.value.probes if probe.outcome == "not_assessed"]
            if loose:
                yield f"{one.name}: {one.isolation.value.rung} does not prevent {names(loose, most=20)}, and says so"
            if unknown:
                yield f"{one.name}: whether {names(unknown, most=20)} would be prevented could not be tried"
        if isinstance(one, FormalTry) and _was_stopped(one):
            yield f"{one.name} was no failure: {one.receipt.value.because or 'it was stopped'}"
        if one.facts and one.facts.value.left_processes:
            left = one.facts.value.left_processes
            yield f"{one.name}: when its program had ended, {len(left)} of its processes still ran, and were ended"


def _isolation(one: ExploreTry | FormalTry) -> Iterator[Noted]:
    if one.isolation is None:
        if one.facts is not None:
            yield Noted(
                verdict=Verdict.NOT_ASSESSED, sentence=f"{one.name}: its sandbox was not tried, or not recorded"
            )
        return
    if broken := one.isolation.value.broken:
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{one.name}: the sandbox {one.isolation.value.rung} was seen not to prevent "
            f"{', '.join(broken)}, which it is for",
            evidence=(one.isolation.at("/probes"),),
        )


def _formal(evidence: Evidence, one: FormalTry) -> Iterator[Noted]:
    """A formal try that ended for the machine's sake, or that nobody could tell of."""
    because = one.receipt.value.because
    if one.outcome in ANOTHER_TRY and not _was_stopped(one):
        ruling = evidence.ruling_on(one.name)
        said = _failure(one.facts.value, ruling.value if ruling else None) if one.facts else because
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{one.name} {_end(one, ruling)}: {said or 'nothing says why'}",
            evidence=(
                one.receipt.at("/outcome"),
                *((one.facts.at("/cause"),) if one.facts else ()),
                *((ruling.at("/verdict"),) if ruling else ()),
            ),
            protected=_retry(evidence, one),
        )
    elif one.outcome == Replayed.AMBIGUOUS:
        yield Noted(
            verdict=Verdict.SUSPECTED,
            sentence=f"{one.name} waits for a ruling: {because or 'the evidence leaves open whose failure it was'}",
            evidence=(one.receipt.at("/because"),),
        )


def _end(one: FormalTry, ruling: Held[Ruling] | None) -> str:
    """As what it ended, and as what it counts where a ruling came after."""
    counts = f"ended as {one.outcome}"
    return f"ended as {one.receipt.value.outcome} and, as was ruled, counts as {one.outcome}" if ruling else counts


def _was_stopped(one: FormalTry) -> bool:
    """Whether a person stopped it: no failure of anything."""
    return one.facts is not None and one.facts.value.cause.evidence.ending is Ending.STOPPED


def _failure(facts: Formal, ruling: Ruling | None) -> str:
    """What failed: the number that the system gave, at which step, and who says whose failure it was."""
    cause, claim = facts.cause, facts.cause.evidence.claim
    decided = f"{cause.verdict} by the rule “{cause.rule}”: {cause.because[0]}"
    if ruling:
        decided = (
            f"the machine's failure as {ruling.by} ruled: {ruling.because} (by rule {cause.verdict}, “{cause.rule}”)"
        )
    if claim is None or claim.errno is None:
        return decided
    phase = f" in phase {claim.phase}" if claim.phase else ""
    return f"errno {claim.errno} ({errno_name(claim.errno) or 'no name'}) at step {claim.step}{phase}; {decided}"


def _retry(evidence: Evidence, failed: FormalTry) -> str | None:
    """Why the result holds: the try that counts is a clean one of the same patch, by order."""
    counted = evidence.formal
    if counted is None or counted.facts is None or counted.outcome != Replayed.COMPLETED:
        return None
    handed = (
        evidence.submission.facts.value.patch_sha256 if evidence.submission and evidence.submission.facts else None
    )
    orders = {one.order.value.after: one.order.value for one in evidence.formals if one.order}
    order = orders.get(failed.name)
    # one that died at its beginning has no record: its order says which patch it was
    same = failed.facts is None or failed.facts.value.patch_sha256 == counted.facts.value.patch_sha256
    if not same or order is None or {order.patch_sha256, counted.facts.value.patch_sha256} != {handed}:
        return None
    return (
        f"{counted.name} is a clean retry of the identical patch ({short(handed)}), ordered by {order.by}, from the "
        "fixed start: the result rests on it alone, and nothing of the failed try is pooled with it"
    )


def _exploration(evidence: Evidence, one: ExploreTry) -> Iterator[Noted]:
    if one.outcome not in {Explored.INFRA_FAILED, Explored.INTERRUPTED}:
        return
    explored = evidence.explored
    later = explored is not None and explored.name > one.name
    yield Noted(
        verdict=Verdict.CONFIRMED,
        sentence=f"{one.name} ended as {one.outcome}: {one.receipt.value.because or 'nothing says why'}",
        evidence=(one.receipt.at("/outcome"),),
        protected=f"{explored.name} began anew" if later and explored else None,
    )


def _events(evidence: Evidence) -> Iterator[Noted]:
    """What the log tells of the machine: the longest sleep and the largest step of a clock first."""
    lines = enumerate(evidence.log.value, start=1)
    for line, event in sorted(lines, key=lambda one: -abs(_length(one[1])) if one[1].kind in _CLOCKS else 0.0):
        where = (evidence.log.at(f"line:{line}"),)
        if event.kind in _CLOCKS:
            sentence, protected = _CLOCKS[event.kind]
            length = seconds(_length(event))
            yield Noted(
                verdict=Verdict.CONFIRMED, sentence=sentence.format(length, event.actor), evidence=where,
                protected=protected,
            )  # fmt: skip
        elif event.kind == "ended_left_processes":
            left = names(map(str, event.data.get("commands", ())))
            yield Noted(
                verdict=Verdict.SUSPECTED,
                sentence=f"after its orchestrator had died, processes still ran, and were ended: {left}",
                evidence=where,
            )
        elif event.kind == "torn_line":
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"the log's end was torn by a crash before line {line}",
                evidence=where,
                protected="what was torn had never been said: each line is on the disk before what it tells goes on",
            )


def _length(event: Event) -> float:
    return float(event.data.get("seconds", 0.0))


def _sleep(evidence: Evidence) -> Evidence:
    return with_event(evidence, "suspended", actor="planted", seconds=31.0)


def _leak(evidence: Evidence) -> Evidence | None:
    """A forbidden thing that was seen to succeed in a sandbox that is to prevent it."""
    exploration = next((one for one in evidence.explorations if one.isolation), None)
    if exploration and exploration.isolation:
        return with_exploration(evidence, replace(exploration, isolation=_leaking(exploration.isolation)))
    formal = next((one for one in evidence.formals if one.isolation), None)
    if formal and formal.isolation:
        return with_formal(evidence, replace(formal, isolation=_leaking(formal.isolation)))
    return None


def _leaking(held: Held[Isolation]) -> Held[Isolation]:
    first, *others = held.value.probes
    leak: Probed = first.model_copy(update={"outcome": "not_prevented", "declared": True})
    return changed(held, probes=(leak, *others))


def _storage(evidence: Evidence) -> Evidence | None:
    """The last formal try, as one that a shared file system has ended."""
    if not evidence.formals:
        return None
    last = evidence.formals[-1]
    because = "planted: our own write to the same file system failed"
    receipt = changed(last.receipt, because=because, outcome=Replayed.INFRA_FAILED)
    return with_formal(evidence, replace(last, outcome=Replayed.INFRA_FAILED, receipt=receipt, facts=None))


CHECK = Check(
    axis=Axis.PLATFORM,
    look=_look,
    planted=(
        Plant(name="a machine that slept", into=_sleep),
        Plant(name="a sandbox that lets something through", into=_leak),
        Plant(name="a formal try that its storage ended", into=_storage),
    ),
)
