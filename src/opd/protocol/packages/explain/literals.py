"""Python source as data: what its module-level names are worth, as far as that can be read without running it.

A constant, a tuple, a list or a dictionary is itself; a name is worth what it is assigned, once; a call is a `Record`
of the function's name and its arguments. `dataclasses.replace(X, …)` of a record is that record with other keywords.
Everything else is `NotLiteral`, with its source. No module is imported, no function called.
"""

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opd.records.errors import AskedWrongly

MOST_VALUES = 20_000  # a few lines can name a structure of any size
DEEPEST = 40
LARGEST_NUMBER = 10**18
_LINE_END = re.compile(r"\r\n|\r|\n")
_SHOWN = 200  # characters of a source that is not a literal

_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


@dataclass(frozen=True, slots=True)
class NotLiteral:
    """Something that only running the source would tell."""

    source: str

    def __str__(self) -> str:
        """As it is shown to a person."""
        return f"not a literal: {self.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A call: the function's name, and what it is given."""

    function: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    source: str

    def __str__(self) -> str:
        """As it is shown to a person."""
        return f"not a literal: {self.source}"


def names_of(source: str) -> dict[str, Any]:
    """What each name that is assigned at the top of a module is worth, in order.

    Raises `AskedWrongly` for a text that is not Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested without end
        raise AskedWrongly(f"it is not Python that can be read: {str(error) or type(error).__name__}") from error
    reader = _Reader(tree, source)
    return {name: reader.value(node) for name, node in reader.assigned.items()}


class _Reader:
    """Reads the values of one module, of all of them together no more than `MOST_VALUES`."""

    def __init__(self, tree: ast.Module, source: str) -> None:
        self._lines = _LINE_END.split(source)  # as Python counts lines; str.splitlines knows more line ends
        self.assigned = dict(_assignments(tree))
        changed = Counter(_bound(tree))
        self._steady = {name for name in self.assigned if changed[name] == 1}
        self._replace = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
            for alias in node.names
            if alias.name == "replace"
        }
        self._left = MOST_VALUES

    def value(self, node: ast.expr, depth: int = 0, within: frozenset[str] = frozenset()) -> Any:
        self._left -= 1
        if depth > DEEPEST or self._left < 0:
            return self._not_literal(node)
        read = _READERS.get(type(node))
        return read(self, node, depth + 1, within) if read else self._not_literal(node)

    def constant(self, node: ast.Constant, _depth: int, _within: frozenset[str]) -> Any:
        return self._not_literal(node) if isinstance(node.value, bytes | complex) else node.value

    def name(self, node: ast.Name, depth: int, within: frozenset[str]) -> Any:
        if node.id not in self._steady or node.id in within:
            return self._not_literal(node)
        return self.value(self.assigned[node.id], depth, within | {node.id})

    def sequence(self, node: ast.Tuple | ast.List, depth: int, within: frozenset[str]) -> Any:
        return tuple(self.value(one, depth, within) for one in node.elts)

    def mapping(self, node: ast.Dict, depth: int, within: frozenset[str]) -> Any:
        if not all(isinstance(key, ast.Constant) for key in node.keys):
            return self._not_literal(node)
        pairs = zip(node.keys, node.values, strict=True)
        return {key.value: self.value(one, depth, within) for key, one in pairs if isinstance(key, ast.Constant)}

    def sign(self, node: ast.UnaryOp, depth: int, within: frozenset[str]) -> Any:
        value = self.value(node.operand, depth, within)
        return -value if isinstance(node.op, ast.USub) and _is_number(value) else self._not_literal(node)

    def arithmetic(self, node: ast.BinOp, depth: int, within: frozenset[str]) -> Any:
        left, right = self.value(node.left, depth, within), self.value(node.right, depth, within)
        compute = _ARITHMETIC.get(type(node.op))
        if compute is not None and _is_number(left) and _is_number(right):
            result = compute(left, right)
            return result if abs(result) < LARGEST_NUMBER else self._not_literal(node)
        if isinstance(node.op, ast.Add) and isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        return self._not_literal(node)

    def call(self, node: ast.Call, depth: int, within: frozenset[str]) -> Any:
        spread = any(isinstance(one, ast.Starred) for one in node.args) or any(
            one.arg is None for one in node.keywords
        )
        if spread or not isinstance(node.func, ast.Name | ast.Attribute):
            return self._not_literal(node)
        arguments = tuple(self.value(one, depth, within) for one in node.args)
        keywords = {str(one.arg): self.value(one.value, depth, within) for one in node.keywords}
        source = self._source(node)
        if isinstance(node.func, ast.Name) and node.func.id in self._replace and len(arguments) == 1:
            (of,) = arguments
            if isinstance(of, Record):
                keywords = {**of.keywords, **keywords}
                return Record(function=of.function, arguments=of.arguments, keywords=keywords, source=source)
        function = self._source(node.func)
        return Record(function=function, arguments=arguments, keywords=keywords, source=source)

    def _not_literal(self, node: ast.expr) -> NotLiteral:
        return NotLiteral(self._source(node))

    def _source(self, node: ast.expr) -> str:
        """The first line or so of what stands there; columns count UTF-8 bytes."""
        line = self._lines[node.lineno - 1].encode()
        last = node.end_col_offset if node.end_lineno == node.lineno else None
        text = line[node.col_offset : last].decode("utf-8", "replace")
        return text[:_SHOWN] + ("…" if last is None or len(text) > _SHOWN else "")


_READERS: Mapping[type[ast.expr], Callable[..., Any]] = {
    ast.Constant: _Reader.constant,
    ast.Name: _Reader.name,
    ast.Tuple: _Reader.sequence,
    ast.List: _Reader.sequence,
    ast.Dict: _Reader.mapping,
    ast.UnaryOp: _Reader.sign,
    ast.BinOp: _Reader.arithmetic,
    ast.Call: _Reader.call,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """`NAME = …` and `NAME: kind = …` at the top of the module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def _bound(tree: ast.Module) -> Iterator[str]:
    """Every place at which a name is bound or may be changed, wherever in the file it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield _root(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):  # NAME.update(…)
            yield _root(node.value.func)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Global):
            yield from node.names


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
