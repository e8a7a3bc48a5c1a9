"""Measurements of one benchmark, compared by the install's own `opd compare`, a program of its own: no statistic is
computed here.

    comparisons/01.json     the first measurement with each later one, p adjusted for their number
    comparisons/02.json     the second with each later one …

A proxy and a final are never in one family: they are measured by different protocols, and don't compare.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opd.protocol.comparison import by_program
from opd.protocol.report.sources import Fact, Sources
from opd.protocol.report.trainings import Match
from opd.records.files import write_json
from opd.records.reports import COMPARISONS
from opd.records.scores import Comparison
from opd.records.settings import validated

ALL_PAIRS = 6  # so many measurements are all compared with each other; of more, each with the anchors

Of = Literal["proxy", "final"]
Compare = Callable[[Path, Sequence[str]], object]
"""The JSON value that `opd compare` prints for these folders, relative to the first argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One measurement."""

    label: str
    evaluation: str  # folder, relative to the attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """B compared with A."""

    of: Of
    a: str
    b: str
    found: Fact  # a `Comparison`
    match: Match

    @property
    def apart(self) -> bool:
        """Whether the test tells the two apart."""
        return self.found.value["distinguishable"] is True

    @property
    def is_controlled(self) -> bool:
        """Whether A is a matched control of B."""
        return self.match.is_control

    @property
    def difference(self) -> float:
        """B - A."""
        return float(self.found.value["difference"])

    @property
    def chance(self) -> Fact | None:
        """The p that decides: adjusted for the family, else the larger of the two tests'."""
        if adjusted := self.found.get("p_holm"):
            return adjusted
        both = [one for one in (self.found.get("p"), self.found.get("p_permutation")) if one is not None]
        return max(both, key=lambda one: float(one.value), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All that were compared."""

    pairs: tuple[Pair, ...] = ()
    selection: Fact | None = None  # of the finals: what being the greatest of several is worth

    def between(self, one: str, other: str) -> Pair | None:
        """The pair of these two, whichever is A."""
        return next((pair for pair in self.pairs if {pair.a, pair.b} == {one, other}), None)

    def of(self, kind: Of) -> tuple[Pair, ...]:
        """Those of proxies, or of finals."""
        return tuple(pair for pair in self.pairs if pair.of == kind)


def compared(
    sources: Sources,
    families: Mapping[Of, Sequence[Side]],
    *,
    anchors: Sequence[str],
    match: Callable[[str, str], Match],
    compare: Compare = by_program,
) -> Compared:
    """Every pair of a family that is asked about, each with its file in the report's folder."""
    pairs: list[Pair] = []
    selection = None
    number = 0
    for of, sides in families.items():
        for first, others in _asked(sides, anchors):
            number += 1
            file = f"{COMPARISONS}/{number:02d}.json"
            (sources.report / COMPARISONS).mkdir(exist_ok=True)
            folders = [first.evaluation, *(other.evaluation for other in others)]
            write_json(sources.report / file, compare(sources.attempt, folders))
            whole = sources.fact(file)
            several = whole.get("comparisons")
            for other, found in zip(others, several.each() if several else (whole,), strict=True):
                validated(Comparison, found.value, source=file)
                pairs.append(
                    Pair(of=of, a=first.label, b=other.label, found=found, match=match(first.label, other.label))
                )
            if of == "final" and selection is None:
                selection = whole.get("selection")
    return Compared(pairs=tuple(pairs), selection=selection)


def _asked(sides: Sequence[Side], anchors: Sequence[str]) -> Iterator[tuple[Side, Sequence[Side]]]:
    """Each with all that come after it; of many, the anchors with all, and nothing twice."""
    if len(sides) <= ALL_PAIRS:
        yield from ((side, sides[place + 1 :]) for place, side in enumerate(sides) if sides[place + 1 :])
        return
    done: list[Side] = []
    for side in (one for one in sides if one.label in anchors):
        done.append(side)
        yield side, [other for other in sides if other not in done]
