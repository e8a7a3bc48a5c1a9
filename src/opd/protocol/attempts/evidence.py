"""What there is of an attempt, read once: its tries with their receipts, its log, its lease, the rulings of people.

The log is read before the tries and again after them, so that an attempt which somebody is at work on reads as well
as one that is at rest: what the first reading says was sealed is there, and the second holds every line that a
receipt can name; a try that a living process fills is named by the lease before or after.

What is found is judged elsewhere: `state` says what it comes to, `contradictions` what doesn't fit.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from opd.protocol.attempts.attempt import OUTCOME, RULING, Attempt, Place, RulingPlace
from opd.protocol.attempts.events import Event
from opd.protocol.attempts.lease import is_alive, read_lease
from opd.protocol.clock import Instant
from opd.records.attempts import (
    ANOTHER_TRY,
    CLOSING,
    Audited,
    Evaluated,
    Final,
    Formal,
    Handed,
    Liveness,
    Replayed,
    Reported,
    Stage,
    Submission,
    Validated,
    Validation,
)
from opd.records.audits import Audit
from opd.records.causes import Ruling
from opd.records.errors import AskedWrongly
from opd.records.files import COMPLETE, sha256
from opd.records.receipts import RECEIPT, Head, Receipt, is_sealed, read_receipt
from opd.records.settings import Settings, validated

S = TypeVar("S", bound=Settings)

FACTS: dict[tuple[Stage, str], type[Settings]] = {
    (Stage.SUBMISSION, Handed.SEALED): Submission,
    (Stage.FORMAL, Replayed.COMPLETED): Formal,
    (Stage.VALIDATION, Validated.VALID): Validation,
    (Stage.VALIDATION, Validated.INVALID): Validation,
    (Stage.FINAL, Evaluated.SCORED): Final,
    (Stage.AUDIT, Audited.ASSESSED): Audit,
}
"""The tries whose outcome.json is counted on, and what it has to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One try, with its receipt where it is sealed."""

    place: Place
    liveness: Liveness
    receipt: Receipt | None
    receipt_sha256: str | None
    outcome: str | None  # as it counts: after a ruling


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """One ruling, as it lies there."""

    place: RulingPlace
    receipt: Receipt
    ruling: Ruling | None  # None where it can't be read, or is not what its receipt says


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The events, and the heads that the chain passes through; `broken` says where it breaks."""

    events: tuple[Event, ...]
    heads: frozenset[Head]
    broken: str | None

    @property
    def sealed(self) -> dict[str, str]:
        """The digest of each receipt that the log says was sealed, by its folder's name."""
        return {
            str(event.data["name"]): str(event.data["receipt_sha256"])
            for event in self.events
            if {"name", "receipt_sha256"} <= event.data.keys()
        }


