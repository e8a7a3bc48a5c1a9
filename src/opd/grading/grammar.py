r"""From an answer's text to its tree. A recursive descent that reads and hardly ever computes.

    answer     items with commas, "and", "or" or semicolons between them     1, -2
    item       a chain of relations                                          -2 ≤ x ≤ 7
    set        unions and differences                                        (0,9) ∪ (9,36)
    ratio      parts with colons                                             3:5
    quantity   [currency] formula [unit], or words                           \$17, 72 feet³, a square

Formulas are in `formula.py`. Anything else is `Unreadable`, with the reason; what the symbolic reader may know
is `BeyondGrammar`.
"""

import re
from fractions import Fraction
from functools import lru_cache

from opd.grading import vocabulary as words
from opd.grading.cursor import Cursor
from opd.grading.formula import fraction, read_sum
from opd.grading.lexer import tokenise
from opd.grading.numerals import number_from_words
from opd.grading.tokens import Kind, Token
from opd.grading.trees import (
    Call,
    Degrees,
    Listing,
    Name,
    Node,
    Number,
    PlusMinus,
    Product,
    Quantity,
    Ratio,
    Relation,
    SetOperation,
    Sum,
    Unreadable,
    Words,
    children,
    contains,
    negative,
)
from opd.grading.units import unit_of

MOST_ITEMS = 64  # each is compared with each; no real answer has as many

_RELATIONS = ("=", "<", ">", "<=", ">=", "!=", "~=", "in")
_SEPARATORS = (",", ";", "and", "or")
_INEQUALITIES = frozenset(("<", ">", "<=", ">=", "!="))
_SET_OPERATORS = ("cup", "cap", "setminus")
_JOINED_CONDITIONS = {"cup": "or", "cap": "and"}  # x < 0 ∪ x > 3
_END_OF_WORDS = frozenset((*_RELATIONS, *_SEPARATORS, ")", "]", "}", "\\}", "|"))
_NEVER_A_UNIT_PREFIX = frozenset({"degree", "percent"})


@lru_cache(maxsize=8192)
def read(text: str, *, grouped: bool = True) -> Node:
    """The tree of an answer; `grouped` reads 1,234 as one number. Raises `Unreadable`."""
    cursor = Cursor(tokenise(text, grouped=grouped), inside=_answer)
    if cursor.peek() is None:
        raise Unreadable("there is nothing in it")
    tree = _answer(cursor)
    rest = cursor.peek()
    if rest is not None:
        raise Unreadable(f"{rest.text!r} can't be read where it stands")
    return tree


def _answer(cursor: Cursor) -> Node:
    items, joiner = [_item(cursor)], ""
    while cursor.at(*_SEPARATORS) or (isinstance(items[-1], Relation) and cursor.at(*_JOINED_CONDITIONS)):
        while cursor.at(*_SEPARATORS, *_JOINED_CONDITIONS):
            joiner = cursor.take().text
        joiner = _JOINED_CONDITIONS.get(joiner, joiner)
        items.append(_item(cursor))
        if len(items) > MOST_ITEMS:
            raise Unreadable(f"it lists more than {MOST_ITEMS} items")
    node = items[0] if len(items) == 1 else Listing(tuple(items), "," if joiner == ";" else joiner)
    if cursor.at("over", "choose"):
        return _stacked(cursor, node)
    return node


def _stacked(cursor: Cursor, above: Node) -> Node:
    r"""The old forms {a \over b} and {n \choose k}."""
    command = cursor.take().text
    cursor.descend()
    below = _answer(cursor)
    cursor.ascend()
    return fraction(above, below) if command == "over" else Call("binom", (above, below))


def _item(cursor: Cursor) -> Node:
    if cursor.at("=", "~="):
        cursor.take()
    members: list[Node] = []
    operators: list[str] = []
    labels: list[str | None] = []
    while True:
        start = cursor.position
        follows_inequality = bool(operators) and operators[-1] in _INEQUALITIES
        members.append(_ratio(cursor) if follows_inequality else _set(cursor))
        labels.append(_label(cursor.span(start)))
        if not cursor.at(*_RELATIONS):
            return _chain(members, operators, labels)
        operators.append(cursor.take().text)


def _chain(members: list[Node], operators: list[str], labels: list[str | None]) -> Node:
    """The relation, after each `A ≈ B` has become A, or `name = B` where A only names something."""
    while "~=" in operators:
        place = operators.index("~=")
        if labels[place] is not None:
            operators[place] = "="
        else:
            del operators[place], members[place + 1], labels[place + 1]
    return Relation(tuple(members), tuple(operators), tuple(labels)) if operators else members[0]


def _set(cursor: Cursor) -> Node:
    left = _ratio(cursor)
    depth = cursor.depth
    while cursor.at(*_SET_OPERATORS):
        operator = cursor.take().text
        cursor.descend()  # the tree grows to the left
        left = SetOperation(operator, left, _ratio(cursor))
    cursor.depth = depth
    return left


def _ratio(cursor: Cursor) -> Node:
    parts = [_quantity(cursor)]
    while not cursor.bar_closes and cursor.take_if(":"):
        parts.append(_quantity(cursor))
    if len(parts) == 1:
        return parts[0]
    last = parts[-1]
    if isinstance(last, Quantity):  # 8:34 p.m.
        return Quantity(Ratio((*parts[:-1], last.value)), last.unit)
    return Ratio(tuple(parts))


