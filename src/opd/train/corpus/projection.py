"""The part of a training file that shares nothing with an evaluation set, by a published rule.

    all rows ─► first occurrence ─► no shared run, none holds the other ─► the reserve ─► train
                └ duplicate         └ overlap                             └ reserved

The rule looks at words alone (`texts.words`), so it is kept for what it was made for: to reproduce a file that
others have used, row by row. It removes mostly stock phrases and lets the same problem with another sign pass
as equal; `overlap.py` is the better judge.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import NonNegativeInt, PositiveInt

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings, read
from opd.train.corpus.problems import Fields, Problem
from opd.train.corpus.texts import Words, holds, runs, words


class ProjectionRule(Settings):
    """Everything that decides where a row goes, besides the texts themselves."""

    protocol: str
    """Salt of the draw of the reserve, and the name of the rule."""
    run_words: PositiveInt = 8
    """A row that shares a run of so many words with an evaluation problem is dropped."""
    reserved_rows: NonNegativeInt = 80
    """So many of the remaining rows, those with the smallest digests, are held back."""
    instructions_before: tuple[str, ...] = ()
    """Texts that wrap a problem and are taken off its beginning before anything is compared."""
    instructions_after: tuple[str, ...] = ()
    """Texts that are taken off its end."""
    fields: Fields = Fields()
    """Where the training file keeps problem, answer and name."""


_DAPO_BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem."
)
_DAPO_AFTER = 'Remember to put your answer on its own line after "Answer:".'

RULES = {
    rule.protocol: rule
    for rule in (
        ProjectionRule(
            protocol="opd-dapo-aime-zero-overlap-v2",
            instructions_before=(_DAPO_BEFORE,),
            instructions_after=(_DAPO_AFTER,),
        ),
    )
}


def find_rule(name: str) -> ProjectionRule:
    """A rule that ships, by its protocol, or that of a .toml or .json file; else `AskedWrongly`."""
    if name.endswith((".toml", ".json")):
        return read(ProjectionRule, Path(name).expanduser())
    if name not in RULES:
        raise AskedWrongly(f"no projection rule {name!r}: give a .toml file, or one of {', '.join(RULES)}")
    return RULES[name]


class Fate(StrEnum):
    """Where a row goes."""

    TRAIN = "train"
    RESERVED = "reserved"
    OVERLAP = "overlap"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A row, where it goes, and why."""

    problem: Problem
    fate: Fate
    reason: str  # empty for a row to train on
    other: str | None  # the earlier row, or the evaluation problem

    def record(self) -> dict[str, object]:
        """As one line of the list of removed rows."""
        return {
            "row": self.problem.row,
            "id": self.problem.name,
            "fate": self.fate.value,
            "reason": self.reason,
            "other": self.other,
        }


def bare(text: str, rule: ProjectionRule) -> str:
    """The problem without the instructions that the rule knows, blanks around it removed."""
    problem = text.strip()
    for instruction in rule.instructions_before:
        problem = problem.removeprefix(instruction).strip()
    for instruction in rule.instructions_after:
        problem = problem.removesuffix(instruction).strip()
    return problem


def project(training: Sequence[Problem], evaluation: Sequence[Problem], rule: ProjectionRule) -> list[Placed]:
    """Where each row goes, in the order of the file."""
    forms = [words(bare(problem.text, rule)) for problem in training]
    banned = _Banned(evaluation, rule)
    first: dict[Words, Problem] = {}
    placed: list[Placed] = []
    for problem, form in zip(training, forms, strict=True):
        earlier = first.setdefault(form, problem)
        if earlier is not problem:
            placed.append(_placed(problem, Fate.DUPLICATE, "the words of an earlier row", earlier.name))
        elif hit := banned.hit(form):
            placed.append(_placed(problem, Fate.OVERLAP, *hit))
        else:
            placed.append(_placed(problem, Fate.TRAIN, "", None))
    reserve = _reserve(placed, forms, rule)
    return [
        _placed(one.problem, Fate.RESERVED, "one of the smallest digests", None) if place in reserve else one
        for place, one in enumerate(placed)
    ]


def _placed(problem: Problem, fate: Fate, reason: str, other: str | None) -> Placed:
    return Placed(problem=problem, fate=fate, reason=reason, other=other)


def _reserve(placed: Sequence[Placed], forms: Sequence[Words], rule: ProjectionRule) -> set[int]:
    """Places of the rows whose salted digest is smallest: a draw by the texts alone, not their order."""

    def drawn(place: int) -> str:
        return hashlib.sha256(f"{rule.protocol}\0{' '.join(forms[place])}".encode()).hexdigest()

    left = [place for place, one in enumerate(placed) if one.fate is Fate.TRAIN]
    return set(sorted(left, key=drawn)[: rule.reserved_rows])


class _Banned:
    """The evaluation problems' words, ready to be looked for."""

    def __init__(self, evaluation: Sequence[Problem], rule: ProjectionRule) -> None:
        self._run_words = rule.run_words
        self._forms = [(words(bare(problem.text, rule)), problem.name) for problem in evaluation]
        self._runs = {run: name for form, name in reversed(self._forms) for run in runs(form, rule.run_words)}

    def hit(self, form: Words) -> tuple[str, str] | None:
        """Why a row with these words is dropped, and for which evaluation problem; None when it is not."""
        for theirs, name in self._forms:
            if form == theirs:
                return "the words of an evaluation problem", name
            if holds(form, theirs):
                return "contains an evaluation problem", name
            if holds(theirs, form):
                return "is contained in an evaluation problem", name
        shared = runs(form, self._run_words) & self._runs.keys()
        if not shared:
            return None
        phrase = min(shared)
        return f'shares {self._run_words} words: "{" ".join(phrase)}"', self._runs[phrase]
