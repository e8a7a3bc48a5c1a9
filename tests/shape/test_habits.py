"""House habits that neither the linter nor the type checker sees."""

import ast
import textwrap
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

BROAD = {"Exception", "BaseException"}
SAYS_NOTHING = {"base", "common", "core", "helper", "helpers", "misc", "shared", "util", "utils"}
# torch calls these two by name and documents what they are; a sentence of our own would only repeat it
HOOKS_OF_TORCH = {"forward", "backward"}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def broad_handlers(tree: ast.AST) -> Iterator[int]:
    """Lines that would swallow any exception: `except` without a type or with a broad one, and `suppress`.

    A handler whose last statement is a bare `raise` lets everything through, and is how half-made files are
    cleared away; it doesn't count.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            passes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            if (node.type is None or _names_broad(node.type)) and not passes_on:
                yield node.lineno
        elif isinstance(node, ast.Call) and _last_name(node.func) == "suppress" and any(map(_names_broad, node.args)):
            yield node.lineno


def without_docstring(tree: ast.Module) -> Iterator[str]:
    """Public definitions that say nothing about themselves.

    Exempt: names that start with an underscore, with all that is inside them; what is defined inside a
    function; overloads and property setters, which speak through their first definition; and torch's hooks.
    """
    if ast.get_docstring(tree) is None:
        yield "the module"
    yield from _silent(tree.body, prefix="")


def _silent(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_") or node.name in HOOKS_OF_TORCH:
            continue
        if any(_last_name(decorator) in {"overload", "setter", "deleter"} for decorator in node.decorator_list):
            continue
        if ast.get_docstring(node) is None:
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _silent(node.body, prefix=f"{prefix}{node.name}.")


def _names_broad(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(_last_name(part) in BROAD for part in parts)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


# They read what strangers made through libraries that raise whatever it makes them raise, and say it in a line.
MAY_CATCH_ALL = {
    "src/opd/models/load.py": 1,
    "src/opd/protocol/contamination/carriers.py": 2,
    "src/opd/protocol/contamination/reader.py": 1,
    "src/opd/view/server/texts.py": 1,
}


def test_nothing_swallows_every_exception(sources):
    found = {one.name: list(broad_handlers(one.tree)) for one in sources}
    assert {name: len(lines) for name, lines in found.items() if lines} == MAY_CATCH_ALL, found


def test_every_public_name_says_what_it_is(sources):
    silent = [f"{one.name}: {name}" for one in sources for name in without_docstring(one.tree)]
    assert not silent, "\n".join(silent)


def test_file_names_say_what_is_inside(sources):
    assert [one.name for one in sources if PurePosixPath(one.name).stem in SAYS_NOTHING] == []


@pytest.mark.parametrize(
    ("planted", "lines"),
    [
        ("try: f()\nexcept: pass", [2]),
        ("try: f()\nexcept Exception as error: print(error)", [2]),
        ("try: f()\nexcept (OSError, BaseException): pass", [2]),
        ("try: f()\nexcept builtins.Exception: pass", [2]),
        ("with contextlib.suppress(Exception): f()", [1]),
        ("try: f()\nexcept Exception:\n    if x: raise", [2]),  # swallows the rest
        (
            "try: f()\nexcept Exception as error:\n    raise ValueError from error",
            [2],
        ),  # hides a bug behind a name
        ("try: f()\nexcept BaseException:\n    clear()\n    raise", []),
        ("try: f()\nexcept (OSError, ValueError): pass", []),
        ("with suppress(OSError): f()", []),
    ],
)
def test_a_planted_handler_is_judged_by_what_it_lets_through(planted, lines):
    assert list(broad_handlers(ast.parse(planted))) == lines


def test_planted_silence_is_found_and_the_exempt_are_not():
    planted = textwrap.dedent('''
        class Loud:
            """Says so."""

            def silent(self): ...
            def forward(self): ...
            def _private(self): ...
            def __len__(self): ...
            @silent.setter
            def silent(self, value): ...

        class Silent:
            def inner(self): ...

        class _Hidden:
            def inner(self): ...

        @overload
        def many(x: int): ...

        async def many(x):
            def nested(): ...
    ''')
    assert list(without_docstring(ast.parse(planted))) == [
        "the module",
        "Loud.silent",
        "Silent",
        "Silent.inner",
        "many",
    ]
