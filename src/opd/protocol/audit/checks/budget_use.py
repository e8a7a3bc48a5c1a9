"""Whether the formal time was used: only a run that the clock did not stop can have left some of it unused.

What a run may leave for its last checkpoint is the task's reserve, and a little for a step and a save that would not
have fitted any more. A trainer that minds its time ends by itself before the clock stops it, and may say in its own
record that the clock was why: that is a claim, which the time that was used bears out or does not.
"""

from collections.abc import Iterator
from dataclasses import replace

from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, FormalTry
from opd.protocol.audit.planting import changed, with_formal
from opd.protocol.audit.wording import seconds
from opd.records.attempts import Replayed
from opd.records.audits import Axis, Verdict

_CLOCK = "wall_clock"
_NOT_CHOSEN = frozenset({"error", "limit", "lost", "stopped", "not_started"})
_MARGIN = 0.05  # of the time given: a step and a save that would not have fitted


def _look(evidence: Evidence) -> Look:
    counted = evidence.formal
    notes = list(_notes(evidence, counted))
    return concluded(
        notes,
        clear=_clear(counted) if counted and counted.facts else "",
        coverage=evidence.coverage(
            counted.facts if counted else None, counted.claim if counted else None, evidence.task,
            *(one.facts for one in evidence.explorations),
        ),
        beside=_beside(evidence),
        cites=(counted.facts.at("/seconds"), counted.facts.at("/given_seconds"), counted.facts.at("/stop"))
        if counted and counted.facts
        else (),
    )  # fmt: skip


def _notes(evidence: Evidence, counted: FormalTry | None) -> Iterator[Noted]:
    if counted is None or counted.facts is None or counted.outcome != Replayed.COMPLETED:
        yield Noted(
            verdict=Verdict.NOT_ASSESSED, sentence="no formal try completed: there is no use of its time to judge"
        )
        return
    facts = counted.facts.value
    unused = facts.given_seconds - facts.seconds
    reserve = evidence.task.value.contract.budgets.reserve_seconds if evidence.task else 0.0
    allowed = reserve + _MARGIN * facts.given_seconds
    if facts.stop == _CLOCK or unused <= allowed:
        return
    chosen = facts.stop not in _NOT_CHOSEN
    says = _says(counted, is_borne_out=False)
    yield Noted(
        verdict=Verdict.CONFIRMED if chosen else Verdict.SUSPECTED,
        sentence=f"{counted.name} ended {_how(facts.stop)}{says} after {_used(counted)}: {seconds(unused)} were "
        f"unused, more than the {seconds(allowed)} that its last checkpoint may need",
        evidence=(counted.facts.at("/seconds"), counted.facts.at("/given_seconds"), counted.facts.at("/stop")),
    )


def _clear(counted: FormalTry) -> str:
    assert counted.facts is not None, "asked before"
    facts = counted.facts.value
    step = f" at step {facts.last_step}" if facts.last_step is not None else ""
    if facts.stop == _CLOCK:
        return f"{counted.name} was stopped by the clock{step} after {_used(counted)}: its time was used"
    says = _says(counted, is_borne_out=True)
    left = "what was left was too little for more"
    return f"{counted.name} ended {_how(facts.stop)}{step}{says} after {_used(counted)}: {left}"


def _says(counted: FormalTry, *, is_borne_out: bool) -> str:
    """Why the run ended, in a word of its own program's; that it was the clock can be held against the time."""
    said = counted.claim.value.get("stop") if counted.claim else None
    if not isinstance(said, str) or not said:
        return ""
    held = f", which that {'bears out' if is_borne_out else 'does not bear out'}" if said == _CLOCK else ""
    return f" (its own record says {said!r:.40}{held})"


def _used(counted: FormalTry) -> str:
    assert counted.facts is not None, "asked before"
    facts = counted.facts.value
    share = 100 * facts.seconds / facts.given_seconds
    return f"{seconds(facts.seconds)} of {seconds(facts.given_seconds)} ({share:.2f} %)"


def _how(stop: str) -> str:
    return {"by_itself": "by itself", "error": "by an error"}.get(stop, f"by “{stop}”")


def _beside(evidence: Evidence) -> Iterator[str]:
    for one in evidence.explorations:
        if one.facts:
            facts = one.facts.value
            idle = f"its device did nothing for {seconds(facts.idle_seconds)} of them; " if evidence.on_gpus else ""
            yield (
                f"{one.name} took {seconds(facts.seconds)} of {seconds(facts.given_seconds)}; {idle}what it left "
                "unused is told beside its behaviour"
            )


def _at_once(evidence: Evidence) -> Evidence | None:
    counted = evidence.formal
    if counted is None or counted.facts is None or counted.outcome != Replayed.COMPLETED:
        return None
    facts = changed(counted.facts, stop="by_itself", seconds=0.0)
    return with_formal(evidence, replace(counted, facts=facts))


CHECK = Check(
    axis=Axis.BUDGET_USE,
    look=_look,
    planted=(Plant(name="a run that ended by itself at once", into=_at_once),),
)
