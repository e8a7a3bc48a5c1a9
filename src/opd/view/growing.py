"""JSON Lines files that somebody is still writing: the last whole line, and what came since the last look."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.records.files import object_in

_STEP_BYTES = 1 << 16
_LARGEST_LINE = 1 << 24  # of what is read for its last line; a longer one is passed over


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What was added to a file since it was read up to `start`, and where the next look begins."""

    values: tuple[dict[str, Any], ...]
    start: int  # bytes; where this look began
    end: int  # the start of a line
    passed_over: int = 0  # lines that are no JSON object


def news(path: Path, *, start: int = 0) -> News:
    """The objects of the whole lines from byte `start` on; a torn last line waits for the next look.

    A file that is shorter than `start` was cut back, by a run that was taken up again, and is read from its
    beginning. One that is not there has nothing.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            begin = start if start <= size else 0
            file.seek(begin)
            block = file.read()
    except FileNotFoundError:
        return News(values=(), start=0, end=0)
    whole = block.rfind(b"\n") + 1
    lines = [line for line in block[:whole].split(b"\n") if line.strip()]
    values = [value for line in lines if (value := object_in(line)) is not None]
    return News(values=tuple(values), start=begin, end=begin + whole, passed_over=len(lines) - len(values))


def last_line(path: Path) -> dict[str, Any] | None:
    """The object of the last whole line, read from the end of the file; None where there is none."""
    tail = b""
    try:
        with path.open("rb") as file:
            at = file.seek(0, 2)
            while at > 0 and len(tail) < _LARGEST_LINE:
                step = min(_STEP_BYTES, at)
                at = file.seek(at - step)
                tail = file.read(step) + tail
                if (value := _last(tail, from_start=at == 0)) is not None:
                    return value
    except FileNotFoundError:
        return None
    return None


def lines_in(path: Path) -> int:
    """How many line ends the file has; 0 for one that is not there."""
    count = 0
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                count += block.count(b"\n")
    except FileNotFoundError:
        return 0
    return count


def _last(tail: bytes, *, from_start: bool) -> dict[str, Any] | None:
    """The last object among the whole lines of a file's end, of which the first may have begun before it."""
    *lines, _ = tail.split(b"\n")  # what stands behind the last line end is torn
    found = (object_in(line) for line in reversed(lines if from_start else lines[1:]) if line.strip())
    return next((value for value in found if value is not None), None)
