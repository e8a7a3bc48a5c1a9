"""Which files a program tree really opened: not what it was configured to read, but what it read.

opened-files.jsonl      one line for each file: path, what it is, when first, how often
opened.json             the same compared with what was declared: what is there that shouldn't be

Seen by the kernel's notices where it gives them to us (fanotify), else by strace, else not recorded, with the reason.
A file is known by its device and inode, so that another name, a mount or a link doesn't hide it.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from pydantic import NonNegativeInt

from opd.protocol.clock import utc
from opd.protocol.openings.sighting import Sighting
from opd.protocol.sandbox.layout import INSIDE, INSIDE_TARGET, readable
from opd.protocol.sandbox.view import python_mounts
from opd.records.settings import Settings
from opd.records.trees import written

OPENED_FILES = "opened-files.jsonl"
OPENED = "opened.json"
_MOST_FILES = 200_000  # distinct ones that are kept apart; a program can make names without end
_MOST_NAMED = 200
_KERNEL = ("/proc", "/sys", "/dev")


class How(StrEnum):
    """How it was seen."""

    FANOTIFY = "fanotify"
    STRACE = "strace"
    NOT_RECORDED = "not_recorded"


class Kind(StrEnum):
    """What a file is to the program."""

    INPUT = "input"
    CHECKOUT = "checkout"
    OUTPUT = "output"
    SCRATCH = "scratch"  # empty when the program began
    SYSTEM = "system"  # programs, libraries, the interpreter and its packages
    KERNEL = "kernel"  # /proc, /sys, /dev; seen by strace alone
    OTHER = "other"
    FORBIDDEN = "forbidden"  # what it must not read: exploration, other attempts, final questions, homes


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file or folder, with all below it; of two that both hold a file, the inner one says what it is."""

    kind: Kind
    role: str  # student, teacher, data, exploration …
    host: Path
    inside: PurePosixPath | None = None  # where the program sees it, if elsewhere


class Line(Settings):
    """A line of `opened-files.jsonl`."""

    path: str
    """As the program's own mounts name it; what is not UTF-8 stands as in a receipt."""
    kind: Kind
    role: str
    """Of its place; empty for one that has none."""
    first_utc: str
    count: NonNegativeInt
    """How often it was opened, at least: the kernel makes one notice of several that nobody has read yet."""
    executed: bool
    """At least once as a program."""
    by: str
    """Which program opened it first; empty where that isn't known."""
    certain: bool
    """False: who opened it ended too soon to be told from other processes of the machine."""
    device: NonNegativeInt | None
    inode: NonNegativeInt | None


class Opened(Settings):
    """`opened.json`: what was opened, compared with what was declared."""

    how: How
    because: str | None
    """Why not in a better way; null for the best."""
    files: dict[Kind, NonNegativeInt]
    """Distinct files that the tree opened for certain."""
    inputs: dict[str, NonNegativeInt]
    """Files opened of each declared input; 0 for one that was not read at all."""
    unexpected: tuple[str, ...]
    """What must not be read and was: each with what it is."""
    doubtful: tuple[str, ...]
    """The same, opened by this tree or by another process of the machine: that could not be told."""
    others: tuple[str, ...]
    """Files that belong to no declared place and to none that is forbidden; the first by name."""
    lost: NonNegativeInt
    """Notices that could not be read."""
    overflowed: bool
    """Whether the kernel dropped notices because nobody read them in time; then this is not all."""
    left_out: NonNegativeInt
    """Openings of files beyond the number of distinct ones that are kept."""
    not_covered: dict[str, str]
    """Mount points whose files are not seen, with the reason."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing that the tree opened on a covered file system can be missing."""
        return self.how is not How.NOT_RECORDED and not (self.lost or self.overflowed or self.left_out)


class Recording:
    """Openings as they are seen, put together by file."""

    def __init__(self, places: Sequence[Place], how: How, because: str | None) -> None:
        self.how, self.because = how, because
        self._lookup = Lookup(places)
        self._lines: dict[tuple[str, Kind, str, bool], Line] = {}
        self.left_out = 0
        self.lost = 0
        self.overflowed = False
        self.not_covered: dict[str, str] = {}
        self.wrapped: Callable[[Sequence[str]], Sequence[str]] = lambda argv: argv
        """The command to start instead of this one."""

    def take(self, sighting: Sighting) -> None:
        """One more."""
        place, path = self._lookup.of(sighting)
        kind, role = (place.kind, place.role) if place else (Kind.OTHER, "")
        key = (path, kind, role, sighting.certain)
        before = self._lines.get(key)
        if before is None and len(self._lines) >= _MOST_FILES:
            self.left_out += 1
            return
        self._lines[key] = Line(
            path=written(Path(path)),
            kind=kind,
            role=role,
            first_utc=before.first_utc if before else utc(sighting.realtime),
            count=before.count + 1 if before else 1,
            executed=sighting.executed or (before is not None and before.executed),
            by=before.by if before else sighting.by,
            certain=sighting.certain,
            device=before.device if before else sighting.device,
            inode=before.inode if before else sighting.inode,
        )

    def lines(self) -> list[Line]:
        """One for each file, by first opening."""
        return sorted(self._lines.values(), key=lambda line: (line.first_utc, line.path))

    def opened(self) -> Opened:
        """Compared with the declared places."""
        return compare(self.lines(), self._lookup.places, recording=self)


