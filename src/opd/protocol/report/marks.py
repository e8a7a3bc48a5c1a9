"""Marks in a text: which characters belong to which claim. They are of Unicode's private use, and go before it is
written; what comes from a file of the attempt holds none (see `forms.visible`).

    OPEN of MIDDLE text CLOSE        nested as the claims are
"""

import re
from dataclasses import dataclass
from typing import Self

from opd.records.claims import Exempt, Span

IDENTIFIER = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*")
_OPEN, _MIDDLE, _CLOSE = "\ue000", "\ue001", "\ue002"


class Marked(str):
    """Text of a claim, with its marks."""

    __slots__ = ("claim",)
    claim: str

    def __new__(cls, text: str, *, claim: str) -> Self:
        """The text within the marks of this claim."""
        made = super().__new__(cls, f"{_OPEN}{claim}{_MIDDLE}{text}{_CLOSE}")
        made.claim = claim
        return made


def numbering(text: str) -> Marked:
    """The number of a heading, or the name of a unit."""
    return Marked(text, claim=Exempt.NUMBERING)


def path(text: str) -> Marked:
    """The name of a file or folder that is there."""
    return Marked(f"`{text}`", claim=Exempt.PATH)


def place(text: str) -> Marked:
    """The number of a line."""
    return Marked(text, claim=Exempt.NUMBERING)


def name(text: str) -> str:
    """An identifier: `data.shuffle`; of a stranger's key that is none, that it is none."""
    return Marked(f"`{text}`", claim=Exempt.NAME) if IDENTIFIER.fullmatch(text) else "a key that is no plain name"


def convention(text: str) -> Marked:
    """One of `linting.CONVENTIONS`."""
    return Marked(text, claim=Exempt.CONVENTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmarked:
    """A text as it is written, and what its characters belong to."""

    text: str
    spans: tuple[Span, ...]


def unmarked(marked: str) -> Unmarked:
    """The text without its marks; raises `ValueError` where they don't fit together."""
    text: list[str] = []
    length = 0
    begun: list[tuple[int, str]] = []
    spans: list[Span] = []
    at = 0
    while at < len(marked):
        character = marked[at]
        if character == _OPEN:
            middle = marked.index(_MIDDLE, at)
            begun.append((length, marked[at + 1 : middle]))
            at = middle
        elif character == _CLOSE:
            if not begun:
                raise ValueError(f"a mark is closed that was not begun, at {marked[max(0, at - 40) : at]!r}")
            start, of = begun.pop()
            spans.append(Span(start=start, end=length, of=of))
        else:
            text.append(character)
            length += 1
        at += 1
    if begun:
        raise ValueError(f"marks of {[of for _, of in begun]} are not closed")
    return Unmarked(text="".join(text), spans=tuple(sorted(spans, key=lambda span: (span.start, -span.end))))
