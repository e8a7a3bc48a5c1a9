"""The values of one variable for which a chain of relations holds: -2 ≤ x < 7, |x - 1| < 3, 2x + 1 > 0.

A side of a relation is a label (x, or f(x)), a linear formula of one variable with rational coefficients, or the
absolute value of one. Other conditions describe no set here, and are compared as relations.
"""

from collections.abc import Callable
from fractions import Fraction

from opd.grading import exact
from opd.grading.realsets import EVERYTHING, RealSet, combined, half_line
from opd.grading.trees import Call, Node, Number, Product, Relation, Sum, Unreadable, negative, variables

INEQUALITIES = frozenset({"<", "<=", ">", ">=", "!="})
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "=": "="}
_PLACES = (Fraction(2), Fraction(-7), Fraction(104729, 17))  # where a line is told from a curve

Step = tuple[str | None, RealSet | None]  # the variable, and what one relation says of it


def condition(relation: Relation, *, described: Callable[[Node], RealSet | None]) -> RealSet | None:
    """The set of values; None when the condition is of no one variable. `described` reads what x is an element of."""
    result: RealSet | None = EVERYTHING
    for place, operator in enumerate(relation.operators):
        left, right = relation.members[place : place + 2]
        left_label, right_label = relation.labels[place : place + 2]
        if operator == "in":
            label, step = left_label, described(right) if left_label else None
        else:
            label, step = _step(operator, left, right, left_label, right_label)
        if step is None or label is None:
            return None
        labelled = RealSet(ends=step.ends, has=step.has, intervals=step.intervals, label=label)
        result = combined("cap", result, labelled)
    return result


def _step(operator: str, left: Node, right: Node, left_label: str | None, right_label: str | None) -> Step:
    mirrored = _MIRRORED[operator]
    for one, other, sign in ((left, right, operator), (right, left, mirrored)):
        distance = _distance(one, sign, other)
        if distance[1] is not None:
            return distance
    if left_label:
        return left_label, half_line(operator, right)
    if right_label:
        return right_label, half_line(mirrored, left)
    line = _line(Sum((left, negative(right))))
    if line is None:
        return None, None
    name, slope, height = line
    return name, half_line(operator if slope > 0 else mirrored, Number(-height / slope))


_WITHIN = {  # how |…| < r bounds the inside from below and from above, and how the two join
    "<": ("cap", ">", "<"),
    "<=": ("cap", ">=", "<="),
    ">": ("cup", "<", ">"),
    ">=": ("cup", "<=", ">="),
}


def _distance(one: Node, operator: str, other: Node) -> Step:
    """What |a·x + b| < r says of x; a negative r needs no case of its own."""
    inner = one.arguments[0] if isinstance(one, Call) and one.function == "abs" else None
    if inner is None or operator not in _WITHIN or variables(other):
        return None, None
    line = _line(inner)
    if line is None:
        return None, None
    name, slope, height = line
    joiner, below, above = _WITHIN[operator]
    low, high = (_solved(radius, slope, height) for radius in (negative(other), other))
    if slope < 0:
        low, high = high, low
    return name, combined(joiner, half_line(below, low), half_line(above, high))


def _solved(value: Node, slope: Fraction, height: Fraction) -> Node:
    """Where the line has this value."""
    return Product((Number(1 / slope), Sum((value, Number(-height)))))


def _line(formula: Node) -> tuple[str, Fraction, Fraction] | None:
    """The variable, the slope and the height at 0 of a linear formula; None for any other."""
    names = variables(formula)
    if len(names) != 1:
        return None
    (name,) = names
    if not name[0].islower():
        return None  # |A| may be a size, and A no number
    try:
        height = exact.value(formula, {name: Fraction(0)})
        slope = exact.value(formula, {name: Fraction(1)}) - height
        straight = all(exact.value(formula, {name: place}) == slope * place + height for place in _PLACES)
    except (exact.Inexact, Unreadable):
        return None
    return (name, slope, height) if straight and slope else None
