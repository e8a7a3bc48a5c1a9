"""What a data file holds, counted, before anything is trained on it."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from opd.records.files import sha256
from opd.train.corpus.duplicates import Group, Sameness, groups
from opd.train.corpus.problems import Corpus
from opd.train.corpus.texts import cjk_share

DOUBLED_BRACE = "{{"  # a template that was never filled in, or LaTeX that nests; the reader has to look (faults E38)
SHOWN = 10  # names of rows, where there may be thousands


class AnswerKind(StrEnum):
    """The form of an answer's text; nothing is computed."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FRACTION = "fraction"
    CHOICE = "choice"
    BOXED = "boxed"  # the whole solution, or an answer with its box: a grader wants what is inside
    EXPRESSION = "expression"
    BLANK = "blank"
    NONE = "none"


_ANSWERS = (
    (AnswerKind.BLANK, re.compile(r"\s*")),
    (AnswerKind.INTEGER, re.compile(r"\s*[-+]?\d+\s*")),
    (AnswerKind.DECIMAL, re.compile(r"\s*[-+]?\d*\.\d+\s*")),
    (AnswerKind.FRACTION, re.compile(r"\s*[-+]?(?:\d+\s*/\s*\d+|\\[dt]?frac\s*(?:\{\d+\}|\d)\s*(?:\{\d+\}|\d))\s*")),
    (AnswerKind.CHOICE, re.compile(r"\s*(?:\\text\{)?\(?[A-E]\)?\}?\s*")),
    (AnswerKind.BOXED, re.compile(r".*\\(?:boxed|fbox).*", re.DOTALL)),
    (AnswerKind.EXPRESSION, re.compile(r".*", re.DOTALL)),
)


def answer_kind(answer: str | None) -> AnswerKind:
    """The form of an answer."""
    if answer is None:
        return AnswerKind.NONE
    return next(kind for kind, form in _ANSWERS if form.fullmatch(answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Of the problems; in the unit that the name says."""

    least: int
    median: int
    mean: float
    percentile_95: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldUse:
    """One field of the rows."""

    name: str
    rows: int  # in which it is
    blank: int  # of those: null, or text of blanks, or an empty list
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Rows beyond the first of their kind."""

    rows: int
    disagreeing_groups: int
    examples: tuple[tuple[str, ...], ...]  # names of the rows of the first groups that disagree


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A data file in numbers."""

    file: str
    sha256: str
    rows: int
    read_from: Mapping[str, str | None]  # the fields with problem, answer and name
    fields: tuple[FieldUse, ...]
    blank_problems: int
    repeated: Mapping[Sameness, Repeated]
    answers: Mapping[AnswerKind, int]
    characters: Lengths
    tokens: Lengths | None  # of the problem alone, without a chat template; None when no tokenizer was given
    rows_with_cjk: int
    cjk_share: float  # of all characters that are not blank, mean over rows
    doubled_braces: tuple[str, ...]  # names of the rows
    shared_beginning: str  # of all problems: an instruction that was never taken off
    shared_end: str

    def record(self) -> dict[str, Any]:
        """As one JSON object."""
        return asdict(self)


def describe(corpus: Corpus, *, count_tokens: Callable[[str], int] | None = None) -> Description:
    """The file in numbers; token counts when there is something that counts them."""
    texts = [problem.text for problem in corpus.problems]
    shares = [cjk_share(text) for text in texts]
    return Description(
        file=corpus.path.name,
        sha256=sha256(corpus.path),
        rows=len(corpus.rows),
        read_from=corpus.fields.resolved(),
        fields=_field_uses(corpus.rows),
        blank_problems=sum(not text.strip() for text in texts),
        repeated={same: _repeated(groups(corpus.problems, same)) for same in Sameness},
        answers=dict(Counter(answer_kind(problem.answer) for problem in corpus.problems).most_common()),
        characters=lengths([len(text) for text in texts]),
        tokens=None if count_tokens is None else lengths([count_tokens(text) for text in texts]),
        rows_with_cjk=sum(share > 0 for share in shares),
        cjk_share=sum(shares) / len(shares),
        doubled_braces=tuple(problem.name for problem in corpus.problems if DOUBLED_BRACE in problem.text),
        shared_beginning=_shared_beginning(texts),
        shared_end=_shared_beginning([text[::-1] for text in texts])[::-1],
    )


def lengths(counts: Sequence[int]) -> Lengths:
    """Least, median, mean, 95th percentile and most; the percentiles are members, by the nearest rank from below."""
    ordered = sorted(counts)
    last = len(ordered) - 1
    return Lengths(
        least=ordered[0],
        median=ordered[last // 2],
        mean=sum(ordered) / len(ordered),
        percentile_95=ordered[last * 95 // 100],
        most=ordered[last],
    )


def _field_uses(rows: Sequence[Mapping[str, Any]]) -> tuple[FieldUse, ...]:
    names = dict.fromkeys(name for row in rows for name in row)
    return tuple(_field_use(name, [row[name] for row in rows if name in row]) for name in names)


def _field_use(name: str, values: Sequence[Any]) -> FieldUse:
    blank = sum(value is None or (isinstance(value, str | list) and not _content(value)) for value in values)
    types = sorted({type(value).__name__ for value in values if value is not None})
    return FieldUse(name=name, rows=len(values), blank=blank, types=tuple(types))


def _content(value: str | list[Any]) -> str | list[Any]:
    return value.strip() if isinstance(value, str) else value


def _repeated(found: Sequence[Group]) -> Repeated:
    disagreeing = [group for group in found if group.disagrees]
    return Repeated(
        rows=sum(len(group.problems) - 1 for group in found),
        disagreeing_groups=len(disagreeing),
        examples=tuple(tuple(problem.name for problem in group.problems) for group in disagreeing[:SHOWN]),
    )


def _shared_beginning(texts: Sequence[str]) -> str:
    """What all texts begin with; nothing for a single text, which would share all of itself."""
    if len(texts) < 2:
        return ""
    lowest, highest = min(texts), max(texts)
    return next((lowest[:end] for end in range(len(lowest), 0, -1) if highest.startswith(lowest[:end])), "")
