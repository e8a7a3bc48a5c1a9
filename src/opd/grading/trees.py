"""What an answer can be, as a tree: numbers and formulas below, lists, tuples, relations and words above.

    Sum(3, PlusMinus(Product(2, Call("sqrt", 2))))      3 ± 2√2
    Brackets("(", (Number(3), Number(4)), "]")          (3,4], an interval
    Relation((Name("x"), Number(5)), ("=",))            x = 5

Trees are plain data: nothing in them was evaluated, and equal trees are equal answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

_INNER_BLANK = re.compile(r"(?<!\d) | (?!\d)")


class Unreadable(Exception):
    """The text follows no rule of the grammar, or its value can't be found within the limits; says why."""


class BeyondGrammar(Unreadable):
    """The text may be mathematics that the grammar leaves to the symbolic reader: integrals, sums, limits."""


@dataclass(frozen=True, slots=True)
class Number:
    """An exact rational number."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Name:
    """A letter with its subscript, or one of the constants i, e, pi, infty."""

    text: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms that are added up; a difference has a negative term."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Factors that are multiplied; a quotient has a factor to the power -1."""

    factors: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """A base to an exponent."""

    base: Node
    exponent: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function of its arguments; the names are those of `vocabulary.FUNCTIONS`."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class PlusMinus:
    """± its term, or ∓ when `flipped`; all of one answer take the same sign together."""

    term: Node
    flipped: bool


@dataclass(frozen=True, slots=True)
class Degrees:
    """An angle in degrees: π/180 of its number inside a function, a unit elsewhere; or a temperature."""

    angle: Node
    unit: str = "degree"


@dataclass(frozen=True, slots=True)
class Words:
    """Text, casefolded and without articles and punctuation."""

    text: str

    @property
    def letters(self) -> str:
        """The text without its blanks, but for those between two numbers."""
        return _INNER_BLANK.sub("", self.text)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with its unit: sorted pairs of word and power."""

    value: Node
    unit: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Parts with colons between them: a proportion, or a time of day."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of equal length; a vector has one row or one column."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Brackets:
    """A tuple, an interval, or, between braces, a set."""

    opening: str
    items: tuple[Node, ...]
    closing: str

    @property
    def is_set(self) -> bool:
        """Whether they are the braces of a set."""
        return self.opening == "{"


@dataclass(frozen=True, slots=True)
class Listing:
    """Several answers side by side; `joiner` is the last thing between them: a comma, "and" or "or"."""

    items: tuple[Node, ...]
    joiner: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain such as -2 ≤ x ≤ 7; `labels` says which members only name something (x, f(x), AB)."""

    members: tuple[Node, ...]
    operators: tuple[str, ...]
    labels: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class SetOperation:
    """A union, an intersection or a difference of two sets."""

    operator: str  # cup, cap or setminus
    left: Node
    right: Node


Node = (
    Number
    | Name
    | Sum
    | Product
    | Power
    | Call
    | PlusMinus
    | Degrees
    | Words
    | Quantity
    | Ratio
    | Matrix
    | Brackets
    | Listing
    | Relation
    | SetOperation
)


_PARTS: dict[type, tuple[str, ...]] = {
    Sum: ("terms",),
    Product: ("factors",),
    Power: ("base", "exponent"),
    Call: ("arguments",),
    PlusMinus: ("term",),
    Degrees: ("angle",),
    Quantity: ("value",),
    Ratio: ("parts",),
    Matrix: ("rows",),
    Brackets: ("items",),
    Listing: ("items",),
    Relation: ("members",),
    SetOperation: ("left", "right"),
}


def children(node: Node) -> tuple[Node, ...]:
    """The trees that a tree is made of, from left to right."""
    found: list[Node] = []
    for part in _PARTS.get(type(node), ()):
        value = getattr(node, part)
        if isinstance(node, Matrix):
            found.extend(entry for row in value for entry in row)
        elif isinstance(value, tuple):
            found.extend(value)
        else:
            found.append(value)
    return tuple(found)


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with `change` applied to each of the trees that it is made of."""
    parts: dict[str, Any] = {}
    for part in _PARTS.get(type(node), ()):
        value = getattr(node, part)
        if isinstance(node, Matrix):
            parts[part] = tuple(tuple(change(entry) for entry in row) for row in value)
        elif isinstance(value, tuple):
            parts[part] = tuple(change(entry) for entry in value)
        else:
            parts[part] = change(value)
    return replace(node, **parts)


CONSTANTS = frozenset({"i", "e", "pi", "infty"})


def variables(node: Node) -> frozenset[str]:
    """The names in a tree that are no constants."""
    if isinstance(node, Name):
        return frozenset() if node.text in CONSTANTS else frozenset({node.text})
    return frozenset().union(*(variables(child) for child in children(node)))


def contains(node: Node, kind: type[Node]) -> bool:
    """Whether a tree has a node of this kind in it."""
    return isinstance(node, kind) or any(contains(child, kind) for child in children(node))


def negative(node: Node) -> Node:
    """The formula with its sign turned."""
    if isinstance(node, Number):
        return Number(-node.value)
    return Product((Number(Fraction(-1)), node))
