"""Claims: what a report says in numbers and in other people's words, each with the place that it comes from.

    claims.json ─ claims      c001, c002 …: a value, and where it stands; or a formula over others; or a judgement
                └ documents   of each text: its digest, and which characters of it belong to which claim

A number, a quotation or a comparing word that stands in a text and in no claim is a fault of the report.
"""

from enum import StrEnum
from typing import Literal

from pydantic import NonNegativeInt

from opd.records.settings import Settings


class Origin(StrEnum):
    """What a claim rests on."""

    COMPUTED = "computed"  # a value of a receipt, or arithmetic over such values
    QUOTED = "quoted"  # somebody's words, as they stand in a file
    JUDGEMENT = "judgement"  # a word that compares, with the ground that it stands on


class Form(StrEnum):
    """How a value is written; `opd.protocol.report.forms` says it exactly."""

    INTEGER = "integer"  # 1,920
    STEP = "step"  # 2106
    MEAN = "mean"  # 0.8145, 0.421354
    ERROR = "error"  # 0.051593
    ROUNDED = "rounded"  # 0.0319: four decimals
    NUMBER = "number"  # 41,701.93: at most two decimals
    WHOLE = "whole"  # 3,289 of 3288.61
    DURATION = "duration"  # 3 h 5 min
    PERCENT = "percent"  # 96.53 % of 0.96532
    MULTIPLE = "multiple"  # 21.8
    SIGNED_INTEGER = "signed_integer"  # +325
    SIGNED_MEAN = "signed_mean"  # +0.0200
    CHANCE = "chance"  # 0.032, or < 0.0001
    WORD = "word"  # three; 13
    NTH = "nth"  # 2nd
    CLOCK = "clock"  # 13:08 UTC of a moment
    MOMENT = "moment"  # 2026-01-31 13:08 UTC
    DIGEST = "digest"  # `dd85879e8800…`
    CODE = "code"  # `run.sh`
    TEXT = "text"  # on one line, with nothing that Markdown would act on
    QUOTE = "quote"  # a block of its own
    LISTING = "listing"  # a fenced block, character by character
    HIDDEN = "hidden"  # stands in no text: another claim rests on it


class Ground(StrEnum):
    """What makes it right to write a word that compares."""

    PAIRED_TEST = "paired_test"  # a test, paired by question, tells the two apart, in this direction
    MATCHED_CONTROL = "matched_control"  # such a test, of two runs that differ in one thing only
    ORDER = "order"  # which of two numbers is the larger, and nothing about what is behind them
    RULE = "rule"  # the task's rule chooses so
    NOT_ESTABLISHED = "not_established"  # the sentence says that it is not known, and why


class Claim(Settings):
    """One of them."""

    id: str
    """c001, c002 …: the order in which they were made."""
    origin: Origin
    value: bool | int | float | str | None
    form: Form
    text: str
    """The value in this form, as it stands in the texts; of a judgement the words that it lets stand."""
    file: str | None = None
    """Relative to the attempt; of what the report itself holds, relative to the report: `comparisons/01.json`. Null
    for one that is worked out from others."""
    pointer: str | None = None
    """RFC 6901, with a `#` behind it where the number of members is meant. Into JSON Lines `line:N` and then such a
    pointer into that line; into other text `line:N`, or
    `lines:N-M`; empty for the whole file."""
    sha256: str | None = None
    """Of the file."""
    formula: str | None = None
    """+ - * /, brackets and sqrt(…) over the ids of other claims: `c007 / c008`."""
    ground: Ground | None = None
    """Of a judgement."""
    because: str | None = None
    """Of a judgement, in a sentence."""
    rests_on: tuple[str, ...] = ()
    """Of a judgement: the claims that it follows from."""


class Exempt(StrEnum):
    """Digits that are no claim, each kind checked for what it may be."""

    NUMBERING = "numbering"  # of a heading, a unit
    PATH = "path"  # a file or folder that is there
    NAME = "name"  # an identifier in code, such as a key of a recipe
    CONVENTION = "convention"  # 95 % of a confidence interval, and a few like it


class Span(Settings):
    """Characters of a text, from `start` up to `end`, which belong to a claim or to an `Exempt`. Spans may nest."""

    start: NonNegativeInt
    end: NonNegativeInt
    of: str
    """A claim's id, or the word of an `Exempt`."""


class Document(Settings):
    """A text of the report."""

    sha256: str
    spans: tuple[Span, ...]
    """By their start, the outer one first."""


class Claims(Settings):
    """`claims.json`."""

    schema_version: Literal[1] = 1
    claims: tuple[Claim, ...]
    documents: dict[str, Document]
    """By file name: brief.md, analysis.md."""

    def by_id(self) -> dict[str, Claim]:
        """Each claim by its id."""
        return {claim.id: claim for claim in self.claims}
