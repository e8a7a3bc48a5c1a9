"""A harness's own record: read line by line, whatever is in it, with the time at which each line arrived.

trajectory/native.jsonl   what the harness printed, byte for byte
trajectory/times.jsonl    {"bytes": 1042, "utc": …}: how long the record was, looked at about once a second

A harness says when it did something, or doesn't; when its words arrived here is known by our own clock, as exactly as
we looked. A line that is damaged is named with its number and passed over; a line without end fills no memory.
"""

import json
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from opd.protocol.clock import now, utc
from opd.records.files import note_lines

LONGEST_LINE = 16 << 20  # bytes; a longer one is no event of a harness
DEEPEST = 100  # values in values; what is nested deeper can't be written again by every reader's JSON
_SHOWN = 60  # characters of a damaged line that its note quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event of a record."""

    number: int  # 1, 2, 3 …
    end: int  # bytes of the record up to its end
    event: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A line that is no event."""

    number: int
    why: str


class Arrivals:
    """Writes down how long the record has become."""

    def __init__(self, record: Path, log: Path) -> None:
        self._record = record
        self._log = log
        self._bytes = 0

    def tick(self) -> None:
        """A line, where something has arrived since the last tick."""
        size = self._record.stat().st_size if self._record.exists() else 0
        if size != self._bytes:
            note_lines(self._log, [{"bytes": size, "utc": now().utc}])
            self._bytes = size


class Times:
    """When which part of a record had arrived."""

    def __init__(self, log: Path) -> None:
        looks = [one.event for one in lines(log) if isinstance(one, Line)] if log.exists() else []
        known = [(one["bytes"], one["utc"]) for one in looks if _is_look(one)]
        self._bytes = [size for size, _ in known]
        self._utc = [utc for _, utc in known]

    def at(self, end: int) -> str | None:
        """UTC of the first look that found the record this long; None where nobody looked again."""
        place = bisect_left(self._bytes, end)
        return self._utc[place] if place < len(self._utc) else None


def lines(record: Path, *, longest: int = LONGEST_LINE) -> Iterator[Line | Damaged]:
    """The events of a record of JSON Lines, in order, and each line that is none; blank lines are passed over."""
    with record.open("rb") as file:
        number = 0
        while held := file.readline(longest):
            number += 1
            if len(held) == longest and not held.endswith(b"\n"):
                yield Damaged(number=number, why=f"has more than {longest:,} bytes")
                while (rest := file.readline(longest)) and not rest.endswith(b"\n"):
                    pass
            elif held.strip():
                yield _parsed(held, number=number, end=file.tell())


def moment(value: Any) -> str | None:
    """A moment of ISO 8601 with its zone, in UTC to the millisecond; None for anything else."""
    try:
        at = datetime.fromisoformat(value)
        return utc(at.timestamp()) if at.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None


def _parsed(held: bytes, *, number: int, end: int) -> Line | Damaged:
    text = held.decode("utf-8", "replace")
    try:
        event = json.loads(text, parse_constant=_finite, parse_float=_finite)
        if "\\ud" in text or "\\uD" in text:  # half a surrogate pair, which no file of ours can hold
            event = json.loads(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return Damaged(number=number, why=f"is no JSON: {text.strip()[:_SHOWN]!r}")
    if not isinstance(event, dict):
        return Damaged(number=number, why=f"holds a {type(event).__name__}, not an event")
    if text.count("{") + text.count("[") > DEEPEST and _is_deep(event):
        return Damaged(number=number, why=f"nests values more than {DEEPEST} deep")
    return Line(number=number, end=end, event=event)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number of JSON")
    return value


def _is_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level:
        depth += 1
        inner = [one for one in level if isinstance(one, dict | list)]
        level = [item for one in inner for item in (one.values() if isinstance(one, dict) else one)]
    return depth > DEEPEST


def _is_look(event: dict[str, Any]) -> bool:
    return isinstance(event.get("bytes"), int) and moment(event.get("utc")) is not None
