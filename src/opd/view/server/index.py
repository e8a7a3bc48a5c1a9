"""Every run below the given folders, by an id that a request may name, and what changed since it was last asked.

An id is looked up here and nowhere decoded, so that none can be made up for another file. It is worked out from the
path, so that a link to a page still leads there tomorrow.

A look walks the folders, at most once a second however many ask, and less often where walking takes long. What was
parsed is parsed again only when one of the run's files has another size, time or number.
"""

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import RLock

from opd.view.runs.folders import Closed, Folder, Kind, State, find, state_of
from opd.view.server.answers import Gone
from opd.view.server.entries import Entry, read_entry, signature
from opd.view.server.metrics import Metrics
from opd.view.server.places import Place

_LEAST_SECONDS = 1.0  # between two looks
_REST = 10.0  # times as long as a look took, at least, before the next
_CHANGES_KEPT = 10_000
_HOLDING_RUNS = {"explore": ("runs", "proxy"), "formal": ("checkout",), "final": ("evaluation",)}
_UNSETTLED = {State.RUNNING, State.LEFT, State.WAITING}  # a process may begin or end without touching a file


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What came about since a version; `everything` where that is too long ago to tell."""

    version: int
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    everything: bool = False


@dataclass(slots=True, kw_only=True)
class _Parts:
    """The runs inside of an attempt, as they were found when its files were last so."""

    signature: object
    ids: tuple[str, ...] = field(default_factory=tuple)


class Index:
    """Finds, remembers and compares; every method may be called by several threads at once."""

    def __init__(self, roots: Sequence[Path], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.roots = tuple(dict.fromkeys(root.resolve() for root in roots))
        self.version = 0
        self.metrics = Metrics()
        self.closed: tuple[Closed, ...] = ()  # folders that the last look could not look into
        self._clock = clock
        self._next = -1.0
        self._lock = RLock()
        self._entries: dict[str, Entry] = {}
        self._inside: dict[str, Entry] = {}  # of attempts
        self._parts: dict[str, _Parts] = {}
        self._log: deque[tuple[int, str, str]] = deque(maxlen=_CHANGES_KEPT)

    def entries(self) -> list[Entry]:
        """Every run that is found without looking into attempts, what changed last first."""
        with self._lock:
            self._look()
            return sorted(self._entries.values(), key=lambda one: (-one.summary.changed, one.id))

    def entry(self, id_: str) -> Entry:
        """The run of this id; raises `Gone` for one that there is not, or not any more."""
        with self._lock:
            self._look()
            if id_ not in self._entries and id_ not in self._inside:
                for one in [one for one in self._entries.values() if one.summary.folder.kind is Kind.ATTEMPT]:
                    self.parts(one)
            found = self._entries.get(id_) or self._refreshed(id_)
        if found is None:
            raise Gone(f"there is no run {id_[:20]!a} here; it may have been moved or removed")
        return found

    def parts(self, attempt: Entry) -> list[Entry]:
        """The runs inside of an attempt: what its explorer trained, its proxies, its formal tries and its finals."""
        with self._lock:
            known = self._parts.get(attempt.id)
            if known is None or known.signature != attempt.signature:
                inside = find([*_holding_runs(attempt.place.path)])
                made = [self._made(folder, parent=attempt.id, before=self._inside) for folder in inside]
                for one in made:
                    self._inside[one.id] = one
                self._parts[attempt.id] = _Parts(signature=attempt.signature, ids=tuple(one.id for one in made))
            found = (self._refreshed(id_) for id_ in self._parts[attempt.id].ids)
            return [one for one in found if one is not None]

    def since(self, version: int) -> Changes:
        """What came about after this version."""
        with self._lock:
            self._look()
            forgotten = self._log[0][0] if len(self._log) == _CHANGES_KEPT else 0
            if not max(1, forgotten) <= version <= self.version:
                return Changes(version=self.version, everything=True)
            told: dict[str, list[str]] = {}
            for at, id_, what in self._log:
                if at > version:
                    told.setdefault(id_, []).append(what)

            def of(what: str) -> tuple[str, ...]:
                return tuple(id_ for id_, all_of_it in told.items() if _together(all_of_it) == what)

            return Changes(version=self.version, changed=of("changed"), added=of("added"), gone=of("gone"))

    def _look(self) -> None:
        began = self._clock()
        if began < self._next:
            return
        closed: list[Closed] = []
        found = {one.id: one for one in self._found(closed)}
        self.closed = tuple(closed)
        told = list(_differences(self._entries, found))
        if told or self.version == 0:
            self.version += 1
            self._log.extend((self.version, id_, what) for id_, what in told)
        self._entries = found
        for id_ in self._parts.keys() - found.keys():
            for part in self._parts.pop(id_).ids:
                self._inside.pop(part, None)
        ended = self._clock()
        self._next = ended + max(_LEAST_SECONDS, _REST * (ended - began))

    def _found(self, closed: list[Closed]) -> Iterator[Entry]:
        there = [root for root in self.roots if root.is_dir()]
        found = find(there, closed=closed.append)
        return (self._made(folder, parent=None, before=self._entries) for folder in found)

    def _made(self, folder: Folder, *, parent: str | None, before: dict[str, Entry]) -> Entry:
        place, root = self._placed(folder.path)
        id_ = hashlib.sha256(os.fsencode(folder.path)).hexdigest()[:12]
        known, now = before.get(id_), signature(folder)
        if known is not None and (known.signature, known.kind) == (now, folder.kind):
            if known.summary.state not in _UNSETTLED:
                return known
            if state_of(folder) is known.summary.state:
                return known
        return read_entry(
            folder, id_=id_, place=place, root=root, parent=parent, signature_=now, metrics=self.metrics
        )

    def _placed(self, path: Path) -> tuple[Place, int]:
        number, root = next((number, root) for number, root in enumerate(self.roots) if path.is_relative_to(root))
        return Place(root=root, inside=PurePosixPath(path.relative_to(root))), number

    def _refreshed(self, id_: str) -> Entry | None:
        """A run inside of an attempt as it is now; None for one that is not known, or has gone."""
        known = self._inside.get(id_)
        if known is None:
            return None
        if not known.place.path.is_dir():
            return None
        self._inside[id_] = self._made(known.summary.folder, parent=known.parent, before=self._inside)
        return self._inside[id_]


def _holding_runs(attempt: Path) -> Iterator[Path]:
    """The folders of an attempt in which runs may lie; an explorer's workspace, which may be any size, is none."""
    for stage, names in _HOLDING_RUNS.items():
        with suppress(OSError):  # a stage that can't be read, which the attempt's page says, hides no other
            for one in sorted((attempt / stage).iterdir()):
                there = [one / name for name in names if not one.is_symlink() and not (one / name).is_symlink()]
                yield from (path for path in there if path.is_dir())


def _differences(before: dict[str, Entry], after: dict[str, Entry]) -> Iterator[tuple[str, str]]:
    for id_ in before.keys() - after.keys():
        yield id_, "gone"
    for id_, one in after.items():
        if id_ not in before:
            yield id_, "added"
        elif before[id_] is not one:
            yield id_, "changed"


def _together(told: Sequence[str]) -> str:
    """What several changes of one run come to for somebody who saw none of them."""
    if told[-1] == "gone":
        return "gone"
    return "added" if told[0] == "added" else "changed"
