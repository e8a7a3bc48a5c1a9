"""Whether anything in the evidence says of a stage something else than its receipt: named, and resolved if possible.

A harness leaves control files that nobody writes again; a stage may say of a later one that it was not done. A
receipt is written last, sealed, and agrees with its mark: where it stands against such a file, it is what holds.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, Held
from opd.protocol.audit.states import KEYS
from opd.protocol.audit.wording import count, names
from opd.records.attempts import Evaluated, Stage
from opd.records.audits import Axis, Pointer, Verdict
from opd.records.receipts import Receipt

_LIVE = frozenset(
    {
        "running",
        "pending",
        "queued",
        "in_progress",
        "in progress",
        "started",
        "starting",
        "active",
        "working",
        "alive",
    }
)
_NOT_DONE = frozenset(
    {"not_created", "not created", "never_created", "not_run", "not run", "not_started", "not started", "missing",
     "absent", "skipped", "not_done", "none"}
)  # fmt: skip
_LATER = {
    Stage.FINAL: ("score", "scoring", "final", "evaluat"),
    Stage.VALIDATION: ("validat",),
    Stage.FORMAL: ("formal", "replay"),
}
_MOST_VALUES = 2_000  # of one file
_DEEPEST = 8
_MOST_TOLD = 3  # contradictions in one sentence


def _look(evidence: Evidence) -> Look:
    receipts = {one.file.rpartition("/")[0]: one for one in evidence.receipts()}
    notes = list(chain(*(_of_file(evidence, one, receipts) for one in evidence.states), _own(evidence)))
    resolved = [note for note in notes if note.protected]
    look = concluded(
        notes,
        clear=f"{count(evidence.states, 'control file')} beside {count(receipts, 'receipt')}: none says of a stage "
        "something else than its receipt",
        coverage=evidence.coverage(
            *receipts.values(), *evidence.states, unread=evidence.unread_in("explore/", "formal/")
        ),
        cites=(one.at() for one in evidence.states or receipts.values()),
    )
    if len(notes) < 2:
        return look
    every = "; ".join(note.sentence for note in notes[:_MOST_TOLD])
    return replace(look, sentence=f"{len(notes)} contradictions, {len(resolved)} of them resolved: {every}")


def _own(evidence: Evidence) -> Iterator[Noted]:
    """What of the protocol's own records does not fit together; nothing resolves that."""
    for sentence in evidence.verification.contradictions:
        yield Noted(verdict=Verdict.CONFIRMED, sentence=sentence)


def _of_file(evidence: Evidence, held: Held[dict[str, Any]], receipts: dict[str, Held[Receipt]]) -> Iterator[Noted]:
    name = "/".join(held.file.split("/")[:2])
    receipt = receipts.get(name)
    if receipt is None:
        return
    values = dict(_values(held.value))
    for pointer, word in values.items():
        key = pointer.rpartition("/")[2]
        if key in KEYS and word in _LIVE:
            yield _stale(held, pointer, word, name=name, receipt=receipt, values=values)
        elif word in _NOT_DONE:
            yield from _done_elsewhere(evidence, held, pointer, word)


def _stale(
    held: Held[dict[str, Any]], pointer: str, word: str, *, name: str, receipt: Held[Receipt], values: dict[str, str]
) -> Noted:
    """A file that says that something is still going on, in a try that is over."""
    said = [
        f"{other.rpartition('/')[2]}: {value!r}"
        for other, value in values.items()
        if other != pointer and other.rpartition("/")[2] in KEYS and value not in _LIVE
    ]
    same_file = f"the same file says {names(said)}; " if said else ""
    sealed = f"{receipt.file} ({receipt.value.outcome}, {receipt.value.ended_utc}) and its .complete"
    return Noted(
        verdict=Verdict.CONFIRMED,
        sentence=f"{held.file} still says {pointer.rpartition('/')[2]}: {word!r}, and {name} ended as "
        f"{receipt.value.outcome}",
        evidence=(_at(held, pointer), receipt.at("/outcome")),
        protected=f"{same_file}{sealed} were written later, agree, and hold: the file was not written again",
    )


def _done_elsewhere(evidence: Evidence, held: Held[dict[str, Any]], pointer: str, word: str) -> Iterator[Noted]:
    """A file that says of a later stage that it was not done, which was done by the protocol."""
    path = pointer.lower()
    stage = next((stage for stage, words in _LATER.items() if any(one in path for one in words)), None)
    done = _done(evidence, stage) if stage else []
    if done and stage:
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{held.file} says {pointer}: {word!r}, and there are sealed receipts: "
            f"{names(one.file for one in done)}",
            evidence=(_at(held, pointer), *(one.at("/outcome") for one in done)),
            protected=f"that file speaks of a phase of its own; the {stage} stage is the protocol's, came later and "
            "elsewhere, and its receipts hold",
        )


def _at(held: Held[dict[str, Any]], pointer: str) -> Pointer:
    return held.at(pointer if held.file.endswith(".json") else "")  # a pointer leads into JSON alone


def _done(evidence: Evidence, stage: Stage) -> list[Held[Receipt]]:
    if stage is Stage.FINAL:
        return [one.receipt for one in evidence.finals if one.outcome == Evaluated.SCORED]
    if stage is Stage.VALIDATION:
        return [one.receipt for one in evidence.validations]
    return [one.receipt for one in evidence.formals]


def _values(value: Any, pointer: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each text in a JSON value by its pointer, in lower case; a false or null `created` says that it was not."""
    for place, one in islice(_leaves(value, pointer, depth), _MOST_VALUES):
        if isinstance(one, str) and len(one) < 100:
            yield place, one.strip().lower()
        elif one in (None, False) and place.endswith(("created", "/done", "/exists")):
            yield place, "not_done"


def _leaves(value: Any, pointer: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth < _DEEPEST and isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(one, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}", depth + 1)
    elif depth < _DEEPEST and isinstance(value, list):
        for place, one in enumerate(value):
            yield from _leaves(one, f"{pointer}/{place}", depth + 1)
    else:
        yield pointer, value


def _stale_file(evidence: Evidence) -> Evidence | None:
    one = next(iter(reversed(evidence.tries)), None)
    if one is None:
        return None
    planted: Held[dict[str, Any]] = Held(
        value={"status": "running"}, file=f"{one.name}/planted-control.json", sha256="0" * 64, bytes=21
    )
    return replace(evidence, states=(*evidence.states, planted))


def _undone_phase(evidence: Evidence) -> Evidence | None:
    one = next(iter(reversed(evidence.tries)), None)
    if one is None or not any(final.outcome == Evaluated.SCORED for final in evidence.finals):
        return None
    planted: Held[dict[str, Any]] = Held(
        value={"phases": {"score": "not_created"}},
        file=f"{one.name}/planted-manifest.json",
        sha256="0" * 64,
        bytes=36,
    )
    return replace(evidence, states=(*evidence.states, planted))


CHECK = Check(
    axis=Axis.CONTRADICTIONS,
    look=_look,
    planted=(
        Plant(name="a control file that still says running", into=_stale_file),
        Plant(name="a manifest that knows of no score", into=_undone_phase),
    ),
)
