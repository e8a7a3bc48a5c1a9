"""Exact rational arithmetic on formulas, in this process: bounded in time and memory, whatever is written.

Two formulas with variables are compared at fixed pseudo-random rational points: polynomials and quotients of
them that agree at three points of 61 bits are the same (Schwartz-Zippel; a false match is less likely than
10^-50). What is not rational raises `Inexact` and is left to `numeric.py`, in a process that can be killed.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, reduce

from opd.grading.trees import (
    Call,
    Degrees,
    Name,
    Node,
    Number,
    Power,
    Product,
    Sum,
    Unreadable,
    negative,
    variables,
)

MOST_BITS = 20_000  # of a numerator or a denominator
POINTS = 3
_LARGEST_FACTORIAL = 2_000

Point = Mapping[str, Fraction]


class Inexact(Exception):
    """The value is not rational, or too large to be held exactly."""


def value(node: Node, point: Point) -> Fraction:
    """The value of a formula at a point. Raises `Inexact`, or `Unreadable` where there is no value."""
    match node:
        case Number(number):
            return number
        case Name(text) if text in point:
            return point[text]
        case Sum(terms):
            return _kept(sum((value(term, point) for term in terms), Fraction(0)))
        case Product(factors):
            return reduce(lambda product, factor: _kept(product * value(factor, point)), factors, Fraction(1))
        case Power(base, exponent):
            return _power(value(base, point), value(exponent, point))
        case Call(function, arguments) if function in _FUNCTIONS:
            return _kept(_FUNCTIONS[function](*(value(argument, point) for argument in arguments)))
        case Name() | Call() | Degrees():
            raise Inexact(type(node).__name__)
        case _:
            raise Unreadable(f"a {type(node).__name__.casefold()} stands inside a formula")


class Exact:
    """Comparisons that need no more than rational numbers; the same questions as `numeric.Numeric` answers."""

    name = "exact"

    def equal(self, one: Node, other: Node) -> bool:
        """Whether two formulas have the same value, for all values of their variables."""
        return all(value(one, point) == value(other, point) for point in points(one, other))

    def less(self, one: Node, other: Node) -> bool:
        """Whether the first of two constants is smaller."""
        return value(one, {}) < value(other, {})

    def proportional(self, one: Node, other: Node, *, positive: bool) -> bool:
        """Whether one formula is a constant times the other; the constant not zero, and above zero if asked."""
        ratios = set()
        for point in points(one, other):
            above, below = value(one, point), value(other, point)
            if not above or not below:
                return False
            ratios.add(above / below)
        return len(ratios) == 1 and (not positive or ratios.pop() > 0)


def points(*formulas: Node) -> list[dict[str, Fraction]]:
    """Where formulas are compared: one empty point for constants, else `POINTS` fixed pseudo-random ones."""
    names = frozenset().union(*(variables(formula) for formula in formulas))
    if not names:
        return [{}]
    return [{name: _coordinate(name, number) for name in names} for number in range(POINTS)]


@lru_cache(maxsize=1024)
def _coordinate(name: str, number: int) -> Fraction:
    """The first point is positive and the second negative in every direction: |x| is not x."""
    drawn = hashlib.sha256(f"{number}/{name}".encode()).digest()
    size = Fraction(1 + (int.from_bytes(drawn[:8], "big") >> 3), 1 + (drawn[8] >> 4))
    return -size if number == 1 or (number > 1 and drawn[9] % 2) else size


def _kept(number: Fraction) -> Fraction:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > MOST_BITS:
        raise Inexact("too large")
    return number


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        return _power(_root(base, Fraction(exponent.denominator)), Fraction(exponent.numerator))
    if base == 0 and exponent < 0:
        raise Unreadable("it divides by zero")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * bits > MOST_BITS and abs(base) not in {0, 1}:
        raise Inexact("too large")
    return base ** int(exponent)


def _root(radicand: Fraction, degree: Fraction) -> Fraction:
    """The real root when it is rational."""
    if degree.denominator != 1 or not 2 <= degree <= 64:
        raise Inexact("root")
    if radicand < 0:
        if degree % 2 == 0:
            raise Inexact("root of a negative number")
        return -_root(-radicand, degree)
    above = _integer_root(radicand.numerator, int(degree))
    below = _integer_root(radicand.denominator, int(degree))
    return Fraction(above, below)


def _integer_root(number: int, degree: int) -> int:
    """The integer whose power this is; `Inexact` if there is none. Bisection, so exact at any size."""
    if degree == 2:
        low = math.isqrt(number)
    else:
        low, high = 0, 1 << (number.bit_length() // degree + 1)
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (middle, high) if middle**degree <= number else (low, middle)
    if low**degree != number:
        raise Inexact("root")
    return low


def _integers(*numbers: Fraction) -> list[int]:
    if any(number.denominator != 1 for number in numbers):
        raise Inexact("not whole")
    return [int(number) for number in numbers]


def _factorial(number: Fraction) -> Fraction:
    (whole,) = _integers(number)
    if not 0 <= whole <= _LARGEST_FACTORIAL:
        raise Inexact("factorial")
    return Fraction(math.factorial(whole))


def _binomial(above: Fraction, below: Fraction) -> Fraction:
    n, k = _integers(above, below)
    if n < 0 or k < 0 or min(k, n - k) * max(n, 1).bit_length() > MOST_BITS:
        raise Inexact("binomial")
    return Fraction(math.comb(n, k))


def _modulo(number: Fraction, modulus: Fraction) -> Fraction:
    if modulus == 0:
        raise Unreadable("it divides by zero")
    return number % modulus


_FUNCTIONS: dict[str, Callable[..., Fraction]] = {
    "sqrt": _root,
    "factorial": _factorial,
    "binom": _binomial,
    "abs": abs,
    "conj": lambda number: number,
    "norm": abs,
    "floor": lambda number: Fraction(math.floor(number)),
    "ceil": lambda number: Fraction(math.ceil(number)),
    "gcd": lambda *numbers: Fraction(math.gcd(*_integers(*numbers))),
    "lcm": lambda *numbers: Fraction(math.lcm(*_integers(*numbers))),
    "max": lambda *numbers: max(numbers),
    "min": lambda *numbers: min(numbers),
    "mod": _modulo,
}


def as_infinity(node: Node) -> int:
    """1 for ∞, -1 for -∞, 0 for anything else."""
    if node == _INFINITY:
        return 1
    return -1 if node == negative(_INFINITY) else 0


_INFINITY = Name("infty")
