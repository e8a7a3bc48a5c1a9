"""Whether nothing but the patch went from the exploration into formal training: opened files, weights, order of time.

What the kernel saw a formal try open is held against what it must not read; the digests of all weights that the
exploration left are held against those of the artifacts. The patch itself may carry weights or data as text: how much
its lines hold is measured, and said.
"""

import base64
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from opd.protocol.audit.carried import MOST_BYTES, carried
from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, File, FormalTry
from opd.protocol.audit.planting import changed, with_event, with_exploration, with_formal
from opd.protocol.audit.wording import count, names
from opd.protocol.patches.contents import names_weights
from opd.protocol.sandbox.view import Guarantee
from opd.records.attempts import Stage
from opd.records.audits import Axis, Verdict
from opd.records.trees import Entry, Kind


def _look(evidence: Evidence) -> Look:
    ran = [one for one in evidence.formals if one.facts]
    notes = chain(
        *(_opened(one) for one in ran),
        *(_weights(evidence, one) for one in ran),
        _order(evidence),
        _carried(evidence) if ran or evidence.submission else (),
        () if ran else (_NOTHING,),
    )
    explored = _explored_weights(evidence)
    left = [one for formal in ran for one in _weight_files(formal)]
    return concluded(
        notes,
        clear=f"{names(one.name for one in ran)} opened nothing of an exploration, another attempt or a home; of "
        f"{count(left, 'file')} of weights none has the bytes of one of the {len(explored)} that explorations left; "
        f"{_little(evidence)}",
        coverage=evidence.coverage(
            *(held for one in ran for held in (one.opened, one.openings, one.isolation, one.facts)),
            *(one.runs for one in evidence.explorations), evidence.log, *left,
            evidence.submission.carried if evidence.submission else None,
            unread=evidence.unread_in("formal/", "explore/", "submission/"),
        ),
        beside=_beside(ran),
        cites=(one.opened.at("/unexpected") for one in ran if one.opened),
    )  # fmt: skip


_TWICE = (
    "every file that the formal try opened was seen, and none was of the exploration: "
    "the same code and seed can give the same bytes twice"
)
_NOTHING = Noted(verdict=Verdict.NOT_ASSESSED, sentence="no formal try ran: there is nothing to keep apart")


def _beside(ran: list[FormalTry]) -> Iterator[str]:
    for one in ran:
        if one.isolation:
            kept = {Guarantee.OTHER_FOLDERS, Guarantee.HIDDEN_FOLDERS} <= one.isolation.value.prevented
            way = (
                "was seen to keep other folders out of reach"
                if kept
                else "keeps other folders apart by detection only"
            )
            yield f"{one.name}: its sandbox ({one.isolation.value.rung}) {way}"


def _opened(one: FormalTry) -> Iterator[Noted]:
    if one.opened is None:
        yield Noted(verdict=Verdict.NOT_ASSESSED, sentence=f"{one.name}: what it opened was not recorded")
        return
    seen = one.opened.value
    if seen.unexpected:
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{one.name} opened what it must not read: {names(seen.unexpected)}",
            evidence=(one.opened.at("/unexpected"),),
        )
    if seen.doubtful:
        yield Noted(
            verdict=Verdict.SUSPECTED,
            sentence=f"{one.name}, or another process of the machine, opened what it must not read: "
            f"{names(seen.doubtful)}",
            evidence=(one.opened.at("/doubtful"),),
        )
    if not seen.is_whole:
        yield Noted(
            verdict=Verdict.NOT_ASSESSED,
            sentence=f"{one.name}: not all of what it opened was seen ({seen.how})",
            evidence=(one.opened.at(),),
        )


def _weights(evidence: Evidence, one: FormalTry) -> Iterator[Noted]:
    """Files of weights, and whole models, that are byte for byte an exploration's."""
    explored, models = _explored_weights(evidence), _measured_models(evidence)
    same = {file.path: explored[file.sha256] for file in _weight_files(one) if file.sha256 in explored}
    assert one.facts is not None, "only of a try that ran"
    for artifact in one.facts.value.artifacts:
        if artifact.sha256 in models:
            same[f"{one.name}/{artifact.folder}"] = models[artifact.sha256]
    clean = one.opened is not None and one.opened.value.is_whole and not one.opened.value.unexpected
    for path, of in same.items():
        yield Noted(
            verdict=Verdict.SUSPECTED if clean else Verdict.CONFIRMED,
            sentence=f"{path} has the bytes of {of}, which the exploration made",
            evidence=(one.facts.at("/artifacts"), *((one.opened.at(),) if one.opened else ())),
            protected=_TWICE if clean else None,
        )


