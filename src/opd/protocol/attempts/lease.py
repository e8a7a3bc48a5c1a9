"""Who is at work on an attempt: one process at a time, and a reader who is not it can tell whether it lives.

The lock of the system keeps two apart. What a reader sees is `lease.json`: which process, of which start of the
machine, begun when, at which try, and when it was last heard. A number of a process alone proves nothing: numbers are
used again, and a dead process whose parent doesn't look keeps its own.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from opd.protocol.clock import Instant, now
from opd.protocol.supervision.processes import Life, life_of
from opd.records.errors import AskedWrongly
from opd.records.files import read_json, write_json
from opd.records.settings import Settings, validated

LEASE = "lease.json"
LOCK = "lease.lock"
BEAT_SECONDS = 5.0
_MISSED_BEATS = 3  # then its holder is taken for stuck


class Lease(Settings):
    """`lease.json`."""

    holder: Life
    host: str
    at: tuple[str, ...]
    """The tries that are being filled, relative to the attempt: while an exploration hands in, two."""
    since: Instant
    heard: Instant


class Holder:
    """The right to write, while it is held."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LEASE
        self.before = read_lease(folder)  # of a holder that died: until when it was heard, and at what it was
        self._since = now()
        self._at: tuple[str, ...] = ()
        self._last = 0.0
        self._writing = Lock()  # an exploration hands in from a thread of its desk
        self.beat(force=True)

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Inside, at this try too."""
        self._at = (*self._at, name)
        self.beat(force=True)
        try:
            yield
        finally:
            self._at = tuple(other for other in self._at if other != name)
            self.beat(force=True)

    def beat(self, *, force: bool = False) -> None:
        """Heard again; written every few seconds, however often it is called."""
        here = now()
        if not force and here.monotonic - self._last < BEAT_SECONDS:
            return
        self._last = here.monotonic
        me, host = life_of(os.getpid()), os.uname().nodename
        with self._writing:
            write_json(self._path, Lease(holder=me, host=host, at=self._at, since=self._since, heard=here).resolved())


@contextmanager
def held(folder: Path) -> Iterator[Holder]:
    """Inside, this process alone writes to the attempt; raises `AskedWrongly`, naming the other, when one does."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        lease = read_lease(folder)
        who = f"process {lease.holder.pid} on {lease.host} since {lease.since.utc}" if lease else "another process"
        raise AskedWrongly(f"{who} is at work on {folder}; wait for it") from None
    try:
        yield Holder(folder)
    finally:
        (folder / LEASE).unlink(missing_ok=True)
        os.close(descriptor)


def read_lease(folder: Path) -> Lease | None:
    """What the last holder wrote; None where nobody is at work, or what it wrote can't be read."""
    try:
        return validated(Lease, read_json(folder / LEASE), source=LEASE)
    except AskedWrongly:
        return None


def is_alive(lease: Lease | None, at: Instant) -> bool:
    """Whether the holder lives and was heard of not long ago; on another host, whether it was heard of.

    A host that was started anew since has none of its processes left, however lately one of them was heard of.
    """
    if lease is None or (lease.host == os.uname().nodename and not lease.holder.lives()):
        return False
    # either way: the calendar clocks of two hosts differ, and one that is ahead writes from the future
    return abs(lease.heard.seconds_until(at)) < _MISSED_BEATS * BEAT_SECONDS
