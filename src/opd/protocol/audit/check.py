"""A check: the axis that it answers for, one pure function of the evidence, and what it has to find when planted.

CHECK = Check(axis=Axis.LINEAGE, look=look, planted=(Plant(name="another patch", into=_another_patch), …))
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from opd.protocol.audit.evidence import Evidence
from opd.records.audits import GRAVEST_FIRST, Axis, Control, Coverage, Pointer, Verdict

_MOST_BESIDES = 3  # further things that a sentence names


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """One thing that a look has noticed."""

    verdict: Verdict
    sentence: str
    evidence: tuple[Pointer, ...] = ()
    protected: str | None = None  # why the result holds all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a check says of some evidence."""

    verdict: Verdict
    sentence: str
    details: tuple[str, ...] = ()
    protected: str | None = None
    evidence: tuple[Pointer, ...] = ()
    coverage: Coverage
    controls: tuple[Control, ...] = ()  # planted by the look itself

    @property
    def alarms(self) -> bool:
        """Whether it found something."""
        return self.verdict in {Verdict.CONFIRMED, Verdict.SUSPECTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """Something that the check has to find."""

    name: str
    into: Callable[[Evidence], Evidence | None]
    """The evidence with it; None where there is nothing that it could be planted into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What `checks/<name>.py` exports as CHECK."""

    axis: Axis
    look: Callable[[Evidence], Look]
    planted: tuple[Plant, ...] = ()
    """None only where the look plants its own."""


def concluded(
    notes: Iterable[Noted],
    *,
    clear: str,
    coverage: Coverage,
    beside: Iterable[str] = (),
    cites: Iterable[Pointer] = (),
) -> Look:
    """The gravest of what was noticed, with all of it as details; where nothing was, `clear`.

    The sentence names what else was found: whoever reads it alone must not take the first for all.

    `beside` are details that are no findings, `cites` what a clear look rests on.
    """
    found = sorted(notes, key=lambda note: GRAVEST_FIRST.index(note.verdict))  # stable: in the order of looking
    first = found[0] if found else None
    protected = [note.protected for note in found if note.protected]
    # what protects from one thing protects from nothing else that is as grave
    grave = [note for note in found if note.verdict in {Verdict.CONFIRMED, Verdict.SUSPECTED}]
    evidence = dict.fromkeys(pointer for note in found for pointer in note.evidence) or dict.fromkeys(cites)
    return Look(
        verdict=first.verdict if first else Verdict.NONE_FOUND,
        sentence=first.sentence + _besides(grave[1:]) if first else clear,
        details=tuple(dict.fromkeys([*(note.sentence for note in found), *beside])),
        protected="; ".join(dict.fromkeys(protected)) if protected and all(n.protected for n in grave) else None,
        evidence=tuple(evidence),
        coverage=coverage,
    )


def _besides(notes: Sequence[Noted]) -> str:
    if not notes:
        return ""
    more = len(notes) - _MOST_BESIDES
    said = (f"{note.verdict}: {note.sentence}" for note in notes[:_MOST_BESIDES])
    return f"; besides, {'; '.join(said)}" + (f"; and {more} more" if more > 0 else "")
