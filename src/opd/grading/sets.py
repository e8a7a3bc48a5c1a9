"""Which set of real numbers an answer describes: intervals, unions, conditions, lists of points, or words."""

from opd.grading.conditions import INEQUALITIES, condition
from opd.grading.realsets import EVERYTHING, RealSet, combined, interval, points
from opd.grading.trees import (
    Brackets,
    Listing,
    Name,
    Node,
    Number,
    Product,
    Relation,
    SetOperation,
    Sum,
    Words,
)

_ALL_REALS = frozenset({"all real numbers", "all reals", "real numbers"})


def is_surely_a_set(node: Node) -> bool:
    """Whether a description can be nothing but a set of reals; (3,4) might be a point."""
    match node:
        case SetOperation() | Name("mathbbR") | Sum((Name("mathbbR"), *_)):
            return True
        case Brackets(opening, items, closing):
            return len(items) == 2 and (opening, closing) in {("(", "]"), ("[", ")")}
        case Relation(_, operators, _):
            return bool(INEQUALITIES & set(operators))
        case Listing(items, _):
            return any(isinstance(item, Relation) and is_surely_a_set(item) for item in items)
        case _:
            return isinstance(node, Words) and node.text in _ALL_REALS


def as_set(  # noqa: PLR0911  # one return for each kind of description
    node: Node, *, comma: str = "or"
) -> RealSet | None:
    """The set that a description is of; None when it is of none, or when an end point has a variable in it.

    `comma` says how conditions with a comma between them are joined: "and" or "or".
    """
    match node:
        case Brackets(_, items, _) if node.is_set:
            return points(items)
        case Brackets(opening, (left, right), closing):
            return interval(left, right, from_left=opening == "[", to_right=closing == "]")
        case SetOperation(operator, left, right):
            return combined(operator, as_set(left), as_set(right))
        case Sum((first, Product((Number(minus), second)))) if minus == -1:
            return combined("setminus", as_set(first), as_set(second))
        case Relation():
            return condition(node, described=as_set)
        case Listing(items, joiner):
            conditions = all(isinstance(item, Relation) for item in items)  # of sets side by side, the union is meant
            operator = "cap" if conditions and (comma if joiner == "," else joiner) == "and" else "cup"
            result = as_set(items[0])
            for item in items[1:]:
                result = combined(operator, result, as_set(item))
            return result
        case Name(text):
            return EVERYTHING if text == "mathbbR" else None
        case Words(text):
            return EVERYTHING if text in _ALL_REALS else None
        case _:
            return None
