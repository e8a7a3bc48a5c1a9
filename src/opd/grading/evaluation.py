"""The value of one formula at one point, at the working precision of mpmath; only in the worker processes."""

from collections.abc import Callable, Mapping
from typing import Any

import mpmath  # type: ignore[import-untyped]  # ships no annotations

from opd.grading import exact
from opd.grading.trees import Call, Degrees, Name, Node, Number, Power, Product, Sum, Unreadable

_LARGEST_MAGNITUDE = 1 << 40  # of a binary exponent; beyond it a value can't be told from its neighbours

_LARGEST_DEGREE = 32  # binary exponent of the degree of a root

Value = Any  # mpf or mpc: mpmath has no annotations
Point = Mapping[str, Value]


class Undefined(Exception):
    """The formula has no value here: passed over at a point with variables, unreadable without."""


class Spread:
    """The binary exponents of the largest and the smallest number that came up."""

    def __init__(self) -> None:
        self.largest = 0
        self._smallest = 0

    def saw(self, value: Value) -> None:
        """Takes note of a number; `Unreadable` when it is out of all bounds."""
        if value:
            magnitude = int(mpmath.mag(value))
            if abs(magnitude) > _LARGEST_MAGNITUDE:
                raise Unreadable("it is too large or too small to compute")
            self.largest = max(self.largest, magnitude)
            self._smallest = min(self._smallest, magnitude)

    @property
    def bits(self) -> int:
        """How many bits lie between the smallest and the largest."""
        return self.largest - self._smallest


class Evaluation:
    """The value of a formula at one point, at the working precision."""

    def __init__(self, point: Point, spread: Spread, *, common_logarithm: bool) -> None:
        self._point = point
        self._spread = spread
        self._common_logarithm = common_logarithm

    def value(self, node: Node) -> Value:
        """A real number where it is one, else a complex one. Raises `Undefined` or `Unreadable`."""
        result = self._value(node)
        if isinstance(result, mpmath.mpc) and not result.imag:
            result = result.real
        if not mpmath.isfinite(result):
            raise Undefined
        self._spread.saw(result)
        return result

    def _value(self, node: Node) -> Value:  # noqa: PLR0911  # one return for each kind of formula
        match node:
            case Number(number):
                return mpmath.mpf(number.numerator) / number.denominator
            case Name(text):
                return self._name(text)
            case Sum(terms):
                return mpmath.fsum(self.value(term) for term in terms)
            case Product(factors):
                return mpmath.fprod(self.value(factor) for factor in factors)
            case Power(base, exponent):
                return _power(self.value(base), exponent, self.value(exponent))
            case Degrees(angle, _):
                return mpmath.radians(self.value(angle))
            case Call(function, arguments):
                return self._call(function, [self.value(argument) for argument in arguments])
            case _:
                raise Unreadable(f"a {type(node).__name__.casefold()} has no numeric value")

    def _name(self, text: str) -> Value:
        if text in self._point:
            return self._point[text]
        constants = {"pi": mpmath.pi, "e": mpmath.e, "i": mpmath.j}
        if text not in constants:
            raise Undefined
        return +constants[text]

    def _call(self, function: str, arguments: list[Value]) -> Value:
        if function == "log" and len(arguments) == 1 and self._common_logarithm:
            return mpmath.log10(arguments[0])
        if function not in _FUNCTIONS:
            raise Unreadable(f"there is no way to compute {function}")
        limit = _LARGEST_ARGUMENT.get(function, _LARGEST_MAGNITUDE)
        if any(mpmath.mag(argument) > limit for argument in arguments if argument):
            raise Unreadable(f"{function} of so large a number can't be computed")
        try:
            return _FUNCTIONS[function](*arguments)
        except (ValueError, ZeroDivisionError, TypeError):  # a pole, or an order of complex numbers
            raise Undefined from None


def _power(base: Value, exponent: Node, power: Value) -> Value:
    if base == 0:
        if not mpmath.re(power) > 0:
            raise Undefined
        return mpmath.mpf(0)
    if abs(power) * (abs(mpmath.mag(base)) + 1) > _LARGEST_MAGNITUDE:
        raise Unreadable("it is too large or too small to compute")
    degree = _odd_root(exponent)
    if degree and not mpmath.im(base) and base < 0:
        # (-8)^(1/3) is -2 at school; the principal value is another number
        numerator = mpmath.mpf(degree[0])
        return mpmath.power(-mpmath.root(-base, degree[1]), numerator)
    return mpmath.power(base, power)


def _odd_root(exponent: Node) -> tuple[int, int] | None:
    """Numerator and denominator of an exponent such as 1/3 or -2/5."""
    try:
        value = exact.value(exponent, {})
    except (exact.Inexact, Unreadable):
        return None
    return (value.numerator, value.denominator) if value.denominator % 2 and value.denominator > 1 else None


def _root(radicand: Value, degree: Value) -> Value:
    if degree == 0:
        raise ValueError("there is no zeroth root")
    if mpmath.mag(degree) > _LARGEST_DEGREE:
        raise Unreadable("a root of so high a degree can't be computed")
    odd = mpmath.isint(degree) and int(degree) % 2 == 1
    if odd and not mpmath.im(radicand) and radicand < 0:
        return -mpmath.root(-radicand, int(degree))
    return mpmath.sqrt(radicand) if degree == 2 else mpmath.power(radicand, 1 / degree)


def _logarithm(number: Value, base: Value | None = None) -> Value:
    if number == 0 or base in {0, 1}:
        raise ValueError("there is no such logarithm")
    return mpmath.log(number) if base is None else mpmath.log(number) / mpmath.log(base)


def _floor(number: Value) -> Value:
    """The floor; a value within rounding of a whole number is that number."""
    near = mpmath.nint(mpmath.re(number))
    close = abs(number - near) < mpmath.ldexp(1, -mpmath.mp.prec // 2)
    return near if close else mpmath.floor(number)


# Binary exponents of the largest arguments: what grows would not fit, what oscillates needs as many bits of π.
_LARGEST_ARGUMENT = dict.fromkeys(("factorial", "binom", "exp", "sinh", "cosh"), 40) | dict.fromkeys(
    ("sin", "cos", "tan", "cot", "sec", "csc", "cis", "tanh"), 10_000
)
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "sqrt": _root,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "cot": mpmath.cot,
    "sec": mpmath.sec,
    "csc": mpmath.csc,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "cis": mpmath.expj,
    "exp": mpmath.exp,
    "ln": _logarithm,
    "log": _logarithm,
    "lg": lambda number: _logarithm(number, mpmath.mpf(10)),
    "abs": abs,
    "conj": mpmath.conj,
    "norm": abs,
    "floor": _floor,
    "ceil": lambda number: -_floor(-number),
    "factorial": mpmath.factorial,
    "binom": mpmath.binomial,
    "max": lambda *numbers: max(numbers),
    "min": lambda *numbers: min(numbers),
}
