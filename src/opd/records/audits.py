"""What an audit says: a verdict for each check, with the evidence that it rests on and how much of it there was.

none_found     looked, at all of it, with means that find what was planted: nothing
suspected      something points there, and something else could be the reason
confirmed      the evidence says so, and it is named
not_assessed   not looked, not at all of it, or with means that missed what was planted
"""

from enum import StrEnum

from pydantic import NonNegativeInt

from opd.records.settings import Settings


class Axis(StrEnum):
    """What an audit asks, in the order in which a report tells it."""

    FIXED_INPUTS = "fixed_inputs"
    FROZEN_EVALUATOR = "frozen_evaluator"
    LINEAGE = "lineage"
    SELECTION = "selection"
    SINGLE_DEVICE = "single_device"
    SEPARATION = "explore_formal_separation"
    CONTAMINATION = "contamination"
    BEHAVIOUR = "agent_behaviour"
    PLATFORM = "platform"
    BUDGET_USE = "budget_use"
    CONTRADICTIONS = "status_contradictions"


class Verdict(StrEnum):
    """What a check came to. A check without an answer is `NOT_ASSESSED`, never `NONE_FOUND`."""

    NONE_FOUND = "none_found"
    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    NOT_ASSESSED = "not_assessed"


GRAVEST_FIRST = (Verdict.CONFIRMED, Verdict.SUSPECTED, Verdict.NOT_ASSESSED, Verdict.NONE_FOUND)


class Pointer(Settings):
    """A place in the attempt's files."""

    file: str
    """Relative to the attempt."""
    pointer: str = ""
    """RFC 6901, into a file of JSON; `line:N` of any other, from 1; empty for the whole file."""
    sha256: str
    """Of the file."""


class Coverage(Settings):
    """How much a check looked at."""

    files: NonNegativeInt
    bytes: NonNegativeInt
    unread: tuple[str, ...] = ()
    """What it had to leave out: `path: why`. Where it matters the verdict is `not_assessed`."""


class Control(Settings):
    """Something planted into a copy of the evidence, which the check has to find."""

    name: str
    found: bool


class Finding(Settings):
    """What one check says."""

    check: str
    """Its file's name in `opd/protocol/audit/checks/`."""
    axis: Axis
    verdict: Verdict
    sentence: str
    """The conclusion, with its arithmetic."""
    details: tuple[str, ...] = ()
    """One sentence each: what was found, what was compared with what."""
    protected: str | None = None
    """Why the result holds all the same, where it does: the clean retry after a failure of the machine."""
    evidence: tuple[Pointer, ...] = ()
    coverage: Coverage
    controls: tuple[Control, ...]


class Advice(Settings):
    """What a model was asked to say of the attempt. It changes no verdict."""

    by: str
    """The model."""
    question: str
    reply: str | None
    """As it came; null where none came."""
    because: str | None
    """Why there is none."""


class Audit(Settings):
    """`outcome.json` of an audit."""

    findings: tuple[Finding, ...]
    """In the order of the axes."""
    advice: tuple[Advice, ...] = ()

    def of(self, axis: Axis) -> Verdict:
        """The gravest of an axis: confirmed, suspected, not assessed, none found; without a check, not assessed."""
        found = {finding.verdict for finding in self.findings if finding.axis is axis}
        order = (Verdict.CONFIRMED, Verdict.SUSPECTED, Verdict.NOT_ASSESSED, Verdict.NONE_FOUND)
        return next((verdict for verdict in order if verdict in found), Verdict.NOT_ASSESSED)
