"""Openings recorded by the way that works here: the kernel's notices, else strace, else none, with the reason."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from opd.protocol.openings import strace
from opd.protocol.openings.fanotify import NotAllowed, Notices, Watcher
from opd.protocol.openings.opened import OPENED, OPENED_FILES, How, Kind, Place, Recording
from opd.records.errors import AskedWrongly
from opd.records.files import append_lines, write_json

_HAS_TO_BE_SEEN = frozenset({Kind.INPUT, Kind.CHECKOUT, Kind.FORBIDDEN})


@contextmanager
def recording(folder: Path, places: Sequence[Place], *, mark: str, how: How | None = None) -> Iterator[Recording]:
    """Inside, what the tree with this mark opens is seen; at the end both files are in the folder.

    Takes the best way that works here, or the one given; raises `AskedWrongly` where that one doesn't. What is
    started has to be `wrapped`.
    """
    with _by_a_way(places, mark=mark, how=how) as found:
        yield found
    append_lines(folder / OPENED_FILES, [line.resolved() for line in found.lines()])
    write_json(folder / OPENED, found.opened().resolved())


@contextmanager
def _by_a_way(places: Sequence[Place], *, mark: str, how: How | None) -> Iterator[Recording]:
    refused = []
    if how in {None, How.FANOTIFY}:
        notices = _notices(places)
        if isinstance(notices, Notices):
            with _by_notices(notices, places, mark) as found:
                yield found
            return
        refused.append(notices)
    if how in {None, How.STRACE}:
        lacking = strace.lacks()
        if lacking is None:
            with _by_strace(places, "; ".join(refused) or None) as found:
                yield found
            return
        refused.append(lacking)
    if how not in {None, How.NOT_RECORDED}:
        raise AskedWrongly(f"opened files can't be recorded by {how} here: {'; '.join(refused)}")
    yield Recording(places, How.NOT_RECORDED, "; ".join(refused) or "not asked for")


def _notices(places: Sequence[Place]) -> Notices | str:
    """The kernel's notices of all that matters, or why there are none."""
    try:
        notices = Notices()
    except NotAllowed as error:
        return str(error.strerror)
    for place in places:
        if place.kind in _HAS_TO_BE_SEEN and place.host.exists() and not notices.covers(place.host):
            notices.close()
            reasons = "; ".join(f"{point}: {reason}" for point, reason in notices.without.items())
            return f"fanotify does not cover {place.host} ({reasons or 'not mounted here'})"
    return notices


@contextmanager
def _by_notices(notices: Notices, places: Sequence[Place], mark: str) -> Iterator[Recording]:
    found = Recording(places, How.FANOTIFY, None)
    watcher = Watcher(notices, mark=mark, seen=found.take)
    try:
        with watcher.watching():
            yield found
    finally:
        notices.close()
    found.lost, found.overflowed = watcher.lost, watcher.overflowed
    found.not_covered = dict(notices.without)


@contextmanager
def _by_strace(places: Sequence[Place], because: str | None) -> Iterator[Recording]:
    found = Recording(places, How.STRACE, because)
    with tempfile.TemporaryDirectory(prefix="opd-strace-") as folder:
        log = Path(folder) / "openings"
        found.wrapped = lambda argv: strace.wrapped(argv, log)
        yield found
        for sighting in strace.sightings(log) if log.exists() else ():
            if sighting is None:
                found.lost += 1
            else:
                found.take(sighting)
