r"""Formulas: sums, terms, factors and atoms, from a cursor to a tree.

    sum      terms with signs                          3 ± 2√2
    term     factors, with or without a sign between   2ab/3, 700/π
    factor   an atom with powers, factorials, degrees  x_1^2, 5!, 30°
    atom     a number, a name, a function, brackets    6\frac{1}{9}, \sqrt[4]{6}, (a+5)

Every reader takes what belongs to it and leaves the cursor behind that.
"""

from fractions import Fraction

from opd.grading import vocabulary as words
from opd.grading.brackets import NO_ELEMENTS, READERS, read_group, subscript
from opd.grading.cursor import Cursor
from opd.grading.numerals import in_base, number_value
from opd.grading.tokens import Kind, Token
from opd.grading.trees import (
    Call,
    Degrees,
    Listing,
    Name,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quantity,
    Sum,
    Unreadable,
    negative,
)

_DEGREES = (("degree", 1),)
MINUS_ONE = Number(Fraction(-1))
_SIGNS = ("+", "-", "+-", "-+")
_STARTS = ("(", "[", "{", "lfloor", "lceil", "begin")
_SEVERAL = frozenset({"gcd", "lcm", "max", "min"})
_SCALES = {"c": "celsius", "f": "fahrenheit"}
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}


def read_sum(cursor: Cursor) -> Node:
    """Terms with signs before and between them."""
    terms = [_signed_term(cursor)]
    while cursor.at(*_SIGNS):
        terms.append(_signed_term(cursor))
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def _signed_term(cursor: Cursor) -> Node:
    minus, either = False, None
    while cursor.at(*_SIGNS):
        sign = cursor.take().text
        minus ^= sign == "-"
        either = sign if sign in {"+-", "-+"} else either
    term = _term(cursor)
    if either is not None:
        return PlusMinus(term, flipped=(either == "-+") ^ minus)
    return negative(term) if minus else term


def _term(cursor: Cursor) -> Node:
    factors = [_factor(cursor)]
    while True:
        if cursor.take_if("*"):
            factors.append(_signed_factor(cursor))
        elif cursor.at("/") and not _is_unit(cursor.peek(1)):
            cursor.take()
            factors.append(Power(_signed_factor(cursor), MINUS_ONE))
        elif cursor.at_function("mod"):
            cursor.take()
            cursor.descend()
            factors = [Call("mod", (_product(factors), _factor(cursor)))]
        elif _starts_factor(cursor):
            factors.append(_factor(cursor))
        else:
            return _product(factors)


def _is_unit(token: Token | None) -> bool:
    return token is not None and token.kind is Kind.WORD


