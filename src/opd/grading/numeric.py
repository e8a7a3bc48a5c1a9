"""Real and complex arithmetic on formulas at many digits; only in the worker processes.

Two values are equal when they agree in all but the last 64 of the bits that were carried. How many are carried
follows from the formulas: more for longer ones, and more by the range from the smallest to the largest number
that came up on the way, so that 1 + e^-1000 is not 1 and 0.999999 is not 1.

Formulas with variables are compared at real points. Where one that has no `i` in it is not real, the point lies
outside its domain and is passed over: ln(x²) is 2 ln x, and √(x²) is not x.
"""

from collections.abc import Iterable, Iterator, Sequence

import mpmath  # type: ignore[import-untyped]  # ships no annotations

from opd.grading import exact
from opd.grading.evaluation import Evaluation, Point, Spread, Undefined, Value
from opd.grading.trees import Call, Name, Node, Number, Power, Unreadable, children, variables

_GUARD_BITS = 64
_FIRST_BITS = 128
_BITS_A_NODE = 8
_SPREADS = 4  # cos x differs from 1 by x² only: a small number can hide behind its square
MOST_BITS = 20_000  # carried
_MOST_WORK = 500_000_000  # functions times the square of the bits: about a second, on all points
_WORK = {"factorial": 200, "binom": 200} | dict.fromkeys(
    ("sqrt", "abs", "norm", "conj", "floor", "ceil", "max", "min"), 0
)
_REAL_POINTS = 6
_WHOLE_POINTS = 3


class Numeric(exact.Exact):
    """The comparisons of `Exact`, for every value that can be computed."""

    name = "value"

    def equal(self, one: Node, other: Node) -> bool:
        """Whether two formulas have the same value; `log` is the natural or the common one, in both."""
        try:
            return super().equal(one, other)
        except exact.Inexact:
            pass
        readings = (False, True) if _has_plain_log(one) or _has_plain_log(other) else (False,)
        return any(
            all(_agree(left, right, slack) for left, right, slack in self._pairs(one, other, common_logarithm=common))
            for common in readings
        )

    def less(self, one: Node, other: Node) -> bool:
        """Whether the first of two constants is smaller; `Unreadable` for complex ones."""
        try:
            return super().less(one, other)
        except exact.Inexact:
            pass
        ((left, right, slack),) = self._pairs(one, other)
        if mpmath.im(left) or mpmath.im(right):
            raise Unreadable("complex numbers have no order")
        return bool(left < right) and not _agree(left, right, slack)

    def proportional(self, one: Node, other: Node, *, positive: bool) -> bool:
        """Whether one formula is a constant times the other, everywhere where both are defined."""
        try:
            return super().proportional(one, other, positive=positive)
        except exact.Inexact:
            pairs = self._pairs(one, other)
        if any(not left or not right for left, right, _ in pairs):
            return False
        first, second, _ = pairs[0]
        if positive and not mpmath.re(first / second) > 0:
            return False
        grown = max(0, int(mpmath.mag(first)), int(mpmath.mag(second))) + 2
        return all(_agree(left * second, right * first, slack + grown) for left, right, slack in pairs)

    def _pairs(self, one: Node, other: Node, *, common_logarithm: bool = False) -> list[tuple[Value, Value, int]]:
        """Both values wherever both are defined, each with the bits to which they were computed."""
        names = sorted(variables(one) | variables(other))
        compared = _Compared(one, other, common_logarithm=common_logarithm)
        for points in (_real_points(names), _whole_points(names)):
            pairs = list(compared.wherever_defined(points))
            if len(pairs) >= (2 if names else 1):
                return pairs
        raise Unreadable("it has no value, or none that can be computed")


class _Compared:
    """Two formulas at one point after another."""

    def __init__(self, one: Node, other: Node, *, common_logarithm: bool) -> None:
        self._one, self._other = one, other
        self._common_logarithm = common_logarithm
        self._first_bits = _FIRST_BITS + _written_bits(one) + _written_bits(other)
        self._work = _work(one) + _work(other)

    def wherever_defined(self, points: Iterable[Point]) -> Iterator[tuple[Value, Value, int]]:
        for point in points:
            try:
                yield self._at(point)
            except Undefined:
                continue

    def _at(self, point: Point) -> tuple[Value, Value, int]:
        """Both values, and their bits of slack. More bits are carried only to make sure of an agreement."""
        bits = self._first_bits
        left, right, spread = self._evaluated(point, bits=bits)
        if _agree(left, right, spread.largest - bits + _GUARD_BITS):
            bits += _SPREADS * spread.bits
            if bits > MOST_BITS:
                raise Unreadable(f"comparing it takes more than {MOST_BITS} bits")
            left, right, spread = self._evaluated(point, bits=bits)
        return left, right, spread.largest - bits + _GUARD_BITS

    def _evaluated(self, point: Point, *, bits: int) -> tuple[Value, Value, Spread]:
        if self._work * bits**2 > _MOST_WORK:
            raise Unreadable(f"it has too many functions to be compared at {bits} bits")
        spread = Spread()
        with mpmath.workprec(bits):
            evaluation = Evaluation(point, spread, common_logarithm=self._common_logarithm)
            left, right = evaluation.value(self._one), evaluation.value(self._other)
        if point:
            _check_real(self._one, left)
            _check_real(self._other, right)
        return left, right, spread


def _written_bits(node: Node) -> int:
    """Bits that a formula asks for: those of its numbers, so that no decimal is too long, and some for each node."""
    own = node.value.numerator.bit_length() + node.value.denominator.bit_length() if isinstance(node, Number) else 0
    return own + _BITS_A_NODE + sum(_written_bits(child) for child in children(node))


def _work(node: Node) -> int:
    """How many functions and roots are to be computed, a factorial as many of them."""
    own = 0
    if isinstance(node, Call):
        own = _WORK.get(node.function, 1)
    elif isinstance(node, Power):
        own = int(not isinstance(node.exponent, Number) or node.exponent.value.denominator != 1)
    return own + sum(_work(child) for child in children(node))


def _agree(left: Value, right: Value, slack: int) -> bool:
    """Whether two values differ by less than 2^slack."""
    difference = abs(left - right)
    return bool(difference == 0 or mpmath.mag(difference) <= slack)


def _check_real(formula: Node, value: Value) -> None:
    if mpmath.im(value) and not _has_i(formula):
        raise Undefined


def _has_i(node: Node) -> bool:
    return node == Name("i") or any(_has_i(child) for child in children(node))


def _has_plain_log(node: Node) -> bool:
    plain = isinstance(node, Call) and node.function == "log" and len(node.arguments) == 1
    return plain or any(_has_plain_log(child) for child in children(node))


def _real_points(names: Sequence[str]) -> Iterator[Point]:
    """Fixed points of moderate size, of both signs; one empty point without names."""
    for number in range(_REAL_POINTS if names else 1):
        yield {name: _coordinate(name, number) for name in names}


def _whole_points(names: Sequence[str]) -> Iterator[Point]:
    """For formulas such as (-1)^n, which are real at whole numbers only."""
    for number in range(_WHOLE_POINTS):
        yield {name: mpmath.mpf(2 + number + place) for place, name in enumerate(names)}


def _coordinate(name: str, number: int) -> Value:
    drawn = exact.points(Name(name))[number % exact.POINTS][name]
    scale = mpmath.mpf(int(abs(drawn.numerator)) % 4093 + 4096 * (number + 1)) / 4096  # within (1, 8)
    return -scale if drawn < 0 else scale
