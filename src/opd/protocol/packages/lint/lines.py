"""Where in a TOML file a key stands, for a message that a person can click on."""

import re
from collections import Counter
from collections.abc import Sequence

Place = tuple[str | int, ...]

_TABLE = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\"'-]+)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_.-]+|\"[^\"]*\")\s*=")
_QUOTES = ("'''", '"""')


def lines_of(text: str) -> dict[Place, int]:
    """The line, from 1, of each table and key; the keys of the second `[[a.b]]` are at `("a", "b", 1, …)`."""
    found: dict[Place, int] = {}
    table: Place = ()
    counts: Counter[Place] = Counter()
    inside = ""  # the quotes of the text over several lines that this line lies in
    for number, line in enumerate(text.splitlines(), start=1):
        if not inside and (head := _TABLE.fullmatch(line)):
            table = tuple(part.strip("\"'") for part in head[2].split("."))
            if head[1] == "[[":
                counts[table] += 1
                table = (*table, counts[table] - 1)
            found.setdefault(table, number)
        elif not inside and (key := _KEY.match(line)):
            found.setdefault((*table, *key[1].strip('"').split(".")), number)
        for quotes in _QUOTES:
            if inside in {"", quotes} and line.count(quotes) % 2:
                inside = "" if inside else quotes
    return found


def line_of(lines: dict[Place, int], place: Sequence[str | int]) -> int | None:
    """The line of a key, or else of the innermost table around it that is written down."""
    for depth in range(len(place), 0, -1):
        if (number := lines.get(tuple(place[:depth]))) is not None:
            return number
    return None
