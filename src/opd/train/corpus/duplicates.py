"""Rows that ask the same question again: found, counted, and dropped but for the first."""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from opd.records.settings import Settings
from opd.train.corpus.problems import Fields, Problem
from opd.train.corpus.symbols import symbol_form
from opd.train.corpus.texts import canonical

ALLOWED_SHARE = 0.01  # of the rows; more than that is an accident of the file's making, not chance


class Sameness(StrEnum):
    """When two problems count as one."""

    EXACT = "exact"  # the same text
    SYMBOLS = "symbols"  # the same words, numbers and operators; only spelling and punctuation may differ
    WORDS = "words"  # the same letters and digits; signs and brackets may differ, and so may the question


FORMS: Mapping[Sameness, Callable[[str], str]] = {
    Sameness.EXACT: str,
    Sameness.SYMBOLS: symbol_form,
    Sameness.WORDS: canonical,
}


class Deduplication(Settings):
    """How duplicates are dropped."""

    same: Sameness = Sameness.SYMBOLS
    """exact: the same text; symbols: spelling may differ; words: signs may differ too, as in public projections."""
    fields: Fields = Fields()
    """Where the file keeps problem, answer and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows with the same problem, in the order of the file; at least two."""

    problems: tuple[Problem, ...]

    @property
    def answers(self) -> tuple[str, ...]:
        """The different answers, in order of first appearance, blanks at their ends aside."""
        return tuple(dict.fromkeys(problem.answer.strip() for problem in self.problems if problem.answer is not None))

    @property
    def disagrees(self) -> bool:
        """Whether the rows have different answers."""
        return len(self.answers) > 1


def groups(problems: Iterable[Problem], same: Sameness) -> list[Group]:
    """The problems that occur more than once, by first appearance."""
    by_form: defaultdict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        by_form[FORMS[same](problem.text)].append(problem)
    return [Group(problems=tuple(alike)) for alike in by_form.values() if len(alike) > 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A row that was dropped, and the earlier row that stays for it."""

    dropped: Problem
    first: Problem

    def record(self, same: Sameness) -> dict[str, object]:
        """As one line of the list of removed rows."""
        agree = (self.dropped.answer or "").strip() == (self.first.answer or "").strip()
        return {
            "row": self.dropped.row,
            "id": self.dropped.name,
            "reason": f"duplicate ({same.value})",
            "kept_row": self.first.row,
            "kept_id": self.first.name,
            "answer": self.dropped.answer,
            "kept_answer": self.first.answer,
            "answers_agree": agree,
        }


def repeats(problems: Iterable[Problem], same: Sameness) -> list[Repeat]:
    """Every row but the first of each group, in the order of the file."""
    found = [
        Repeat(dropped=later, first=one.problems[0]) for one in groups(problems, same) for later in one.problems[1:]
    ]
    return sorted(found, key=lambda repeat: repeat.dropped.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """How many of a run's problems ask, but for spelling, what an earlier one asks."""

    problems: int
    repeated: int
    example: tuple[int, int] | None  # places of the first that repeats, and of what it repeats

    @property
    def share(self) -> float:
        """Of the problems; 0 of none."""
        return self.repeated / self.problems if self.problems else 0.0

    @property
    def accidental(self) -> bool:
        """Whether they are too many for chance (faults E62)."""
        return self.share > ALLOWED_SHARE

    def __str__(self) -> str:
        """In words, without the example."""
        share = f"{self.repeated:,} of {self.problems:,} problems ({self.share:.1%})"
        return f"{share} repeat an earlier one but for spelling"


def repetition(problems: Sequence[str]) -> Repetition:
    """How often these problems repeat themselves; the form is the one that `opd data dedupe` goes by.

    The form keeps every digit in its order, so that only texts with the same digits are brought into it.
    """
    first: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for place, text in enumerate(problems):
        if first.setdefault(text, place) != place:
            found.append((place, first[text]))
    by_digits: defaultdict[str, list[int]] = defaultdict(list)
    for text, place in first.items():
        by_digits[digits(text)].append(place)
    for places in by_digits.values():
        forms: dict[str, int] = {}
        for place in places if len(places) > 1 else ():
            earlier = forms.setdefault(symbol_form(problems[place]), place)
            if earlier != place:
                found.append((place, earlier))
    return Repetition(problems=len(problems), repeated=len(found), example=min(found, default=None))


def digits(text: str) -> str:
    """The digits of a text, in order; texts of one symbol form have the same."""
    return "".join(filter(str.isdigit, unicodedata.normalize("NFKC", text)))