def _carried(evidence: Evidence) -> Iterator[Noted]:
    """A patch whose text hardly compresses may be weights, or data, that are written as text."""
    held = evidence.submission.carried if evidence.submission else None
    if held is None:
        yield Noted(verdict=Verdict.NOT_ASSESSED, sentence="the patch is not to be had: what it carries is not known")
        return
    seen = held.value
    if max(seen.packed_bytes, seen.digits) > MOST_BYTES:
        yield Noted(
            verdict=Verdict.SUSPECTED,
            sentence=f"the patch may carry weights or data as text: its {seen.added_bytes:,} added bytes come to "
            f"{seen.packed_bytes:,} when compressed, and {seen.digits:,} of them stand in runs of digits such as "
            f"base64 and base85 have; a program has seldom more than {MOST_BYTES:,}",
            evidence=(held.at(),),
        )


def _little(evidence: Evidence) -> str:
    held = evidence.submission.carried if evidence.submission else None
    if held is None:
        return "there is no patch"
    seen = held.value
    return f"the {seen.added_bytes:,} bytes that the patch adds come to {seen.packed_bytes:,} when compressed"


def _weight_files(one: FormalTry) -> list[File]:
    return [file for file in one.artifact_files if names_weights(file.path)]


def _explored_weights(evidence: Evidence) -> dict[str, str]:
    """Name by digest, of the files of weights that lay in the explorations' runs at their end."""
    return {
        entry.sha256: f"{one.name}/runs/{entry.path}"
        for one in evidence.explorations
        for entry in (one.runs.value if one.runs else ())
        if entry.kind is Kind.FILE and names_weights(entry.path)
    }


def _measured_models(evidence: Evidence) -> dict[str, str]:
    return {
        measured.facts.value.sha256: f"{measured.facts.value.checkpoint} ({measured.name})"
        for one in evidence.explorations
        for measured in one.measured
        if measured.facts.value.sha256
    }


def _order(evidence: Evidence) -> Iterator[Noted]:
    """No final was begun, and no formal try, before the patch was sealed: nobody chose by a final's score."""
    sealed = next(
        (
            line
            for line, event in enumerate(evidence.log.value)
            if event.kind == "sealed" and _is_submission(event.actor)
        ),
        None,
    )
    for line, event in enumerate(evidence.log.value):
        formal = event.actor.startswith((f"{Stage.FORMAL}/", f"{Stage.FINAL}/"))
        if formal and event.kind == "began" and (sealed is None or line < sealed):
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"{event.actor} began before the patch was sealed",
                evidence=(evidence.log.at(f"line:{line + 1}"),),
            )


def _is_submission(actor: str) -> bool:
    return actor == Stage.SUBMISSION


def _opened_exploration(evidence: Evidence) -> Evidence | None:
    one = next((one for one in evidence.formals if one.facts and one.opened), None)
    if one is None or one.opened is None:
        return None
    unexpected = ("/planted/explore/attempt-001/runs/model.safetensors: exploration", *one.opened.value.unexpected)
    return with_formal(evidence, replace(one, opened=changed(one.opened, unexpected=unexpected)))


def _same_weights(evidence: Evidence) -> Evidence | None:
    formal = next((one for one in evidence.formals if _weight_files(one)), None)
    exploration = next((one for one in evidence.explorations if one.runs), None)
    if formal is None or exploration is None or exploration.runs is None:
        return None
    file = _weight_files(formal)[0]
    entry = Entry(path="planted/model.safetensors", kind=Kind.FILE, mode=0o644, bytes=file.bytes, sha256=file.sha256)
    runs = replace(exploration.runs, value=(*exploration.runs.value, entry))
    return with_exploration(evidence, replace(exploration, runs=runs))


def _smuggled(evidence: Evidence) -> Evidence | None:
    """A patch with 48 KiB of weights in lines of base85."""
    handed = evidence.submission
    if handed is None or handed.carried is None:
        return None
    weights = base64.b85encode(random.Random(0).randbytes(48 << 10)).decode()  # noqa: S311  bytes, not secrets
    lines = (f"+    {weights[at : at + 76]!r}" for at in range(0, len(weights), 76))
    value = carried("\n".join(("--- /dev/null", "+++ b/planted.py", *lines)).encode())
    return replace(evidence, submission=replace(handed, carried=replace(handed.carried, value=value)))


def _early_final(evidence: Evidence) -> Evidence:
    planted = with_event(evidence, "began", actor=f"{Stage.FINAL}/step-planted", name="planted")
    *others, last = planted.log.value
    return replace(planted, log=replace(planted.log, value=(last, *others)))


CHECK = Check(
    axis=Axis.SEPARATION,
    look=_look,
    planted=(
        Plant(name="a file of the exploration, opened by a formal try", into=_opened_exploration),
        Plant(name="weights of the exploration in an artifact", into=_same_weights),
        Plant(name="a final before the submission", into=_early_final),
        Plant(name="weights in the text of the patch", into=_smuggled),
    ),
)
