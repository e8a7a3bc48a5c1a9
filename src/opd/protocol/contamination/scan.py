"""Whether texts stand in files: every file a block at a time, and inside of it whatever it wraps.

    source ─┬─ blocks ── sieve ── windows ── matches     its own bytes
            ├─ members, each looked at as a source is    an archive, a table, a database, a repository's object
            ├─ what base64 and hexadecimal digits say    the same
            ├─ what UTF-16 and UTF-32 say, as UTF-8      the same: what isn't whole already
            └─ what is taken apart over lines            deltas and columns, put together: what isn't whole already

A block passes the sieve in its fold alone; the few that share a run with a text are read again in small windows, in
every way there is. Nothing of a file is executed, unpickled or followed. What could not be read is said, with why.
"""

import errno
import mmap
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from opd.protocol.contamination.apart import joined
from opd.protocol.contamination.carriers import Data, Limits, Opener, Unread
from opd.protocol.contamination.encodings import encoded
from opd.protocol.contamination.folds import letters
from opd.protocol.contamination.grams import Sieve
from opd.protocol.contamination.matching import LITERAL, WHOLE, Form, Match, Window
from opd.protocol.contamination.needles import Needles
from opd.protocol.contamination.short import ShortTexts, longest_in_order
from opd.protocol.contamination.wide import widened

