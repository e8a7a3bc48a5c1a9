"""One check, made to prove itself: it looks at the evidence, and then at the same evidence with each of its plants.

    looks well, finds every plant     what it says stands
    misses a plant, or breaks         not_assessed, and what was missed is said; what it saw stays in the details
    has nothing to plant into         not_assessed: nobody knows whether it would have found anything

A plant counts as found when the check then says something that it did not say before: a check that is alarmed already
does not find everything.
"""

from opd.protocol.audit.check import Check, Look, Plant
from opd.protocol.audit.evidence import Evidence
from opd.protocol.words import one_line
from opd.records.audits import Control, Coverage, Finding, Verdict
from opd.records.errors import OpdError

BREAKS = (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OpdError)
"""What evidence that strangers made can do to a check: that is not nothing found, and ends no other check."""
_LONGEST = 4_000  # characters of a sentence
_MOST = 200  # sentences, and places in files, that a finding holds


def assess(name: str, check: Check, evidence: Evidence) -> Finding:
    """What the check says, with its controls."""
    try:
        real = check.look(evidence)
    except BREAKS as error:
        return _not_assessed(name, check, f"the check broke: {type(error).__name__}: {error}")
    controls, unplanted, missed = list(real.controls), [], [one.name for one in real.controls if not one.found]
    for plant in check.planted:
        found, why = _finds(check, plant, evidence, real)
        if found is None:
            unplanted.append(f"no control “{plant.name}”: there is nothing to plant it into")
            continue
        controls.append(Control(name=plant.name, found=found))
        if not found:
            missed.append(plant.name + (f" ({why})" if why else ""))
    verdict, sentence, details = real.verdict, real.sentence, real.details
    if missed:
        reason = f"the check missed what was planted for it: {', '.join(missed)}"
    elif not controls:
        reason = "the check could not be tried: there is nothing to plant a control into"
    else:
        reason = None
    if reason and verdict is not Verdict.NOT_ASSESSED:
        verdict, sentence, details = Verdict.NOT_ASSESSED, reason, (*details, f"it saw: {real.sentence}")
    elif reason:
        details = (*details, reason)
    return Finding(
        check=name,
        axis=check.axis,
        verdict=verdict,
        sentence=_fit(sentence),
        details=tuple(_fit(detail) for detail in (*_first(details), *unplanted)),
        protected=_fit(real.protected) if real.protected and verdict is real.verdict else None,
        evidence=real.evidence[:_MOST],
        coverage=real.coverage,
        controls=tuple(controls),
    )


def _fit(sentence: str) -> str:
    """The sentence on one line: it may quote what strangers named their files and programs."""
    return one_line(sentence, most=_LONGEST)


def _first(details: tuple[str, ...]) -> tuple[str, ...]:
    more = len(details) - _MOST
    return (*details[:_MOST], f"and {more} more") if more > 0 else details


def _finds(check: Check, plant: Plant, evidence: Evidence, real: Look) -> tuple[bool | None, str | None]:
    """Whether the check finds the plant, None where it can't be planted; and how it broke, where it did."""
    try:
        altered = plant.into(evidence)
        if altered is None:
            return None, None
        look = check.look(altered)
    except BREAKS as error:
        return False, f"{type(error).__name__}: {error}"
    new = {look.sentence, *look.details} - {real.sentence, *real.details}
    return look.alarms and bool(new), None


def _not_assessed(name: str, check: Check, sentence: str) -> Finding:
    return Finding(
        check=name,
        axis=check.axis,
        verdict=Verdict.NOT_ASSESSED,
        sentence=_fit(sentence),
        coverage=Coverage(files=0, bytes=0),
        controls=(),
    )
