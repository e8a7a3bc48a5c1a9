"""Small files of a run as values: a JSON object, the last lines of a log. Damage is said in a sentence."""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from opd.view.server.answers import Gone, Unreadable
from opd.view.server.lines import lines_from, object_in, opened
from opd.view.server.places import Place

MOST_BYTES = 64 << 20  # of a JSON file: a receipt of 100,000 files has 30 MiB
LONGEST_TEXT = 20_000  # characters of a text in an answer
DEEPEST = 100  # lists in lists in an answer; a record of ours has six, and a reader of JSON may take few hundred


def read_object(place: Place) -> dict[str, Any]:
    """The object of a JSON file; raises `Gone` where there is none, and `Unreadable` for another value and damage."""
    try:
        value = json.loads(place.read(most=MOST_BYTES).decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{place.path} is not JSON: {error!s:.200}") from error
    if not isinstance(value, dict):
        raise Unreadable(f"{place.path} holds a {type(value).__name__}, not an object")
    return value


def object_or_none(place: Place) -> dict[str, Any] | None:
    """The object, or None where the file is not there or can't be read: its row says so."""
    try:
        return read_object(place)
    except (Gone, Unreadable):
        return None


def last_lines(place: Place, *, most: int) -> list[dict[str, Any]]:
    """The last objects of a file of lines; none where there is no such file."""
    kept: deque[dict[str, Any]] = deque(maxlen=most)
    try:
        with opened(place) as file:
            kept.extend(value for _, line in lines_from(file, 0) if (value := object_in(line)) is not None)
    except (Gone, Unreadable):
        return []
    return list(kept)


def page_of_lines(place: Place, *, offset: int, limit: int) -> dict[str, Any]:
    """Some lines of a file from one on, and how many there are; a line that is no object is null."""
    rows: list[dict[str, Any] | None] = []
    total = 0
    try:
        with opened(place) as file:
            for total, (_, line) in enumerate(lines_from(file, 0), start=1):
                if offset < total <= offset + limit:
                    rows.append(shortened(object_in(line)))
    except Gone:
        return {"total": 0, "offset": offset, "rows": []}
    return {"total": total, "offset": offset, "rows": rows}


def shortened(value: Any, *, left: int = DEEPEST) -> Any:
    """The same with long texts cut, each marked by a `…` at its end, and a `…` for what is nested too deeply."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}…"
    if not isinstance(value, Mapping | list):
        return value
    if left == 0:
        return "…"
    if isinstance(value, Mapping):
        return {name: shortened(one, left=left - 1) for name, one in value.items()}
    return [shortened(one, left=left - 1) for one in value]