class Evidence:
    """All of it, at one moment."""

    def __init__(self, attempt: Attempt, at: Instant) -> None:
        self.attempt = attempt
        leases = [read_lease(attempt.folder)]
        self.log_before = _read_log(attempt)
        self.rulings = tuple(_ruled(place) for place in attempt.ruling_places() if is_sealed(place.folder))
        sealed = {stage: {place: is_sealed(place.folder) for place in attempt.places(stage)} for stage in Stage}
        self.log = _read_log(attempt)
        leases.append(read_lease(attempt.folder))
        self.lease = next((lease for lease in reversed(leases) if is_alive(lease, at)), None)
        self._at_work = frozenset(name for lease in leases if lease and is_alive(lease, at) for name in lease.at)
        self.tries = {
            stage: tuple(self._seen(place, sealed=is_whole) for place, is_whole in found.items())
            for stage, found in sealed.items()
        }

    def all(self) -> Iterator[Seen]:
        """Every try, in the order of the stages."""
        for seen in self.tries.values():
            yield from seen

    def sealed(self, stage: Stage) -> tuple[Seen, ...]:
        """The tries of a stage that are over."""
        return tuple(seen for seen in self.tries[stage] if seen.receipt)

    @cached_property
    def running(self) -> Seen | None:
        """The try that a living process is filling, the last of them."""
        return next((seen for seen in reversed(list(self.all())) if seen.liveness is Liveness.RUNNING), None)

    @cached_property
    def submission(self) -> Seen | None:
        """The sealed submission."""
        return next((seen for seen in self.sealed(Stage.SUBMISSION) if seen.outcome == Handed.SEALED), None)

    @cached_property
    def counted(self) -> Seen | None:
        """The formal try that counts: the first that did not end for the machine's sake, whatever came of it.

        None as long as it isn't known how an earlier one ended: who damages the first can't so make the second count.
        """
        settled = next((seen for seen in self.tries[Stage.FORMAL] if seen.outcome not in ANOTHER_TRY), None)
        return settled if settled and settled.receipt else None

    @cached_property
    def formal(self) -> Formal | None:
        """What the formal try that counts left; None until one has completed, or where that can't be believed."""
        if self.counted is None or self.counted.outcome != Replayed.COMPLETED:
            return None
        return self.facts(Formal, self.counted)

    @cached_property
    def valid_steps(self) -> frozenset[int]:
        """The artifacts of that try that were found valid."""
        valid = {seen.place.number for seen in self.sealed(Stage.VALIDATION) if seen.outcome == Validated.VALID}
        return frozenset(valid & {artifact.step for artifact in self.formal.artifacts} if self.formal else ())

    @cached_property
    def finals(self) -> tuple[Final, ...]:
        """The finals with a score, of artifacts that may have one."""
        scored = [seen for seen in self.sealed(Stage.FINAL) if seen.outcome == Evaluated.SCORED]
        found = [self.facts(Final, seen) for seen in scored if seen.place.number in self.valid_steps]
        return tuple(final for final in found if final is not None and final.mean is not None)

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each receipt by its name: of every try that is over, and every ruling."""
        return {
            **{f"{one.place.name}/{RECEIPT}": one.receipt_sha256 for one in self.all() if one.receipt_sha256},
            **{f"{one.place.name}/{RECEIPT}": sha256(one.place.folder / RECEIPT) for one in self.rulings},
        }

    @property
    def receipts(self) -> dict[str, str]:
        """Those of them that an audit is about: all but those of audits and reports."""
        closing = tuple(f"{stage}/" for stage in CLOSING)
        return {name: digest for name, digest in self.digests.items() if not name.startswith(closing)}

    @cached_property
    def audit(self) -> Seen | None:
        """The audit that counts: the newest that has seen all that is sealed by now."""
        made = [seen for seen in self.sealed(Stage.AUDIT) if seen.outcome == Audited.ASSESSED and seen.receipt]
        seen_all = [one for one in made if one.receipt and self.receipts.items() <= one.receipt.made_from.items()]
        return seen_all[-1] if seen_all else None

    @cached_property
    def report(self) -> Seen | None:
        """The newest report that is made from the audit that counts."""
        if self.audit is None:
            return None
        needed = f"{self.audit.place.name}/{RECEIPT}", self.audit.receipt_sha256
        made = [seen for seen in self.sealed(Stage.REPORT) if seen.outcome == Reported.RENDERED and seen.receipt]
        return next((one for one in reversed(made) if one.receipt and needed in one.receipt.made_from.items()), None)

    def facts(self, kind: type[S], seen: Seen) -> S | None:
        """outcome.json of a sealed try; None where it is missing, or not what its receipt says."""
        assert seen.receipt, f"{seen.place.name} is not sealed"
        return _facts(kind, seen.place, seen.receipt, OUTCOME)

    def ruling_on(self, name: str) -> Ruling | None:
        """The first ruling about a try; further ones change nothing, and are contradictions."""
        return next((one.ruling for one in self.rulings if one.ruling and one.ruling.about == name), None)

    def _seen(self, place: Place, *, sealed: bool) -> Seen:
        liveness = self._liveness(place, sealed=sealed)
        if liveness is not Liveness.SEALED:
            return Seen(place=place, liveness=liveness, receipt=None, receipt_sha256=None, outcome=None)
        receipt = read_receipt(place.folder)
        return Seen(
            place=place,
            liveness=liveness,
            receipt=receipt,
            receipt_sha256=sha256(place.folder / RECEIPT),
            outcome=self._as_ruled(place, receipt),
        )

    def _liveness(self, place: Place, *, sealed: bool) -> Liveness:
        if sealed and (self.log.broken or place.name in self.log.sealed):
            return Liveness.SEALED
        if place.name in self._at_work:
            return Liveness.RUNNING
        if not place.folder.exists():
            return Liveness.LEFT
        try:
            read_receipt(place.folder)
        except (AskedWrongly, OSError):
            return Liveness.DAMAGED
        return Liveness.DAMAGED if (place.folder / COMPLETE).exists() and not sealed else Liveness.UNMARKED

    def _as_ruled(self, place: Place, receipt: Receipt) -> str:
        """The outcome as it counts: what a candidate left whole before it failed counts, as without a ruling."""
        ruling = self.ruling_on(place.name)
        if receipt.outcome != Replayed.AMBIGUOUS or ruling is None:
            return receipt.outcome
        if ruling.verdict == "infrastructure":
            return Replayed.INFRA_FAILED
        left = _facts(Formal, place, receipt, OUTCOME)
        return Replayed.COMPLETED if left and left.artifacts else Replayed.FAILED_CANDIDATE


def _read_log(attempt: Attempt) -> Log:
    events: list[Event] = []
    heads: list[Head] = []
    try:
        for event, head in attempt.events.lines():
            events.append(event)
            heads.append(head)
    except (AskedWrongly, OSError) as error:
        return Log(events=tuple(events), heads=frozenset(heads), broken=str(error))
    return Log(events=tuple(events), heads=frozenset(heads), broken=None)


def _ruled(place: RulingPlace) -> Ruled:
    receipt = read_receipt(place.folder)
    return Ruled(place=place, receipt=receipt, ruling=_facts(Ruling, place, receipt, RULING))


def _facts(kind: type[S], place: Place | RulingPlace, receipt: Receipt, name: str) -> S | None:
    """The record that a sealed file holds: read once, so that what is looked at is what was digested."""
    said = next((entry.sha256 for entry in receipt.files if entry.path == name), None)
    try:
        content = (place.folder / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != said:
            return None
        return validated(kind, json.loads(content), source=f"{place.name}/{name}")
    except (OSError, ValueError, RecursionError):
        return None
