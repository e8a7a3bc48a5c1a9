"""From plain characters to a sympy formula, by a grammar: what the reference grader leaves to a parser that runs
its text as code. Only in the worker processes: how long sympy takes to simplify can't be told beforehand.

    sum       product + product - …
    product   signed * signed / signed, or a power right behind a power      2sqrt(3), 1/2x is x/2
    signed    -signed, power
    power     postfix ** signed                                              -x^2, 2^-1
    postfix   atom with ! or !! behind it
    atom      a number, a name, a function of brackets, brackets

A name of several letters is the product of its letters, unless sympy has a constant or a Greek letter of that
name; every letter is a variable, so that i and e are no numbers. Names of sympy's own functions read as nothing.
"""

import re
from typing import Any

import sympy

from opd.grading.trees import Unreadable
from opd.grading.vocabulary import row

LONGEST = 1_000  # characters
_DEEPEST = 40  # brackets, powers and signs in each other
_MOST_BITS = 1_000_000  # of an integer that a power or a factorial comes to
_LARGEST_FACTORIAL = 10_000
_LARGEST_EXPONENT = 1_000  # of ten, in a decimal

Formula = Any  # a sympy object: sympy has no annotations that the type checker can use

_CONSTANTS = {"pi": sympy.pi, "oo": sympy.oo, "zoo": sympy.zoo}
_FUNCTIONS = {"sqrt": sympy.sqrt, "ln": sympy.log}
_GREEK = frozenset({"mu", "nu", "xi"})
_NO_FORMULA = frozenset(  # functions of sympy and words of Python: subtracting two of them is an error
    row("all as csc eye ff fft frac fu gff id if im in is jn li nan ntt or re rf yn")
)
_NUMBER = r"\d(?:_?\d)*\.(?:\d(?:_?\d)*)?(?:e[+-]?\d+)?|\.\d(?:_?\d)*(?:e[+-]?\d+)?|\d(?:_?\d)*e[+-]?\d+"
_INTEGER = r"0(?:_?0)*|[1-9](?:_?\d)*"
_TOKEN = re.compile(
    rf"(?P<decimal>{_NUMBER})|(?P<integer>{_INTEGER})|(?P<name>[^\W\d]\w*)|(?P<mark>\*\*|!!|[-+*/!()])"
)


def same_value(gold: str, given: str) -> bool:
    """Whether sympy simplifies the difference of two plain texts to 0; False for what is no formula.

    Raises `Unreadable` for a formula that is too large to compute with.
    """
    if max(len(gold), len(given)) > LONGEST:
        raise Unreadable(f"it is longer than {LONGEST} characters")
    try:
        return bool(sympy.simplify(_read(gold) - _read(given)) == 0)
    except _NoFormula:
        return False
    except (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError):
        return False  # sympy trips over it, and so does the reference, which then says no


class _NoFormula(Exception):
    """The text is none that the reference's parser takes."""


def _read(text: str) -> Formula:
    reader = _Reader(text.replace("^", "**"))
    formula = reader.sum()
    if reader.peek() != "":
        raise _NoFormula
    return formula


class _Reader:
    """Reads tokens from left to right and computes with sympy's own operators."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise _NoFormula
            self._tokens.append((str(found.lastgroup), found.group()))
            position = found.end()
        self._tokens.append(("end", ""))
        self._position = 0
        self._depth = 0

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self._tokens[self._position][1]

    def _take(self) -> tuple[str, str]:
        self._position += 1
        return self._tokens[self._position - 1]

    def sum(self) -> Formula:
        """Products with signs between them."""
        result = self._product()
        while self.peek() in {"+", "-"}:
            minus = self._take()[1] == "-"
            term = self._product()
            result = result - term if minus else result + term
        return result

    def _product(self) -> Formula:
        result = self._signed()
        while True:
            if self.peek() == "*":
                self._take()
                result = result * self._signed()
            elif self.peek() == "/":
                self._take()
                result = result / self._signed()
            elif self._tokens[self._position][0] in {"decimal", "integer", "name"} or self.peek() == "(":
                result = result * self._power()
            else:
                return result

    def _signed(self) -> Formula:
        if self.peek() not in {"+", "-"}:
            return self._power()
        minus = self._take()[1] == "-"
        value = self._deeper(self._signed)
        return -value if minus else value

    def _power(self) -> Formula:
        base = self._postfix()
        if self.peek() != "**":
            return base
        self._take()
        exponent = self._deeper(self._signed)
        _check_power(base, exponent)
        return base**exponent

    def _postfix(self) -> Formula:
        value = self._atom()
        while self.peek() in {"!", "!!"}:
            function = sympy.factorial if self._take()[1] == "!" else sympy.factorial2
            if isinstance(value, sympy.Integer) and value > _LARGEST_FACTORIAL:
                raise Unreadable("its factorial is too large to compute")
            value = function(value)
        return value

    def _atom(self) -> Formula:
        kind, text = self._take()
        if kind == "integer":
            return sympy.Integer(int(text))
        if kind == "decimal":
            exponent = text.partition("e")[2]
            if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
                raise Unreadable("it is too large or too small to compute")
            return sympy.Float(text.replace("_", ""))
        if kind == "name":
            return self._named(text)
        if text != "(":
            raise _NoFormula
        value = self._deeper(self.sum)
        if self._take()[1] != ")":
            raise _NoFormula
        return value

    def _named(self, name: str) -> Formula:
        if name in _FUNCTIONS:
            if self.peek() != "(":
                raise _NoFormula
            return _FUNCTIONS[name](self._atom())
        if name in _NO_FORMULA:
            raise _NoFormula
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in _GREEK or "_" in name:
            return sympy.Symbol(name)
        parts = re.findall(r"[0-9]+|\D", name)
        if "".join(parts) != name:  # digits of another script
            raise _NoFormula
        return sympy.Mul(*(sympy.Integer(int(part)) if part.isdecimal() else sympy.Symbol(part) for part in parts))

    def _deeper(self, read: Any) -> Formula:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable(f"it is nested deeper than {_DEEPEST} levels")
        value = read()
        self._depth -= 1
        return value


def _check_power(base: Formula, exponent: Formula) -> None:
    """Raises `Unreadable` for a power of numbers with more bits than anyone can want."""
    if isinstance(base, sympy.Rational) and isinstance(exponent, sympy.Rational):
        bits = max(int(abs(base.p)).bit_length(), int(base.q).bit_length())
        if bits > 1 and abs(exponent) * bits > _MOST_BITS:
            raise Unreadable("it is too large to compute")