def _product(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def _starts_factor(cursor: Cursor) -> bool:
    """Whether a factor follows without a sign; two numbers side by side are no product."""
    if cursor.is_kind(Kind.NUMBER):
        before = cursor.peek(-1)
        if before is not None and before.kind is Kind.NUMBER:
            raise Unreadable("two numbers stand side by side")
        return True
    if cursor.at("|", "||"):
        return not cursor.bar_closes
    if cursor.at("(") and _is_unit(cursor.peek(1)):
        return False
    return cursor.is_kind(Kind.NAME, Kind.FUNCTION) or cursor.at(*_STARTS)


def _signed_factor(cursor: Cursor) -> Node:
    minus = False
    while cursor.at("+", "-"):
        minus ^= cursor.take().text == "-"
    factor = _factor(cursor)
    return negative(factor) if minus else factor


def _factor(cursor: Cursor) -> Node:
    """An atom with what stands behind it; each of these makes the tree deeper, and counts as a level."""
    depth = cursor.depth
    cursor.descend()
    node: Node | None = _atom(cursor)
    while node is not None:
        factor = node
        cursor.descend()
        node = _with_suffix(cursor, factor)
    cursor.depth = depth
    return factor


def _with_suffix(cursor: Cursor, node: Node) -> Node | None:
    """The factor with the power, factorial, degree or prime that comes next; None when none does."""
    if cursor.take_if("^"):
        return Power(node, _exponent(cursor))
    if cursor.take_if("!"):
        if cursor.at("!"):
            raise Unreadable("a double factorial is no factorial of a factorial")
        return Call("factorial", (node,))
    if cursor.peek() == Token(Kind.UNIT, "degree"):
        cursor.take()
        return Degrees(node, _scale(cursor))
    if isinstance(node, Name) and cursor.take_if("'"):
        return Name(f"{node.text}'")
    if isinstance(node, Number) and node.value.denominator == 1 and cursor.at("_"):  # {52}_8 and (52)_8
        return in_base(str(node.value), subscript(cursor))
    return None


def _scale(cursor: Cursor) -> str:
    """The unit that a degree sign begins: 25 °C, or an angle."""
    token = cursor.peek()
    scale = _SCALES.get(token.text.casefold()) if token is not None else None
    if scale is None:
        return "degree"
    cursor.take()
    return scale


def _exponent(cursor: Cursor) -> Node:
    return _group(cursor) if cursor.at("{") else _signed_factor(cursor)


def _atom(cursor: Cursor) -> Node:
    token = cursor.take()
    if token.kind is Kind.NUMBER:
        return _number(cursor, token.text)
    if token.kind is Kind.NAME:
        return NO_ELEMENTS if token.text == "emptyset" else Name(token.text + subscript(cursor))
    if token.kind is Kind.FUNCTION:
        return _function(cursor, token.text)
    if token.kind is Kind.MARK and token.text in READERS:
        return READERS[token.text](cursor)
    raise Unreadable(f"{token.text!r} stands where a number or a name should")


def _number(cursor: Cursor, digits: str) -> Node:
    """A number; with a subscript, in that base; with a proper fraction right behind it, a mixed number."""
    if cursor.at("_"):
        return in_base(digits, subscript(cursor))
    value = number_value(digits)
    if value.denominator == 1 and cursor.at_function("frac"):
        cursor.take()
        numerator, denominator = _argument(cursor), _argument(cursor)
        return _mixed(value, numerator, denominator)
    if value.denominator == 1 and _plain_fraction_follows(cursor):
        above = number_value(cursor.take().text)
        cursor.take()
        return _mixed(value, Number(above), Number(number_value(cursor.take().text)))
    return Number(value)


def _plain_fraction_follows(cursor: Cursor) -> bool:
    above, slash, below = cursor.peek(0), cursor.peek(1), cursor.peek(2)
    if above is None or slash is None or below is None:
        return False
    return above.kind is Kind.NUMBER and slash.text == "/" and below.kind is Kind.NUMBER


def _mixed(whole: Fraction, numerator: Node, denominator: Node) -> Node:
    if isinstance(numerator, Number) and isinstance(denominator, Number):
        above, below = numerator.value, denominator.value
        if above.denominator == below.denominator == 1 and 0 < above < below:
            return Number(whole + above / below)
    return Product((Number(whole), fraction(numerator, denominator)))


def fraction(numerator: Node, denominator: Node) -> Node:
    """One over the other, as a number where both are."""
    if isinstance(numerator, Number) and isinstance(denominator, Number) and denominator.value:
        return Number(numerator.value / denominator.value)
    return Product((numerator, Power(denominator, MINUS_ONE)))


def _argument(cursor: Cursor) -> Node:
    r"""What a command such as `\frac` takes: a group, one digit, or one atom."""
    if cursor.at("{"):
        return _group(cursor)
    if cursor.is_kind(Kind.NUMBER):
        return Number(Fraction(int(cursor.take_digit())))
    cursor.descend()
    node = _atom(cursor)
    cursor.ascend()
    return node


def _group(cursor: Cursor) -> Node:
    cursor.expect("{")
    return read_group(cursor)


def _function(cursor: Cursor, name: str) -> Node:
    if name == "frac":
        numerator = _argument(cursor)
        return fraction(numerator, _argument(cursor))
    if name == "binom":
        above = _argument(cursor)
        return Call("binom", (above, _argument(cursor)))
    if name == "sqrt":
        return _root(cursor)
    if name == "mod":
        raise Unreadable("mod has nothing on its left")
    if name in _SEVERAL:
        return _of_several(cursor, name)
    if name in words.NAMED_FUNCTIONS:
        return _named_function(cursor, name)
    return Call(name, (_operand(cursor),))


def _root(cursor: Cursor) -> Node:
    degree: Node = Number(Fraction(2))
    if cursor.take_if("["):
        degree = cursor.inside()
        cursor.expect("]")
    if cursor.is_kind(Kind.NUMBER):  # √12 means the root of twelve, whatever TeX would print
        radicand: Node = Number(number_value(cursor.take().text))
    else:
        radicand = _argument(cursor)
    return Call("sqrt", (radicand, degree))


def _of_several(cursor: Cursor, name: str) -> Node:
    opened = cursor.expect("(", "\\{", "{")
    inner = cursor.inside()
    cursor.expect({"(": ")", "\\{": "\\}", "{": "}"}[opened])
    return Call(name, inner.items if isinstance(inner, Listing) else (inner,))


def _named_function(cursor: Cursor, name: str) -> Node:
    """A function with its power and base before its operand: sin² x, sin⁻¹ x, log_2 8."""
    base: tuple[Node, ...] = ()
    if name == "log" and cursor.take_if("_"):
        base = (_argument(cursor) if cursor.at("{") else _atom(cursor),)
    power = _exponent(cursor) if cursor.take_if("^") else None
    operand = _operand(cursor)
    if power == MINUS_ONE and name in _INVERSE:
        return Call(_INVERSE[name], (operand,))
    node = Call(name, (operand, *base))
    return node if power is None else Power(node, power)


def _operand(cursor: Cursor) -> Node:
    """What a function without braces is applied to: brackets, or the factors up to the next sign or function."""
    if cursor.at("(", "[", "{"):
        return _factor_without_power(cursor)
    factors = [_signed_factor(cursor)]
    while _starts_factor(cursor) and not _is_function_of_its_own(cursor):
        factors.append(_factor(cursor))
    return _product(factors)


def _factor_without_power(cursor: Cursor) -> Node:
    cursor.descend()
    node = _atom(cursor)
    cursor.ascend()
    if isinstance(node, Quantity) and node.unit == _DEGREES:
        return Degrees(node.value)
    return node


def _is_function_of_its_own(cursor: Cursor) -> bool:
    token = cursor.peek()
    return token is not None and token.kind is Kind.FUNCTION and token.text not in {"frac", "sqrt"}
