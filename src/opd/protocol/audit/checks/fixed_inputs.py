"""Whether every phase had the inputs that the task pins and no others: digests before and after, and opened files."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, FormalTry, Held
from opd.protocol.audit.planting import PLANTED, changed, with_event, with_formal
from opd.protocol.audit.wording import names, short
from opd.protocol.inputs import Inputs
from opd.protocol.openings.opened import How, Opened
from opd.records.audits import Axis, Pointer, Verdict
from opd.records.tasks import DataInput

_CHANGED = "inputs_changed"  # the event of a phase that found an input changed
_CHANGED_WORDS = "a fixed input changed while it ran"  # of a formal try that did, in its receipt


def _look(evidence: Evidence) -> Look:
    inputs = evidence.inputs
    notes = chain(
        _pinned(evidence, inputs),
        _changed(evidence),
        *(_of_try(one, inputs) for one in evidence.formals),
        *(_opened(one) for one in evidence.formals),
        _today(evidence, inputs),
    )
    roles = ", ".join(one.role for one in inputs.value.fixed) if inputs else "no input"
    phases = [one.name for one in evidence.tries]
    read = [one for one in evidence.formals if one.opened]
    opened = f"; {names(one.name for one in read)} opened nothing that was not declared" if read else ""
    return concluded(
        notes,
        clear=f"{roles}: as the task pins them, before and after {names(phases)}{opened}",
        coverage=evidence.coverage(
            inputs, evidence.task, evidence.log,
            *(held for one in evidence.formals for held in (one.facts, one.opened, one.openings)),
            unread=evidence.unread_in("inputs.lock.json", "task.lock.json", "formal/"),
        ),
        beside=(f"{one.name}: opened files were seen by {one.opened.value.how}" for one in read if one.opened),
        cites=_cites(evidence),
    )  # fmt: skip


def _cites(evidence: Evidence) -> Iterator[Pointer]:
    if evidence.inputs:
        yield evidence.inputs.at("/fixed")
    for one in evidence.formals:
        if one.facts:
            yield one.facts.at("/inputs_sha256")
        if one.opened:
            yield one.opened.at("/others")


def _pinned(evidence: Evidence, inputs: Held[Inputs] | None) -> Iterator[Noted]:
    """The lock against the task."""
    if inputs is None or evidence.task is None:
        yield Noted(verdict=Verdict.NOT_ASSESSED, sentence="what the task pins, or what was locked, can't be read")
        return
    locked = {one.role: one.sha256 for one in inputs.value.fixed}
    for role, wanted in evidence.task.value.contract.fixed_inputs.items():
        pinned = wanted.given_sha256 if isinstance(wanted, DataInput) else wanted.files_sha256
        if role not in locked:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"the task has a {role}, and no such input was locked",
                evidence=(inputs.at("/fixed"),),
            )
        elif pinned is not None and locked[role] != pinned:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"the {role} was {short(locked[role])}, and the task pins {short(pinned)}",
                evidence=(inputs.at("/fixed"), evidence.task.at()),
            )


def _changed(evidence: Evidence) -> Iterator[Noted]:
    """What a phase itself found, when it read its inputs again at its end."""
    for line, event in enumerate(evidence.log.value, start=1):
        if event.kind == _CHANGED:
            said = names(map(str, event.data.get("sentences", ())))
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"a fixed input changed during {event.actor}: {said}",
                evidence=(evidence.log.at(f"line:{line}"),),
            )
    for one in evidence.formals:
        because = one.receipt.value.because or ""
        if _CHANGED_WORDS in because:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"{one.name}: {because}",
                evidence=(one.receipt.at("/because"),),
            )


def _of_try(one: FormalTry, inputs: Held[Inputs] | None) -> Iterator[Noted]:
    """What a formal try was given, against the lock."""
    if one.facts is None or inputs is None:
        return  # a try that ended before there was anything to say used nothing
    locked = {fixed.role: fixed.sha256 for fixed in inputs.value.fixed}
    for role, digest in sorted(one.facts.value.inputs_sha256.items()):
        if locked.get(role) != digest:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"{one.name} ran with a {role} of {short(digest)}, and {short(locked.get(role))} was locked",
                evidence=(one.facts.at(f"/inputs_sha256/{role}"), inputs.at("/fixed")),
            )


def _opened(one: FormalTry) -> Iterator[Noted]:
    """What it read, against what was declared; what it must not read at all is the business of `separation`."""
    if one.facts is None:
        return
    if one.opened is None:
        yield Noted(
            verdict=Verdict.NOT_ASSESSED, sentence=f"{one.name}: there is no record of the files that it opened"
        )
        return
    seen = one.opened.value
    if seen.others:
        yield Noted(
            verdict=Verdict.SUSPECTED,
            sentence=f"{one.name} opened files that belong to no declared place: {names(seen.others)}",
            evidence=(one.opened.at("/others"),),
        )
    if seen.how is not How.NOT_RECORDED:
        unread = [role for role, files in seen.inputs.items() if files == 0]
        if unread:
            yield Noted(
                verdict=Verdict.SUSPECTED,
                sentence=f"{one.name} did not open the declared {', '.join(unread)} at all",
                evidence=(one.opened.at("/inputs"),),
            )
    if not seen.is_whole:
        yield Noted(
            verdict=Verdict.NOT_ASSESSED,
            sentence=f"{one.name}: not all of the files that it opened were seen ({_why_not_whole(one.opened)})",
            evidence=(one.opened.at(),),
        )


def _why_not_whole(opened: Held[Opened]) -> str:
    seen = opened.value
    if seen.how is How.NOT_RECORDED:
        return seen.because or "no way of looking works here"
    return f"{seen.lost} notices lost, {seen.left_out} left out{', the queue ran over' if seen.overflowed else ''}"


def _today(evidence: Evidence, inputs: Held[Inputs] | None) -> Iterator[Noted]:
    """What has become of the inputs since."""
    for one in inputs.value.fixed if inputs else ():
        digest = evidence.now.inputs.get(one.role)
        if digest is not None and digest != one.sha256:
            yield Noted(
                verdict=Verdict.SUSPECTED,
                sentence=f"the {one.role} {one.path} is {short(digest)} today, and was locked as {short(one.sha256)}",
                evidence=(inputs.at("/fixed"),) if inputs else (),
                protected="every phase read its inputs again at its end, and found them as they were locked",
            )


def _another_data(evidence: Evidence) -> Evidence | None:
    one = next((one for one in evidence.formals if one.facts and one.facts.value.inputs_sha256), None)
    if one is None or one.facts is None:
        return None
    roles = one.facts.value.inputs_sha256
    other = {**roles, min(roles): PLANTED}
    return with_formal(evidence, replace(one, facts=changed(one.facts, inputs_sha256=other)))


def _undeclared_file(evidence: Evidence) -> Evidence | None:
    one = next((one for one in evidence.formals if one.facts and one.opened), None)
    if one is None or one.opened is None:
        return None
    others = ("/planted/answers.txt", *one.opened.value.others)
    return with_formal(evidence, replace(one, opened=changed(one.opened, others=others)))


def _changed_meanwhile(evidence: Evidence) -> Evidence:
    return with_event(evidence, _CHANGED, actor="explore/planted", sentences=["the data was planted"])


def _another_lock(evidence: Evidence) -> Evidence | None:
    if evidence.inputs is None or evidence.task is None:
        return None
    data = next((one for one in evidence.inputs.value.fixed if one.role == "data"), None)
    if data is None:
        return None
    others = tuple(one for one in evidence.inputs.value.fixed if one is not data)
    fixed = (data.model_copy(update={"sha256": PLANTED}), *others)
    return replace(evidence, inputs=changed(evidence.inputs, fixed=fixed))


CHECK = Check(
    axis=Axis.FIXED_INPUTS,
    look=_look,
    planted=(
        Plant(name="a formal try with another input", into=_another_data),
        Plant(name="an opened file of no declared place", into=_undeclared_file),
        Plant(name="an input that changed during an exploration", into=_changed_meanwhile),
        Plant(name="a lock of other data than the task's", into=_another_lock),
    ),
)