class Lookup:
    """Which place a file belongs to: by what it is where that is known, else by its path."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        self._by_path = sorted(
            ((str(path), place) for place in places for path in (place.inside, _resolved(place.host)) if path),
            key=lambda pair: len(pair[0]),
            reverse=True,
        )
        self._by_identity: dict[tuple[int, int], tuple[Place, str]] = {}
        for place in places:
            if place.kind is Kind.INPUT:
                shown = str(place.inside or _resolved(place.host))
                for identity, below in identities(place.host):
                    self._by_identity[identity] = place, f"{shown}/{below}" if below else shown

    def of(self, sighting: Sighting) -> tuple[Place | None, str]:
        """The place, and the path to say."""
        if sighting.device is not None and sighting.inode is not None:
            known = self._by_identity.get((sighting.device, sighting.inode))
            if known:
                return known
        path = sighting.path
        found = next((place for prefix, place in self._by_path if _is_below(path, prefix)), None)
        return found, path


def compare(lines: Iterable[Line], places: Sequence[Place], *, recording: Recording) -> Opened:
    """What was opened beside what was declared.

    A file without a place is looked for among the forbidden ones by what it is: a mount may show it anywhere.
    """
    lines = _named(list(lines), places)
    certain = [line for line in lines if line.certain]
    read = Counter(line.role for line in certain if line.kind is Kind.INPUT)
    forbidden = [(line, f"{line.path}: {line.role}") for line in lines if line.kind is Kind.FORBIDDEN]
    return Opened(
        how=recording.how,
        because=recording.because,
        files=dict(sorted(Counter(line.kind for line in certain).items())),
        inputs={place.role: read[place.role] for place in places if place.kind is Kind.INPUT},
        unexpected=tuple(sentence for line, sentence in forbidden if line.certain)[:_MOST_NAMED],
        doubtful=tuple(sentence for line, sentence in forbidden if not line.certain)[:_MOST_NAMED],
        others=tuple(sorted(line.path for line in certain if line.kind is Kind.OTHER))[:_MOST_NAMED],
        lost=recording.lost,
        overflowed=recording.overflowed,
        left_out=recording.left_out,
        not_covered=recording.not_covered,
    )


def system_places() -> tuple[Place, ...]:
    """What every program may read: the system, the interpreter with its packages, the sandbox's first process."""
    paths = [*map(Path, readable(gpu=True)), *(mount.source for mount in python_mounts() if mount.source)]
    first = Place(kind=Kind.SYSTEM, role="sandbox", host=INSIDE, inside=PurePosixPath(INSIDE_TARGET))
    own = (Path(sys.prefix), Path(sys.base_prefix), Path("/etc"))
    system = [
        Place(kind=Kind.SYSTEM, role="system", host=path, inside=PurePosixPath(path)) for path in (*paths, *own)
    ]
    kernel = [Place(kind=Kind.KERNEL, role="kernel", host=Path(path)) for path in _KERNEL]
    return (first, *system, *kernel)


def identities(place: Path, *, without: Collection[Path] = ()) -> Iterator[tuple[tuple[int, int], str]]:
    """Device and inode of each file of a place, of links what they lead to, with its path below it.

    Nothing of what isn't there, and nothing of the folders `without`.
    """
    if not place.is_dir():
        if place.exists():
            yield _identity(place.stat()), ""
        return
    for above, folders, names in os.walk(place):
        folders[:] = [name for name in folders if Path(above, name) not in without]
        for name in names:
            path = Path(above, name)
            if path.exists() and path not in without:
                yield _identity(path.stat()), path.relative_to(place).as_posix()


def _named(lines: list[Line], places: Sequence[Place]) -> list[Line]:
    """Files without a place that are forbidden ones by another name are those."""
    sought = {(line.device, line.inode) for line in lines if line.kind is Kind.OTHER and line.inode is not None}
    roles: dict[tuple[int | None, int | None], str] = {}
    allowed = {place.host for place in places if place.kind is not Kind.FORBIDDEN}
    for place in places if sought else ():
        if place.kind is Kind.FORBIDDEN:
            for identity, below in identities(place.host, without=allowed):
                if identity in sought:
                    roles.setdefault(identity, f"{place.role}, which is {place.host / below}")
    return [
        line.model_copy(update={"kind": Kind.FORBIDDEN, "role": roles[line.device, line.inode]})
        if line.kind is Kind.OTHER and (line.device, line.inode) in roles
        else line
        for line in lines
    ]


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _resolved(path: Path) -> PurePosixPath:
    return PurePosixPath(path.resolve())


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")
