"""Files of lines that grow while they are shown: what is new since the last look, whole lines only.

Nothing is mapped into memory: a file that is cut back while it is mapped ends the process that reads it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from opd.view.server.places import Place, Stamp, stamp_of

LONGEST_LINE = 64 << 20  # bytes; a response of a million tokens is 4 MiB
_BUFFER = 1 << 18  # bytes; a line that is longer than its buffer is put together from pieces
_TAIL = 256  # bytes before the end of what was read, by which it is known again


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How far a file was read, and what tells that it is still that file."""

    stamp: Stamp
    end: int  # bytes; the start of a line
    tail: bytes  # just before it


def opened(place: Place) -> BinaryIO:
    """The file, to be read from line to line; raises as `Place.open` does."""
    return place.open(buffering=_BUFFER)


def beginning(file: BinaryIO, before: Mark | None) -> int:
    """The byte at which to go on reading: where the last look ended, or 0 where the file is not what it was then.

    A run that is taken up again cuts its files back and writes other lines; the same length says nothing.
    """
    if before is None or not stamp_of(file).grew_from(before.stamp) or stamp_of(file).size < before.end:
        return 0
    file.seek(before.end - len(before.tail))
    return before.end if file.read(len(before.tail)) == before.tail else 0


def lines_from(file: BinaryIO, start: int) -> Iterator[tuple[int, bytes | None]]:
    """Each whole line from byte `start` on, with the byte at which it begins; None for one that is too long."""
    file.seek(start)
    at = start
    while line := file.readline(LONGEST_LINE):
        length, ended = len(line), line.endswith(b"\n")
        whole = line if ended else None
        while not ended and (more := file.readline(LONGEST_LINE)):
            length, ended = length + len(more), more.endswith(b"\n")
        if not ended:
            return  # torn: it is read when it has its end
        yield at, whole
        at += length


def mark_at(file: BinaryIO, end: int, stamp: Stamp) -> Mark:
    """How far the file was read; `stamp` is of before it was read."""
    file.seek(max(0, end - _TAIL))
    return Mark(stamp=stamp, end=end, tail=file.read(min(end, _TAIL)))


def object_in(line: bytes | None) -> dict[str, Any] | None:
    """The object of a line; None for a line that holds none, whatever it holds.

    Bytes that are no UTF-8 are read as U+FFFD: one of them in a response must hide neither it nor its neighbours.
    """
    if line is None:
        return None
    try:
        try:
            value = json.loads(line)
        except UnicodeDecodeError:
            value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
