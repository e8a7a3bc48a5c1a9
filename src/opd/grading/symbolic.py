"""The last resort, only in the worker processes: integrals, sums, limits and determinants, read by math-verify's
LaTeX reader and compared by sympy.

The reader takes a text as LaTeX and nothing else: no part of it is run as code. How long it or sympy take can't
be told beforehand, which is why it all happens in a process that can be killed.
"""

from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig, latex2sympy

from opd.grading.trees import Unreadable

LONGEST = 500  # characters: the reader's time grows much faster than its text
# What the reader raises for a text that it can't read, beside a plain Exception: its own code, or sympy's, trips.
_STUMBLES = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
_NORMAL = NormalizationConfig(malformed_operators=True, nits=True, boxed="none")
_DIGITS = 30
_AGREEING_DIGITS = 20
_MOST_TERMS = 10_000  # of a sum or a product that is added up term by term

Formula = Any  # a sympy object: sympy has no annotations that the type checker can use


def same_value(answer: str, gold: str) -> bool:
    """Whether two LaTeX texts have the same value. Raises `Unreadable` when one can't be read or compared."""
    if max(len(answer), len(gold)) > LONGEST:
        raise Unreadable(f"the symbolic reader takes no more than {LONGEST} characters")
    try:
        return _same(_read(answer), _read(gold))
    except Exception as error:
        if type(error) is Exception or isinstance(error, _STUMBLES):
            line = str(error).partition("\n")[0]
            raise Unreadable(f"the symbolic reader: {line[:80]}") from None
        raise


def _read(text: str) -> Formula:
    return _closed(latex2sympy(text, normalization_config=_NORMAL))


def _same(one: Formula, other: Formula) -> bool:
    if isinstance(one, sympy.MatrixBase) or isinstance(other, sympy.MatrixBase):
        return bool(one == other)
    if not (isinstance(one, sympy.Expr) and isinstance(other, sympy.Expr)):
        raise Unreadable("one side is no formula")
    difference = one - other
    if difference.free_symbols or other.free_symbols:
        return bool(sympy.simplify(difference.doit()) == 0)
    return _is_zero(difference, scale=other)


def _closed(formula: Formula) -> Formula:
    """The formula with its limits and derivatives found, and a closed form for each long sum or product."""
    if not isinstance(formula, sympy.Basic):
        return formula
    for part in formula.atoms(sympy.Limit, sympy.Derivative):
        formula = formula.subs(part, part.doit())
    end = sympy.Symbol("end", integer=True, positive=True)
    for long in formula.atoms(sympy.Sum, sympy.Product):
        index, first, last = long.limits[0]
        if (last - first).is_number and last.is_finite and last - first > _MOST_TERMS:
            closed = long.func(long.function, (index, first, end), *long.limits[1:]).doit()
            if closed.has(sympy.Sum, sympy.Product):
                raise Unreadable(f"it has more than {_MOST_TERMS} terms and no closed form")
            formula = formula.subs(long, closed.subs(end, last))
    return formula


def _is_zero(difference: Formula, *, scale: Formula) -> bool:
    """By value first: a number that is clearly not zero needs no proof."""
    value = sympy.N(difference, _DIGITS)
    if not value.is_number or value.has(sympy.nan, sympy.zoo):
        raise Unreadable("it has no value")
    size = max(1, abs(sympy.N(scale, _DIGITS)))
    if abs(value) > size * sympy.Float(10) ** -_AGREEING_DIGITS:
        return False
    return bool(abs(value) < size * sympy.Float(10) ** -(_AGREEING_DIGITS + 5) or difference.doit() == 0)
