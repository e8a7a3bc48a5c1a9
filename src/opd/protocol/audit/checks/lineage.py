"""Whether one chain leads from the task to the score, whole, and with nothing chosen or pooled on the way.

    task ── base ── explore ── patch ── checkout ── formal ── artifact ── validation ── final

What `verify` found when it read every byte again counts here; the order of the formal tries is worked out anew from
their receipts alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from opd.protocol.attempts.verify import Checked as Folder
from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, FormalTry
from opd.protocol.audit.planting import PLANTED, changed, with_formal
from opd.protocol.audit.wording import count, names, short
from opd.records.attempts import ANOTHER_TRY, CLOSING, Replayed
from opd.records.audits import Axis, Verdict
from opd.records.receipts import RECEIPT


def _look(evidence: Evidence) -> Look:
    found = evidence.verification
    links = [link for link in found.lineage if link.holds]
    notes = chain(_read_again(evidence), _patch(evidence), _orders(evidence), _counts(evidence), _scores(evidence))
    files = sum(one.files for one in found.folders)
    return concluded(
        notes,
        clear=f"{_way(evidence)}: {count(links, 'link')} hold, and {count(files, 'entry')} of "
        f"{count(found.folders, 'sealed folder')} are as their receipts say",
        coverage=evidence.coverage(*evidence.files, unread=evidence.unread),
        beside=_beside(evidence),
        cites=(one.at() for one in evidence.receipts()),
    )


def _way(evidence: Evidence) -> str:
    """The links that there are."""
    has_artifacts = any(one.facts and one.facts.value.artifacts for one in evidence.formals)
    there = {
        "task": True,
        "base": True,
        "exploration": bool(evidence.explorations),
        "patch": evidence.submission is not None,
        "formal tries": bool(evidence.formals),
        "artifacts": has_artifacts,
        "finals": bool(evidence.finals),
    }
    return " → ".join(name for name, is_there in there.items() if is_there)


def _beside(evidence: Evidence) -> Iterator[str]:
    if evidence.counted:
        yield f"{evidence.counted} counts: the first formal try that did not end for the machine's sake"
    facts = evidence.submission.facts if evidence.submission else None
    if facts and facts.value.origin == "outside":
        yield "the patch was brought from outside: no exploration of this attempt stands behind it"
    if facts is None:
        yield "nothing was handed in: the chain ends with the exploration"
    closing = tuple(f"{stage}/" for stage in CLOSING)  # this audit is being filled itself
    for one in evidence.verification.unsealed:
        if not one.startswith(closing):
            yield f"{one} was begun and is not sealed: nothing vouches for what is in it"


def _read_again(evidence: Evidence) -> Iterator[Noted]:
    """What `verify` says, when it has read every byte."""
    found = evidence.verification
    sentences = [fault for folder in found.folders for fault in folder.faults]
    sentences += [*found.faults, *found.contradictions]
    sentences += [
        f"{link.name}: {short(link.said)} was said, {short(link.found)} is there"
        for link in found.lineage
        if not link.holds
    ]
    for sentence in dict.fromkeys(sentences):
        yield Noted(verdict=Verdict.CONFIRMED, sentence=sentence)
    if evidence.task is None:
        yield Noted(
            verdict=Verdict.CONFIRMED, sentence="task.lock.json is not the task that the attempt was made for"
        )


def _patch(evidence: Evidence) -> Iterator[Noted]:
    """One patch: as it lies there, as it was handed in, as each formal try ran it."""
    handed = evidence.submission
    if handed is None or handed.facts is None:
        return
    said = handed.facts.value.patch_sha256
    if handed.patch is None or handed.patch.sha256 != said:
        is_there = short(handed.patch.sha256 if handed.patch else None)
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"the patch that was handed in is {short(said)}, and the one that lies there is {is_there}",
            evidence=(handed.facts.at("/patch_sha256"),),
        )
    for one in evidence.formals:
        if one.facts and one.facts.value.patch_sha256 != said:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"{one.name} ran the patch {short(one.facts.value.patch_sha256)}, and {short(said)} was "
                "handed in",
                evidence=(one.facts.at("/patch_sha256"), handed.facts.at("/patch_sha256")),
            )


def _orders(evidence: Evidence) -> Iterator[Noted]:
    """A further try of a patch has an order, which names the try before it and its failure for the machine's sake."""
    for before, one in zip(evidence.formals, evidence.formals[1:], strict=False):
        if one.order is None:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"{one.name} followed {before.name} without a written order",
                evidence=(one.receipt.at(),),
            )
            continue
        order = one.order.value
        wrong = {
            "another try": order.after != before.name,
            "another receipt": order.receipt_sha256 != before.receipt.sha256,
            "another patch": one.facts is not None and order.patch_sha256 != one.facts.value.patch_sha256,
            f"an outcome ({order.outcome}) that orders none": order.outcome not in ANOTHER_TRY,
            "a number beyond what the task allows": order.number > order.most,
        }
        if bad := [name for name, is_so in wrong.items() if is_so]:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"{one.name}: its order is about {', '.join(bad)}",
                evidence=(one.order.at(),),
            )


