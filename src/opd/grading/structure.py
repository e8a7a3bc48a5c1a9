"""Whether two trees are the same answer, part by part, by the house rules:

    rule 4   equality of value; a rounded decimal is not the exact number
    rule 5   a unit on one side is ignored; two different units differ
    rule 6   lists and sets unordered, parentheses ordered, brackets matter; an inequality is its interval
    rule 7   text without case and wrappers
    rule 8   x = 5 is 5

Values are left to the arithmetic, exact or numeric, that the caller brings.
"""

from fractions import Fraction

from opd.grading import units
from opd.grading import vocabulary as words
from opd.grading.exact import as_infinity
from opd.grading.realsets import Arithmetic, same_set
from opd.grading.sets import as_set, is_surely_a_set
from opd.grading.trees import (
    Brackets,
    Call,
    Listing,
    Matrix,
    Name,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quantity,
    Ratio,
    Relation,
    Sum,
    Words,
    contains,
    negative,
    rebuilt,
    variables,
)

_EQUATIONS = frozenset({"=", "in"})
_MIRRORED = {">": "<", ">=": "<="}
_HUNDREDTH = Number(Fraction(1, 100))


def same(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    """Whether two answers are the same. Raises what the arithmetic raises for a value that it can't find."""
    if answer == gold:
        return True
    if is_surely_a_set(answer) or is_surely_a_set(gold):
        return _same_sets(answer, gold, arithmetic)
    if _is_plural(answer) or _is_plural(gold):
        return _same_lists(answer, gold, arithmetic)
    return _same_claims(answer, gold, arithmetic)


def _same_sets(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    """Sets by their elements; conditions that describe no set of reals, such as s² ≤ 8r², as relations."""
    for comma in ("and", "or"):
        one, other = as_set(_claim(answer)[1], comma=comma), as_set(_claim(gold)[1], comma=comma)
        if one is None or other is None:
            return _same_relations(answer, gold, arithmetic)
        names = {one.label, other.label} - {None}
        if len(names) < 2 and same_set(one, other, arithmetic):
            return True
    return False


def _same_relations(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    """Two equations or inequalities: their sides differ by the same formula, up to a constant factor."""
    if not isinstance(answer, Relation) or not isinstance(gold, Relation):
        return False
    answer, gold = _ascending(answer), _ascending(gold)
    if answer.operators != gold.operators:
        return False
    speak_of_something = variables(answer) and variables(gold)  # 1 = 2 and 3 = 4 are both false, and not the same
    if len(answer.operators) == 1 and gold.operators != ("in",) and speak_of_something:
        one, other = _difference(answer), _difference(gold)
        return arithmetic.proportional(one, other, positive=gold.operators[0] in {"<", "<="})
    pairs = zip(answer.members, gold.members, strict=True)
    return all(same(one, other, arithmetic) for one, other in pairs)


def _ascending(relation: Relation) -> Relation:
    """The chain read from its smaller end: 3 > x as x < 3."""
    if not all(operator in _MIRRORED for operator in relation.operators):
        return relation
    return Relation(
        members=relation.members[::-1],
        operators=tuple(_MIRRORED[operator] for operator in reversed(relation.operators)),
        labels=relation.labels[::-1],
    )


def _difference(relation: Relation) -> Node:
    left, right = relation.members
    return Sum((right, negative(left)))


def _is_plural(node: Node) -> bool:
    return isinstance(node, Listing) or (isinstance(node, Brackets) and node.is_set) or contains(node, PlusMinus)


def _same_lists(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    """Whether each item of one is an item of the other; in order where one side is a tuple."""
    one_label, one = _items(answer)
    other_label, other = _items(gold)
    if one_label and other_label and one_label != other_label:
        return False
    if len(one) == 1 and len(other) == 1 and (one[0], other[0]) != (answer, gold):
        return same(one[0], other[0], arithmetic)
    if len(one) == 1 or len(other) == 1:
        braced = isinstance(_claim(answer)[1], Brackets) and isinstance(_claim(gold)[1], Brackets)
        return not braced and _tuple_and_list(one, other, arithmetic)
    if isinstance(answer, Brackets) or isinstance(gold, Brackets):
        one, other = _distinct(one, arithmetic), _distinct(other, arithmetic)
    return len(one) == len(other) and _all_matched(one, other, arithmetic)


def _items(node: Node) -> tuple[str | None, tuple[Node, ...]]:
    """The items of a list, each sign of ± for itself, and the one variable that they are values of, if any."""
    label, body = _claim(node)
    if body != node and _is_plural(body):
        return label, _items(body)[1]
    if isinstance(node, Listing) or (isinstance(node, Brackets) and node.is_set):
        items = tuple(branch for item in node.items for branch in _branches(item))
    else:
        items = _branches(node)
    claims = [_claim(item) for item in items]
    labels = {name for name, _ in claims if name is not None}
    if len(labels) == 1 and claims[0][0] is not None:  # x = 1, 2, or x = 1 or x = 2
        return labels.pop(), tuple(value for _, value in claims)
    return None, items


def _branches(node: Node) -> tuple[Node, ...]:
    """The answer with + and with - for its ±, or the answer itself."""
    if not contains(node, PlusMinus):
        return (node,)
    return _with_sign(node, plus=True), _with_sign(node, plus=False)


def _with_sign(node: Node, *, plus: bool) -> Node:
    if isinstance(node, PlusMinus):
        term = _with_sign(node.term, plus=plus)
        return term if plus != node.flipped else negative(term)
    return rebuilt(node, lambda part: _with_sign(part, plus=plus))


def _tuple_and_list(one: tuple[Node, ...], other: tuple[Node, ...], arithmetic: Arithmetic) -> bool:
    """A tuple beside a bare list of as many items: the same when they come in the same order."""
    single, several = (one, other) if len(one) == 1 else (other, one)
    body = _claim(single[0])[1]
    if not isinstance(body, Brackets) or body.is_set or len(body.items) != len(several):
        return False
    pairs = zip(several, body.items, strict=True)
    return all(same(_claim(item)[1], part, arithmetic) for item, part in pairs)


def _distinct(items: tuple[Node, ...], arithmetic: Arithmetic) -> tuple[Node, ...]:
    kept: list[Node] = []
    for item in items:
        if not any(same(item, other, arithmetic) for other in kept):
            kept.append(item)
    return tuple(kept)


def _all_matched(one: tuple[Node, ...], other: tuple[Node, ...], arithmetic: Arithmetic) -> bool:
    """Each item of one list has its own partner in the other. Greedy: being the same is transitive."""
    left = list(other)
    for item in one:
        partner = next((place for place, gold in enumerate(left) if same(item, gold, arithmetic)), None)
        if partner is None:
            return False
        del left[partner]
    return True


def _claim(node: Node) -> tuple[str | None, Node]:
    """What an answer says of what: x = 5 says 5 of x; 2 + 3 = 5 says 5; an equation says itself."""
    if not isinstance(node, Relation) or not set(node.operators) <= _EQUATIONS:
        return None, node
    first, last = node.members[0], node.members[-1]
    if node.labels[0] is not None and node.labels[0] not in variables(last):
        return node.labels[0], last
    if node.labels[-1] is not None and node.labels[-1] not in variables(first):
        return node.labels[-1], first
    if not any(variables(member) for member in node.members):
        return None, last
    return None, node


def _same_claims(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    one_label, one = _claim(answer)
    other_label, other = _claim(gold)
    if isinstance(answer, Relation) and isinstance(gold, Relation):
        if one_label != other_label or one_label is None:
            return _same_relations(answer, gold, arithmetic)
    elif isinstance(one, Relation) and _names_a_combination(one):
        one = one.members[-1]  # m + n = 25 for 25
    elif isinstance(one, Relation) or isinstance(other, Relation):
        return False
    if (one, other) != (answer, gold):
        return same(one, other, arithmetic)
    return _same_values(one, other, arithmetic)


def _names_a_combination(relation: Relation) -> bool:
    """Whether an equation gives the value, not zero, of a sum, a product or a function of names: AB/BC, sin A."""
    first, last = relation.members[0], relation.members[-1]
    if relation.operators != ("=",) or variables(last) or last == Number(Fraction(0)):
        return False
    return isinstance(first, Sum | Product | Call) and _is_of_names(first)


def _is_of_names(node: Node) -> bool:
    """Whether names are all that a formula consists of, but for exponents: 2x + y is something to be solved."""
    match node:
        case Name():
            return True
        case Sum(parts) | Product(parts):
            return all(map(_is_of_names, parts))
        case Power(base, Number()):
            return _is_of_names(base)
        case Call(function, (argument,)):
            return function in words.NAMED_FUNCTIONS and _is_of_names(argument)
        case _:
            return False


def _same_values(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:  # noqa: PLR0911  # one return for each kind of answer
    if isinstance(answer, Words) or isinstance(gold, Words):
        return _letters(answer) is not None and _letters(answer) == _letters(gold)
    if isinstance(answer, Quantity) or isinstance(gold, Quantity):
        return _same_quantities(answer, gold, arithmetic)
    if isinstance(answer, Ratio) or isinstance(gold, Ratio):
        return _same_ratios(answer, gold, arithmetic)
    if _is_matrix(answer) or _is_matrix(gold):
        return _same_matrices(answer, gold, arithmetic)
    if isinstance(answer, Brackets) or isinstance(gold, Brackets):
        return _same_tuples(answer, gold, arithmetic)
    if as_infinity(answer) or as_infinity(gold):
        return as_infinity(answer) == as_infinity(gold)
    return arithmetic.equal(answer, gold)


def _letters(node: Node) -> str | None:
    """The letters of a text, or of names that may be one: LQSX."""
    match node:
        case Words():
            return node.letters
        case Name(text):
            return text.casefold()
        case Product(factors) if all(isinstance(factor, Name) for factor in factors):
            return "".join(factor.text.casefold() for factor in factors if isinstance(factor, Name))
        case _:
            return None


def _same_quantities(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    one, one_unit = _quantity(answer)
    other, other_unit = _quantity(gold)
    if not units.agree(one_unit, other_unit):
        return False
    if units.has(one_unit + other_unit, "pm") or units.has(one_unit + other_unit, "am"):
        return _same_clock(one, other, arithmetic)
    if same(one, other, arithmetic):
        return True
    # 34% beside a number without a sign is 34 by rule 5, which the line above has tried, and 0.34 by rule 4
    one_percent, other_percent = units.has(one_unit, "percent"), units.has(other_unit, "percent")
    if one_percent == other_percent:
        return False
    if one_percent:
        return same(Product((_HUNDREDTH, one)), other, arithmetic)
    return same(one, Product((_HUNDREDTH, other)), arithmetic)


def _quantity(node: Node) -> tuple[Node, units.Unit]:
    return (node.value, node.unit) if isinstance(node, Quantity) else (node, ())


def _same_clock(one: Node, other: Node, arithmetic: Arithmetic) -> bool:
    """8:34 is a time beside a.m. or p.m., and no proportion."""
    left = one.parts if isinstance(one, Ratio) else (one,)
    right = other.parts if isinstance(other, Ratio) else (other,)
    if len(left) != len(right):
        return False
    return all(arithmetic.equal(part, gold) for part, gold in zip(left, right, strict=True))


def _same_ratios(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    """2:3 is 4:6, and 2/3."""
    one = answer.parts if isinstance(answer, Ratio) else (answer, Number(Fraction(1)))
    other = gold.parts if isinstance(gold, Ratio) else (gold, Number(Fraction(1)))
    if len(one) != len(other):
        return False
    return all(
        arithmetic.equal(Product((part, other[0])), Product((partner, one[0])))
        for part, partner in zip(one[1:], other[1:], strict=True)
    )


def _same_matrices(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    one, other = _matrix(answer), _matrix(gold)
    if one is None or other is None or [len(row) for row in one.rows] != [len(row) for row in other.rows]:
        return False
    pairs = zip(sum(one.rows, ()), sum(other.rows, ()), strict=True)
    return all(arithmetic.equal(entry, partner) for entry, partner in pairs)


def _is_matrix(node: Node) -> bool:
    return isinstance(node, Matrix) or (isinstance(node, Product) and contains(node, Matrix))


def _matrix(node: Node) -> Matrix | None:
    """A matrix, a number times a matrix, or rows in brackets in brackets, as one matrix."""
    if isinstance(node, Matrix):
        return node
    if isinstance(node, Brackets):
        rows = tuple(row.items for row in node.items if isinstance(row, Brackets))
        return Matrix(rows) if len(rows) == len(node.items) else None
    if not isinstance(node, Product):
        return None
    matrices = [factor for factor in node.factors if isinstance(factor, Matrix)]
    scalars = tuple(factor for factor in node.factors if not isinstance(factor, Matrix))
    if len(matrices) != 1 or any(contains(scalar, Matrix) for scalar in scalars):
        return None
    return Matrix(tuple(tuple(Product((*scalars, entry)) for entry in row) for row in matrices[0].rows))


def _same_tuples(answer: Node, gold: Node, arithmetic: Arithmetic) -> bool:
    if not isinstance(answer, Brackets) or not isinstance(gold, Brackets):
        return False
    if (answer.opening, answer.closing) != (gold.opening, gold.closing) or len(answer.items) != len(gold.items):
        return False
    pairs = zip(answer.items, gold.items, strict=True)
    return all(same(item, partner, arithmetic) for item, partner in pairs)
