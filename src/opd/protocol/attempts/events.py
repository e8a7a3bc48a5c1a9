"""`events.jsonl`: what happened to an attempt, in order, each line holding the digest of the line before it.

A line that was changed, taken out or put in breaks the chain from there on; a receipt holds the digest of the last
line at its time, so that an end that was cut off is missed as well.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import PositiveInt

from opd.protocol.clock import Instant, now
from opd.records.errors import AskedWrongly
from opd.records.files import canonical_json, digest
from opd.records.receipts import NO_HEAD, Head
from opd.records.settings import Settings, validated


class Event(Settings):
    """A line."""

    seq: PositiveInt
    """1, 2, 3 …"""
    at: Instant
    actor: str
    """Which part of the protocol, or who, wrote it: `explore`, `operator` …"""
    kind: str
    data: dict[str, Any]
    prev_sha256: str
    """Of the bytes of the line before, without their end; 64 zeros in the first."""
    own_sha256: str
    """Of this line without this key: damage of the last line, which no line follows, is seen by it."""


class Events:
    """The log of one attempt. One process writes it (see `lease`), any may read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = Lock()  # an exploration's desk has threads
        self._end: tuple[int, Head] | None = None  # the file's size and its head, after the last line of ours

    def add(self, kind: str, *, actor: str, at: Instant | None = None, **data: Any) -> Event:
        """The event, after it is on the disk. What a crash left of a last line is cut off first, and said so."""
        with self._writing:
            at = at or now()
            if torn := _cut_torn_line(self.path):
                self._append(kind="torn_line", actor=actor, at=at, data={"bytes": torn})
            return self._append(kind=kind, actor=actor, at=at, data=data)

    def head(self) -> Head:
        """The last whole line; raises `AskedWrongly` where the chain is broken."""
        if self._end and self.path.exists() and self.path.stat().st_size == self._end[0]:
            return self._end[1]
        *_, last = NO_HEAD, *(head for _, head in _chain(self.path))
        return last

    def read(self) -> tuple[Event, ...]:
        """Every event; raises `AskedWrongly` with the line at which the chain breaks."""
        return tuple(event for event, _ in _chain(self.path))

    def lines(self) -> Iterator[tuple[Event, Head]]:
        """Every event with the head that it makes; raises `AskedWrongly` at the line at which the chain breaks."""
        return _chain(self.path)

    def holds(self, head: Head) -> bool:
        """Whether the chain passes through this line."""
        return head == NO_HEAD or any(head == here for _, here in _chain(self.path))

    def _append(self, *, kind: str, actor: str, at: Instant, data: dict[str, Any]) -> Event:
        head = self.head()
        values = {"seq": head.seq + 1, "at": at.resolved(), "actor": actor, "kind": kind, "data": data}
        values["prev_sha256"] = head.sha256
        event = validated(Event, values | {"own_sha256": digest(values)}, source=str(self.path))
        line = canonical_json(event.resolved()).encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _write(descriptor, line + b"\n")
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        self._end = size, Head(seq=event.seq, sha256=hashlib.sha256(line).hexdigest())
        return event


def _write(descriptor: int, data: bytes) -> None:
    """All of it; raises `OSError`. A disk that is nearly full takes a part, without an error."""
    while data:
        data = data[os.write(descriptor, data) :]


def _chain(path: Path) -> Iterator[tuple[Event, Head]]:
    before = NO_HEAD
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for number, line in enumerate(lines[:-1], start=1):  # behind the last line end: nothing, or a torn line
        values = _parsed(line, number, path)
        event = validated(Event, values, source=f"{path}, line {number}")
        if (event.seq, event.prev_sha256) != (number, before.sha256):
            raise AskedWrongly(
                f"{path}, line {number}: the chain breaks here; it says seq {event.seq} after "
                f"{event.prev_sha256[:12]}…, and the line before it is {before.seq}, {before.sha256[:12]}…"
            )
        if event.own_sha256 != digest({key: value for key, value in values.items() if key != "own_sha256"}):
            raise AskedWrongly(
                f"{path}, line {number}: the chain breaks here; the line has another digest than it says"
            )
        before = Head(seq=number, sha256=hashlib.sha256(line).hexdigest())
        yield event, before


def _parsed(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise AskedWrongly(f"{path}, line {number} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise AskedWrongly(f"{path}, line {number} is not an object")
    return value


def _cut_torn_line(path: Path) -> int:
    """How many bytes were cut off."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return 0
    with file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read(1) in {b"", b"\n"}:
            return 0
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
        os.fsync(file.fileno())
        return size - whole