def _counts(evidence: Evidence) -> Iterator[Noted]:
    """The first formal try that did not end for the machine's sake is the one that counts, and the last one."""
    first = next((one for one in evidence.formals if one.outcome not in ANOTHER_TRY), None)
    if evidence.counted != (first.name if first else None):
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{evidence.counted or 'no formal try'} was taken to count, and by the receipts it is "
            f"{first.name if first else 'none'}",
        )
    later = [one.name for one in evidence.formals if first and one.number > first.number]
    if later and first:
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{names(later)} came after {first.name}, which counts: a result could have been chosen",
        )


def _scores(evidence: Evidence) -> Iterator[Noted]:
    """Every validation and every score is of an artifact of that one try: nothing of another is pooled with it."""
    counted = evidence.formal
    facts = counted.facts.value if counted and counted.facts else None
    left = {one.step: one.sha256 for one in facts.artifacts} if facts else {}
    for one in evidence.of_artifacts:
        if one.facts is None:
            continue
        if left.get(one.step) != one.facts.value.artifact_sha256:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"{one.name} is of the model {short(one.facts.value.artifact_sha256)}, and "
                f"{evidence.counted or 'no formal try'} left {short(left.get(one.step))} at step {one.step}",
                evidence=(one.facts.at("/artifact_sha256"), *((counted.receipt.at(),) if counted else ())),
            )


def _another_patch(evidence: Evidence) -> Evidence | None:
    one = next((one for one in evidence.formals if one.facts), None)
    if one is None or one.facts is None:
        return None
    return with_formal(evidence, replace(one, facts=changed(one.facts, patch_sha256=PLANTED)))


def _another_model(evidence: Evidence) -> Evidence | None:
    one = next((one for one in evidence.finals if one.facts), None)
    if one is None or one.facts is None:
        return None
    other = replace(one, facts=changed(one.facts, artifact_sha256=PLANTED))
    return replace(evidence, finals=tuple(other if final is one else final for final in evidence.finals))


def _damage(evidence: Evidence) -> Evidence:
    fault = "planted/file: sha256 was 000000000000, is c0c0c0c0c0c0"
    folder = Folder(name="planted", outcome=None, files=1, bytes=1, faults=(fault,))
    found = evidence.verification.model_copy(update={"folders": (*evidence.verification.folders, folder)})
    return replace(evidence, verification=found)


def _unordered(evidence: Evidence) -> Evidence | None:
    """A second try of the patch, after one that counts."""
    if not evidence.formals:
        return None
    last: FormalTry = evidence.formals[-1]
    number = last.number + 1
    name = f"formal/attempt-{number:03d}"
    receipt = replace(last.receipt, file=f"{name}/{RECEIPT}")
    other = replace(last, name=name, number=number, outcome=Replayed.COMPLETED, receipt=receipt, order=None)
    return replace(evidence, formals=(*evidence.formals, other))


CHECK = Check(
    axis=Axis.LINEAGE,
    look=_look,
    planted=(
        Plant(name="a file that was changed after it was sealed", into=_damage),
        Plant(name="a formal try of another patch", into=_another_patch),
        Plant(name="a further formal try without an order", into=_unordered),
        Plant(name="a score of another model", into=_another_model),
    ),
)
