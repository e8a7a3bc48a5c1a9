"""What a window of a file holds of the texts that are looked for, by the strictest form that fits.

exact       letter for letter
escaped_N   as JSON writes it, N times one inside the other
whitespace  letter for letter, but for blanks and ends of lines
folded      the same letters, digits and signs: decoded, and without the marks at the beginnings of lines
letters     the same letters and digits, and another sign somewhere: a neighbour of the question, maybe itself
near        stretches of at least forty letters, sixty in all, forty of them no phrase's: a part, or a rewording
short       a text of too few letters to be told by them, mark for mark
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from opd.protocol.contamination.folds import decoded, readings, without_signs
from opd.protocol.contamination.grams import GRAM, Grams, grams
from opd.protocol.contamination.needles import Needle

SHINGLE = 40  # letters of one stretch
LEAST_SHARED = 60  # letters of all stretches together
_BEFORE, _BEHIND = 200, 600  # bytes around a question in which its answer makes a pair


class Form(StrEnum):
    """How a text was found, the strictest first."""

    EXACT = "exact"
    ESCAPED_1 = "escaped_1"
    ESCAPED_2 = "escaped_2"
    ESCAPED_3 = "escaped_3"
    WHITESPACE = "whitespace"
    FOLDED = "folded"
    LETTERS = "letters"
    NEAR = "near"
    SHORT = "short"


ESCAPED = (Form.ESCAPED_1, Form.ESCAPED_2, Form.ESCAPED_3)
LITERAL = frozenset({Form.EXACT, *ESCAPED, Form.WHITESPACE})
WHOLE = LITERAL | {Form.FOLDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One place in a window."""

    needle: Needle
    form: Form
    start: int  # byte of the window at which it begins
    run: int  # letters of the longest stretch that both hold
    paired: bool  # the question's answer stands beside it


class Window:
    """A piece of a file, some kilobytes long, and what it says to each way of reading."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.squeezed = b" ".join(data.split())
        self.readings = readings(data)
        self.letters = tuple(without_signs(marks) for marks in self.readings)
        self.grams = tuple(grams(letters) for letters in self.letters)

    def matches(self, needles: Iterable[Needle]) -> Iterator[Match]:
        """Of each text the places of its literal forms; where there are none, one place of the strictest other."""
        for needle in needles:
            found = list(self._literal(needle))
            yield from found or self._other(needle)

    def _literal(self, needle: Needle) -> Iterator[Match]:
        for form, texts in ((Form.EXACT, (needle.exact,)), *zip(ESCAPED, needle.escaped, strict=True)):
            for text in texts:
                for start in _places(self.data, text):
                    yield self._match(needle, form, start, start + len(text), len(needle.letters))
        if needle.squeezed in self.squeezed and needle.exact not in self.data:
            yield from self._narrowed(
                needle, Form.WHITESPACE, lambda data: needle.squeezed in b" ".join(data.split())
            )

    def _other(self, needle: Needle) -> Iterator[Match]:
        if any(needle.marks in marks for marks in self.readings):
            yield from self._narrowed(needle, Form.FOLDED, lambda data: _reads(data, needle.marks))
        elif any(needle.letters in letters for letters in self.letters):
            yield from self._narrowed(needle, Form.LETTERS, lambda data: _holds(data, needle.letters))
        elif stretches := self._shared(needle):
            longest = max(stretches, key=len)
            yield from self._narrowed(needle, Form.NEAR, lambda data: _holds(data, longest), run=len(longest))

    def _shared(self, needle: Needle) -> tuple[bytes, ...]:
        """The stretches by the reading that has any."""
        readings = (shared(needle, *one) for one in zip(self.letters, self.grams, strict=True))
        return next((stretches for stretches in readings if stretches), ())

    def _narrowed(
        self, needle: Needle, form: Form, holds: Callable[[bytes], bool], *, run: int | None = None
    ) -> Iterator[Match]:
        """The place, by halving: the last byte from which, and the first up to which, the window still holds it."""
        start = _last(len(self.data), lambda at: holds(self.data[at:]))
        rest = self.data[start:]
        end = start + len(rest) - _last(len(rest), lambda at: holds(rest[: len(rest) - at]))
        yield self._match(needle, form, start, end, len(needle.letters) if run is None else run)

    def _match(self, needle: Needle, form: Form, start: int, end: int, run: int) -> Match:
        around = (self.data[max(0, start - _BEFORE) : start], self.data[end : end + _BEHIND])
        paired = bool(needle.answer) and any(_answers(needle.answer, text) for text in around)
        return Match(needle=needle, form=form, start=start, run=run, paired=paired)


def shared(needle: Needle, letters: bytes, runs: Grams) -> tuple[bytes, ...]:
    """The stretches of a needle that a text holds, where they make it near: long enough, and not of phrases alone.

    `runs` are the text's grams: where enough of them in a row are the needle's, a stretch may begin.
    """
    own = needle.letters
    known = {own[at : at + SHINGLE]: at for at in range(len(own) - SHINGLE, -1, -1)}
    found: dict[int, bytes] = {}  # by their place in the needle
    covered = np.zeros(len(own), np.bool_)
    for first, end in _rows(np.isin(runs, needle.grams), SHINGLE - GRAM + 1):
        at = first
        while at <= end - SHINGLE + GRAM - 1:
            start = known.get(letters[at : at + SHINGLE])
            length = 0 if start is None else _common(own[start:], letters[at:])
            if start is not None and length > len(found.get(start, b"")):
                found[start] = own[start : start + length]
                covered[start : start + length] = True
            at += max(1, length - SHINGLE + 1)
    is_near = covered.sum() >= LEAST_SHARED and (covered & needle.own).sum() >= SHINGLE
    return tuple(found.values()) if is_near else ()


def _rows(marked: NDArray[np.bool_], least: int) -> list[tuple[int, int]]:
    """Where so many marks stand in a row: from where to where."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], marked, [False])).astype(np.int8)))
    rows = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return [(start, end) for start, end in rows if end - start >= least]


def _common(one: bytes, other: bytes) -> int:
    """How many letters two texts begin with together."""
    most = min(len(one), len(other))
    return _last(most, lambda length: one[:length] == other[:length])


def _last(most: int, holds: Callable[[int], bool]) -> int:
    """The greatest number from 0 to `most` for which it holds, where it holds for 0 and up to that number."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _places(data: bytes, text: bytes) -> Iterator[int]:
    at = data.find(text)
    while at >= 0:
        yield at
        at = data.find(text, at + 1)


def _reads(data: bytes, marks: bytes) -> bool:
    return any(marks in reading for reading in readings(data))


def _holds(data: bytes, letters: bytes) -> bool:
    return any(letters in without_signs(reading) for reading in readings(data))


def _answers(answer: str, text: bytes) -> bool:
    """Whether the answer stands in a text, and not as a part of a longer number or word."""
    pattern = rb"(?<![\w.])" + re.escape(answer.encode()) + rb"(?!\w|\.\d)"
    return re.search(pattern, decoded(text)) is not None