_BLOCK = 1 << 18  # bytes that pass the sieve at once: they and their fold stay in a core's cache
_STEP = 1 << 13
_WINDOW = 2 * _STEP  # a question in the widest wrapping, a dozen bytes for a letter, lies in one of them whole
_MOST_PLACES = 64  # of one question in one piece that are told: more would say no more
_STRICTEST = {form: number for number, form in enumerate(Form)}
_NEIGHBOURS = 2 * _WINDOW  # bytes within which a part of a question is that of the whole one beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something to look at: a file, or bytes."""

    name: str  # as it is told
    path: Path | None = None
    content: bytes = b""  # where there is no path


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A question in a place."""

    question: int
    id: str  # salted
    form: Form
    source: str
    inside: tuple[str, ...]  # the members and wrappings in which it lies, from the outermost
    offset: int  # bytes; of a short text, those of its block
    line: int | None  # from 1, in the source itself; None inside of a member
    run: int  # letters of the longest stretch that both hold
    paired: bool


@dataclass(slots=True, kw_only=True)
class Scan:
    """What came of it; the counts grow file by file."""

    hits: list[Hit] = field(default_factory=list)
    counts: Counter[Form] = field(default_factory=Counter)
    files: int = 0
    bytes: int = 0  # of the files themselves
    members: int = 0  # that were opened inside of them
    unread: list[Unread] = field(default_factory=list)
    in_order: int = 0  # the most short questions that follow each other somewhere as they do in the final
    ordered: tuple[str, ...] = ()  # the sources in which so many do


def scan(sources: Iterable[Source], needles: Needles, limits: Limits | None = None) -> Scan:
    """Where the texts stand. A source that can't be read is told of and doesn't stop the others."""
    found = Scan()
    with Opener(limits or Limits()) as opener:
        scanner = _Scanner(needles, opener, found)
        for source in sources:
            scanner.look_at(source)
    return found


class _Scanner:
    def __init__(self, needles: Needles, opener: Opener, found: Scan) -> None:
        self._needles = needles
        self._opener = opener
        self._found = found
        self._sieve = Sieve([needle.grams[needle.specific] for needle in needles.long])
        self._short = ShortTexts(needles.short)

    def look_at(self, source: Source) -> None:
        """A source with all that it wraps."""
        self._opener.begin(source.name)
        if source.path is None:
            self._file(source.name, source.content)
            return
        try:
            with _mapped(source.path) as data:
                self._file(source.name, data, path=source.path)
        except OSError as error:
            self._found.unread.append(Unread(name=source.name, why=error.strerror or str(error)))

    def _file(self, name: str, data: Data, *, path: Path | None = None) -> None:
        self._found.files += 1
        self._found.bytes += len(data)
        self._piece(name, data, (), path=path)

    def _piece(
        self,
        source: str,
        data: Data,
        inside: tuple[str, ...],
        *,
        path: Path | None = None,
        but: frozenset[int] = frozenset(),
    ) -> frozenset[int]:
        """The questions that stand in it whole, with `but`, which are told already."""
        whole = but | self._long_ones(source, data, inside, but=but)
        self._short_ones(source, data, inside)
        for opened in self._opener.members(data, inside, path=path):
            if isinstance(opened, Unread):
                self._found.unread.append(opened)
            else:
                self._found.members += 1
                self._piece(source, opened.data, (*inside, opened.name))
        if self._opener.may_go_deeper(inside):
            for kind, content in encoded(data):
                self._piece(source, content, (*inside, kind))
            for kind, content in widened(data):
                whole = self._piece(source, content, (*inside, kind), but=whole)
            parts = joined(data)
            self._long_ones(source, parts, (*inside, "parts"), but=whole)
            for kind, content in encoded(parts):
                self._piece(source, content, (*inside, "parts", kind))
        return whole

    def _long_ones(
        self, source: str, data: Data, inside: tuple[str, ...], *, but: frozenset[int] = frozenset()
    ) -> frozenset[int]:
        """The questions that stand there whole; `but` are told already."""
        whole = set()
        for question, match, offset in _settled(self._matches(data)):
            if question not in but:
                self._add(source, data, inside, question=question, form=match.form, offset=offset, match=match)
            if match.form in WHOLE:
                whole.add(question)
        return frozenset(whole)

    def _matches(self, data: Data) -> Iterator[tuple[int, Match]]:
        """Every match with its place in the file; those in two windows come twice."""
        seen: Counter[int] = Counter()
        for block in range(0, len(data), _BLOCK):
            if not self._sieve.found(letters(data[block : block + _BLOCK + _WINDOW])):
                continue
            for start in range(block, min(block + _BLOCK, len(data)), _STEP):
                window = data[start : start + _WINDOW]
                needles = [self._needles.long[number] for number in sorted(self._sieve.found(letters(window)))]
                if wanted := [needle for needle in needles if seen[needle.question] < _MOST_PLACES]:
                    for match in Window(window).matches(wanted):
                        seen[match.needle.question] += match.form in WHOLE  # a part must not hide a whole
                        yield start + match.start, match

    def _short_ones(self, source: str, data: Data, inside: tuple[str, ...]) -> None:
        order, seen = [], Counter[int]()
        for offset, needle, paired in self._short.found(data):
            order.append(needle.question)
            seen[needle.question] += 1
            if seen[needle.question] <= _MOST_PLACES:
                self._add(
                    source, data, inside, question=needle.question, form=Form.SHORT, offset=offset, paired=paired
                )
        longest = longest_in_order(order)
        if longest >= self._found.in_order:
            others = self._found.ordered if longest == self._found.in_order else ()
            self._found.in_order, self._found.ordered = longest, (*others, source) if longest else ()

    def _add(
        self,
        source: str,
        data: Data,
        inside: tuple[str, ...],
        *,
        question: int,
        form: Form,
        offset: int,
        match: Match | None = None,
        paired: bool = False,
    ) -> None:
        self._found.counts[form] += 1
        self._found.hits.append(
            Hit(
                question=question,
                id=self._needles.id(question),
                form=form,
                source=source,
                inside=inside,
                offset=offset,
                line=None if inside else data[:offset].count(b"\n") + 1,
                run=match.run if match else 0,
                paired=match.paired if match else paired,
            )
        )


def _settled(matches: Iterable[tuple[int, Match]]) -> Iterator[tuple[int, Match, int]]:
    """Each place once, by its strictest form: a question's other wordings and cut copies beside it say no more."""
    kept: dict[int, list[tuple[int, Match]]] = {}
    for offset, match in sorted(matches, key=lambda one: (_STRICTEST[one[1].form], one[0])):
        places = kept.setdefault(match.needle.question, [])
        if not any(_is_told(offset, match, *other) for other in places):
            places.append((offset, match))
            yield match.needle.question, match, offset


def _is_told(offset: int, match: Match, other_offset: int, other: Match) -> bool:
    if match.form is other.form and match.form in LITERAL:
        return offset == other_offset and match.needle is other.needle
    return abs(offset - other_offset) < _NEIGHBOURS


@contextmanager
def _mapped(path: Path) -> Iterator[Data]:
    """The bytes of a plain file; `OSError` for a link, and for what is no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        if status.st_size == 0:
            yield b""
            return
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            yield data
    finally:
        os.close(descriptor)
