"""Values as TOML: what `tomllib` reads back as the same values, the same values always as the same text.

A table's plain values come before its tables, and a list of tables is written as `[[name]]`. None is left out, since
TOML has no word for it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # what stands in a literal text neither raw nor escaped


def toml(values: Mapping[str, Any]) -> str:
    """The text of a TOML file with these values: texts, numbers, truth values, lists and tables of such."""
    return "\n".join(_table(values, ())).strip("\n") + "\n"


def _table(values: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    there = {key: value for key, value in values.items() if value is not None}
    tables = {key: value for key, value in there.items() if isinstance(value, Mapping) or _is_tables(value)}
    yield from (f"{_key(key)} = {_value(value)}" for key, value in there.items() if key not in tables)
    for key, value in tables.items():
        inner = (*place, key)
        name = ".".join(map(_key, inner))
        for table in [value] if isinstance(value, Mapping) else value:
            yield ""
            yield f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"
            yield from _table(table, inner)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _basic(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        inside = [_value(one) for one in value]
        short = f"[{', '.join(inside)}]"
        return short if len(short) <= 100 else "[\n" + "".join(f"  {one},\n" for one in inside) + "]"
    if isinstance(value, bool | int | float):
        return json.dumps(value, allow_nan=False)
    raise TypeError(f"{value!r} is a {type(value).__name__}, for which TOML has no word")


def _text(text: str) -> str:
    """On one line, or as a literal text over several lines where nothing of it would need an escape."""
    if "\n" in text and "'''" not in text and not text.endswith("'") and not _UNPRINTABLE.search(text):
        return f"'''\n{text}'''"
    return _basic(text)


def _basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
