"""Arithmetic over claims: + - * / and brackets, and nothing else."""

import ast
import operator
from collections.abc import Callable, Mapping

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluated(formula: str, values: Mapping[str, object]) -> float:
    """What it comes to; raises `ValueError` for anything but arithmetic over numbers that are given by name."""
    try:
        return _value(ast.parse(formula, mode="eval").body, values)
    except (SyntaxError, ZeroDivisionError) as error:
        raise ValueError(f"{formula!r}: {error}") from error


def names(formula: str) -> tuple[str, ...]:
    """The names in it, each once, in order."""
    found = (node for node in ast.walk(ast.parse(formula, mode="eval")) if isinstance(node, ast.Name))
    return tuple(dict.fromkeys(node.id for node in sorted(found, key=lambda node: node.col_offset)))


def _value(node: ast.expr, values: Mapping[str, object]) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Name):
        value = values.get(node.id)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        raise ValueError(f"{node.id} is {value!r}, and no number")
    raise ValueError(f"{ast.unparse(node)!r} is no arithmetic over claims")
