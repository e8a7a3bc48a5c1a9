"""Arithmetic over claims: + - * /, brackets and sqrt(…), and nothing else."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

ROOT = "sqrt"
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


def _value(node: ast.expr, values: Mapping[str, object]) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Call) and _is_root(node):
        return math.sqrt(_value(node.args[0], values))
    if isinstance(node, ast.Name):
        value = values.get(node.id)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        raise ValueError(f"{node.id} is {value!r}, and no number")
    raise ValueError(f"{ast.unparse(node)!r} is no arithmetic over claims")


def _is_root(call: ast.Call) -> bool:
    """Whether it is the square root of one thing."""
    is_named = isinstance(call.func, ast.Name) and call.func.id == ROOT
    return is_named and len(call.args) == 1 and not call.keywords
