"""Measurements of one benchmark, compared by the install's own `opd compare`, a program of its own: no statistic is
computed here.

    comparisons/01.json     the pairs of proxies, p adjusted for all of them together
    comparisons/02.json     those of the finals

So a file is a family, and a family a table of the report. A proxy and a final are never in one: they are measured by
different protocols, and don't compare.
"""

from collections.abc import Callable, Mapping, Sequence
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
Compare = Callable[[Path, Sequence[str], int], object]
"""The JSON value that `opd compare` prints for these folders, relative to the first argument, of which each of so
many first ones is compared with all after it.
"""


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
    """Every pair that is asked about, each family in one file in the report's folder and adjusted as a whole."""
    pairs: list[Pair] = []
    selection = None
    asked = ((of, *_led(sides, anchors)) for of, sides in families.items())
    for number, (of, sides, lead) in enumerate((one for one in asked if one[2]), start=1):
        file = f"{COMPARISONS}/{number:02d}.json"
        (sources.report / COMPARISONS).mkdir(exist_ok=True)
        write_json(sources.report / file, compare(sources.attempt, [side.evaluation for side in sides], lead))
        whole = sources.fact(file)
        several = whole.get("comparisons")
        ways = [(a, b) for place, a in enumerate(sides[:lead], start=1) for b in sides[place:]]
        for (a, b), found in zip(ways, several.each() if several else (whole,), strict=True):
            validated(Comparison, found.value, source=file)
            pairs.append(Pair(of=of, a=a.label, b=b.label, found=found, match=match(a.label, b.label)))
        if of == "final":
            selection = whole.get("selection")
    return Compared(pairs=tuple(pairs), selection=selection)


def _led(sides: Sequence[Side], anchors: Sequence[str]) -> tuple[Sequence[Side], int]:
    """The sides in order, and how many of the first are compared with all after them: of a few each, of many the
    anchors, which then stand first.
    """
    if len(sides) <= ALL_PAIRS:
        return sides, max(0, len(sides) - 1)
    leading = [side for side in sides if side.label in anchors]
    return [*leading, *(side for side in sides if side not in leading)], len(leading)
