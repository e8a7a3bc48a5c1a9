"""Small changes to evidence, in memory: what the controls of the checks are made of. No file is touched."""

from dataclasses import replace
from typing import Any, TypeVar

from opd.protocol.attempts.events import Event
from opd.protocol.audit.evidence import Evidence, ExploreTry, FormalTry, Held
from opd.protocol.clock import now
from opd.records.settings import Settings

S = TypeVar("S", bound=Settings)

PLANTED = "c0" * 32  # a digest that nothing has


def changed(held: Held[S], **values: Any) -> Held[S]:
    """The same file, with other values in what it holds."""
    return replace(held, value=held.value.model_copy(update=values))


def with_formal(evidence: Evidence, changed_try: FormalTry) -> Evidence:
    """The evidence with this formal try in the place of the one of its name."""
    formals = (changed_try if one.name == changed_try.name else one for one in evidence.formals)
    return replace(evidence, formals=tuple(formals))


def with_exploration(evidence: Evidence, changed_try: ExploreTry) -> Evidence:
    """The evidence with this exploration in the place of the one of its name."""
    explorations = (changed_try if one.name == changed_try.name else one for one in evidence.explorations)
    return replace(evidence, explorations=tuple(explorations))


def with_event(evidence: Evidence, kind: str, *, actor: str, **data: Any) -> Evidence:
    """The evidence with one more line at the end of the log."""
    event = Event(
        seq=len(evidence.log.value) + 1, at=now(), actor=actor, kind=kind, data=data, prev_sha256="", own_sha256=""
    )
    return replace(evidence, log=replace(evidence.log, value=(*evidence.log.value, event)))