def _quantity(cursor: Cursor) -> Node:
    if cursor.is_kind(Kind.WORD):
        return _words(cursor)
    minus = _currency(cursor.peek(1)) and cursor.take_if("-")
    parts = [(cursor.take().text, 1)] if _currency(cursor.peek()) else []
    value = read_sum(cursor)
    value = _scaled(cursor, value)
    parts += _unit_parts(cursor)
    if contains(value, Degrees):
        bare = _without_degrees(value)
        if bare != value:
            parts.append((_degree_unit(value), 1))
            value = bare
    unit = unit_of(parts)
    value = negative(value) if minus else value
    return Quantity(value, unit) if unit else value


def _scaled(cursor: Cursor, value: Node) -> Node:
    """The value times the million or thousand that stands behind it as a word."""
    while cursor.is_kind(Kind.WORD) and (token := cursor.peek()) is not None and token.text in words.SCALE_WORDS:
        cursor.take()
        value = Product((value, Number(Fraction(words.SCALE_WORDS[token.text]))))
    return value


def _currency(token: Token | None) -> bool:
    return token is not None and token.kind is Kind.UNIT and token.text not in _NEVER_A_UNIT_PREFIX


def _degree_unit(node: Node) -> str:
    """The unit of the first degree sign in a formula."""
    if isinstance(node, Degrees):
        return node.unit
    return next((unit for unit in map(_degree_unit, children(node)) if unit), "")


def _unit_parts(cursor: Cursor) -> list[tuple[str, int]]:
    """The words behind a value, each with its power: square inches, inches², km/h, miles per hour."""
    parts: list[tuple[str, int]] = []
    sign = 1
    while True:
        following = cursor.peek(1)
        if cursor.is_kind(Kind.WORD, Kind.UNIT):
            word = cursor.take().text
            if word == "per":
                sign = -1
                continue
            parts.append((word, sign * _power(cursor)))
        elif cursor.at("/") and following is not None and following.kind is Kind.WORD:
            cursor.take()
            sign = -1
        elif cursor.at("(") and following is not None and following.kind is Kind.WORD:  # 12 (cm)
            cursor.take()
            parts += _unit_parts(cursor)
            cursor.expect(")")
        elif not (cursor.at(".") and parts and cursor.take_if(".")):
            return parts


def _power(cursor: Cursor) -> int:
    if not cursor.take_if("^"):
        return 1
    braced = cursor.take_if("{")
    minus = cursor.take_if("-")
    digits = cursor.take().text
    if braced:
        cursor.expect("}")
    if not digits.isdigit() or len(digits) > 1:
        raise Unreadable(f"{digits!r} is no power of a unit")
    return -int(digits) if minus else int(digits)


def _without_degrees(node: Node) -> Node:
    """The formula without the degree signs that are units; inside functions and powers they stay."""
    match node:
        case Degrees(angle, _):
            return angle
        case Sum(terms):
            return Sum(tuple(_without_degrees(term) for term in terms))
        case Product(factors):
            return Product(tuple(_without_degrees(factor) for factor in factors))
        case PlusMinus(term, flipped):
            return PlusMinus(_without_degrees(term), flipped)
        case _:
            return node


def _words(cursor: Cursor) -> Node:
    """Text up to the next comma or relation; a number or infinity where it is one in words."""
    found: list[str] = []
    depth = 0
    while (token := cursor.peek()) is not None:
        mark = token.text if token.kind is Kind.MARK else ""
        if mark in _END_OF_WORDS and depth == 0:
            break
        depth += (mark in {"(", "["}) - (mark in {")", "]"})
        cursor.take()
        if not mark:
            found.append(token.text.casefold())
    spoken = [word for word in found if word not in words.ARTICLES] or found
    if spoken == ["infinity"]:
        return Name("infty")
    value = number_from_words(spoken)
    return Words(" ".join(spoken)) if value is None else Number(Fraction(value))


# A label names what its value is of: x, x_1, AB, f(x), P(X ≤ 1), |AB|, [ABC], m∠ABC, (x, y), Area.
_PLAIN_LABEL = r"(?:(?:n?A)?N+|n|w+)(?:_(?:[nNwd]|\{[nNwd,]+\}))?'*"
_LABEL = re.compile(
    rf"{_PLAIN_LABEL}(?:\^\{{-d\}})?(?:\([nNwd,|=<>&]+\))?"
    rf"|\({_PLAIN_LABEL}(?:,{_PLAIN_LABEL})+\)"
    r"|\|[nNw]+\||\[N+\]"
)
_SIGNS = {"<=": "<", ">=": ">", "cap": "&", "cup": "&"}
_FIGURES = frozenset({"angle", "triangle"})


def _label(tokens: tuple[Token, ...]) -> str | None:
    """The text of a member of a relation that only names something; None where it has a value of its own."""
    while len(tokens) > 2 and (tokens[0].text, tokens[-1].text) == ("{", "}"):  # around a bold name
        tokens = tokens[1:-1]
    if not _LABEL.fullmatch("".join(_sign(token) for token in tokens)):
        return None
    return "".join(token.text for token in tokens if token.text not in {"{", "}"})


def _sign(token: Token) -> str:
    """One character for each token, for `_LABEL`."""
    if token.kind is Kind.NAME:
        if token.text in _FIGURES:
            return "A"
        if token.text in {"e", "pi", "infty", "emptyset"} or token.text.startswith("mathbb"):
            return "?"
        return "N" if token.text[0].isupper() and len(token.text) == 1 else "n"
    if token.kind is Kind.MARK:
        return token.text if len(token.text) == 1 else _SIGNS.get(token.text, "?")
    return {Kind.NUMBER: "d", Kind.WORD: "w"}.get(token.kind, "?")
