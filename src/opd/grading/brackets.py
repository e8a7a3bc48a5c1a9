"""What stands in brackets: groups, tuples, intervals, sets, absolute values, vectors, matrices.

Each reader starts behind the opening bracket, which is taken already, and takes the closing one.
"""

from collections.abc import Callable

from opd.grading.cursor import Cursor
from opd.grading.trees import Brackets, Call, Listing, Matrix, Node, Unreadable

NO_ELEMENTS = Brackets("{", (), "}")


def read_group(cursor: Cursor) -> Node:
    """What stands between TeX's own braces."""
    if cursor.at("}"):
        raise Unreadable("a group is empty")
    node = cursor.inside()
    cursor.expect("}")
    return node


def subscript(cursor: Cursor) -> str:
    """The subscript that follows, as `_` and its text, or nothing."""
    if not cursor.take_if("_"):
        return ""
    parts: list[str] = []
    if cursor.take_if("{"):
        while not cursor.at("}"):
            parts.append(cursor.take().text)
        cursor.take()
    else:
        parts.append(cursor.take().text)
    return f"_{''.join(parts)}"


def _parenthesised(cursor: Cursor, opening: str) -> Node:
    """A tuple or an interval when there are several items, else what stands inside."""
    if cursor.at(")", "]"):
        raise Unreadable("brackets are empty")
    inner = cursor.inside()
    closing = cursor.expect(")", "]")
    if isinstance(inner, Listing) and inner.joiner == ",":
        return Brackets(opening, inner.items, closing)
    if (opening, closing) not in {("(", ")"), ("[", "]")}:
        raise Unreadable(f"{opening} is closed by {closing}")
    return inner


def _items(inner: Node) -> tuple[Node, ...]:
    return inner.items if isinstance(inner, Listing) else (inner,)


def _set(cursor: Cursor) -> Node:
    """A set by its elements, or by the condition behind a bar or a colon."""
    if cursor.take_if("\\}"):
        return NO_ELEMENTS
    inner = cursor.inside(bar_closes=True)
    if cursor.at("|", ":"):
        cursor.take()
        inner = cursor.inside()
        cursor.expect("\\}")
        return inner
    cursor.expect("\\}")
    return Brackets("{", _items(inner), "}")


def _between(cursor: Cursor, function: str, closing: str) -> Node:
    inner = cursor.inside(bar_closes=True)
    cursor.expect(closing)
    return Call(function, (inner,))


def _vector(cursor: Cursor) -> Node:
    inner = cursor.inside()
    cursor.expect("rangle")
    return Brackets("(", _items(inner), ")")


def _matrix(cursor: Cursor) -> Node:
    rows: list[tuple[Node, ...]] = []
    while not cursor.at("end"):
        row = [cursor.inside()]
        while cursor.take_if("&"):
            row.append(cursor.inside())
        rows.append(tuple(row))
        if not cursor.at("end"):
            cursor.expect("\\\\")
    cursor.take()
    if len({len(row) for row in rows}) != 1:
        raise Unreadable("the rows of the matrix differ in length")
    return Matrix(tuple(rows))


READERS: dict[str, Callable[[Cursor], Node]] = {
    "(": lambda cursor: _parenthesised(cursor, "("),
    "[": lambda cursor: _parenthesised(cursor, "["),
    "{": read_group,
    "\\{": _set,
    "|": lambda cursor: _between(cursor, "abs", "|"),
    "||": lambda cursor: _between(cursor, "norm", "||"),
    "lfloor": lambda cursor: _between(cursor, "floor", "rfloor"),
    "lceil": lambda cursor: _between(cursor, "ceil", "rceil"),
    "langle": _vector,
    "begin": _matrix,
}
