"""Sets of real numbers: whether two descriptions, intervals or inequalities, are of one set.

All end points of both sets are put in order. Between neighbours nothing changes, so that each set is a row of
yes and no, at every end point and in every gap; two sets are equal when their rows are.

    (0,9) ∪ (9,36)          0     9     36
    (0,36) ∖ {9}         no no yes no yes no no
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Protocol

from opd.grading.exact import as_infinity
from opd.grading.trees import Node, PlusMinus, contains, variables


class Arithmetic(Protocol):
    """Comparisons of formulas: `exact.Exact` or `numeric.Numeric`."""

    name: str

    def equal(self, one: Node, other: Node) -> bool:
        """Whether two formulas have the same value, for all values of their variables."""
        ...

    def less(self, one: Node, other: Node) -> bool:
        """Whether the first of two constants is smaller."""
        ...

    def proportional(self, one: Node, other: Node, *, positive: bool) -> bool:
        """Whether one formula is a constant, positive if asked, times the other."""
        ...


Rank = Callable[[Node], int]  # the place of an end point: 1, 3, 5, … in order; the gaps are 0, 2, 4, …


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSet:
    """A set by its end points and by whether a place, given as its rank, lies in it."""

    ends: tuple[Node, ...]
    has: Callable[[int, Rank], bool]
    intervals: tuple[tuple[Node, Node], ...] = ()  # to check that their ends are in order
    label: str | None = None  # the variable of an inequality


EVERYTHING = RealSet(ends=(), has=lambda _place, _rank: True)


def same_set(one: RealSet, other: RealSet, arithmetic: Arithmetic) -> bool:
    """Whether two sets have the same elements."""
    finite = [end for end in (*one.ends, *other.ends) if not as_infinity(end)]
    ordered = _in_order(finite, arithmetic)

    ranks = {end: 2 * place + 1 for place, ends in enumerate(ordered) for end in ends}

    def rank(end: Node) -> int:
        if as_infinity(end):
            return -1 if as_infinity(end) < 0 else 2 * len(ordered) + 1
        return ranks[end]

    for real_set in (one, other):
        if any(rank(left) > rank(right) for left, right in real_set.intervals):
            return False
    return all(one.has(place, rank) == other.has(place, rank) for place in range(2 * len(ordered) + 1))


def _in_order(ends: Iterable[Node], arithmetic: Arithmetic) -> list[list[Node]]:
    """The end points from left to right; those of one value in one group."""

    def compare(one: Node, other: Node) -> int:
        if one == other or arithmetic.equal(one, other):
            return 0
        return -1 if arithmetic.less(one, other) else 1

    groups: list[list[Node]] = []
    for end in sorted(dict.fromkeys(ends), key=cmp_to_key(compare)):
        if groups and compare(groups[-1][0], end) == 0:
            groups[-1].append(end)
        else:
            groups.append([end])
    return groups


def points(items: tuple[Node, ...]) -> RealSet | None:
    """These numbers; None when one is no number."""
    if any(variables(item) or as_infinity(item) or contains(item, PlusMinus) for item in items):
        return None
    return RealSet(ends=items, has=lambda place, rank: any(rank(item) == place for item in items))


def interval(left: Node, right: Node, *, from_left: bool, to_right: bool) -> RealSet | None:
    """What lies between two ends, of which either may belong to it; None when one has a variable in it."""
    if variables(left) or variables(right):
        return None

    def has(place: int, rank: Rank) -> bool:
        start, end = rank(left), rank(right)
        return start < place < end or (from_left and place == start) or (to_right and place == end)

    return RealSet(ends=(left, right), has=has, intervals=((left, right),))


def combined(operator: str, left: RealSet | None, right: RealSet | None) -> RealSet | None:
    """A union (cup), an intersection (cap) or a difference (setminus); None of values of different variables."""
    if left is None or right is None:
        return None
    if left.label and right.label and left.label != right.label:
        return None

    def has(place: int, rank: Rank) -> bool:
        inside, other = left.has(place, rank), right.has(place, rank)
        if operator == "cup":
            return inside or other
        return inside and (other if operator == "cap" else not other)

    return RealSet(
        ends=left.ends + right.ends,
        has=has,
        intervals=left.intervals + right.intervals,
        label=left.label or right.label,
    )


def half_line(operator: str, end: Node) -> RealSet | None:
    """Where x stands in this relation to an end point; None when that has a variable in it."""
    if variables(end):
        return None

    def has(place: int, rank: Rank) -> bool:
        at = rank(end)
        return {
            "<": place < at,
            "<=": place <= at,
            ">": place > at,
            ">=": place >= at,
            "=": place == at,
            "!=": place != at,
        }[operator]

    return RealSet(ends=(end,), has=has)
