"""Two problems that look alike: are they the same question? Decided on marks, so signs and numbers count.

The texts are aligned mark by mark. What one of them has beyond the other at its very beginning or end, as
whole sentences or as mere words, is text that was added around a problem (`contains`, `part`). A difference
inside decides the rest: in words alone it is the same question in other words, in mathematics it is another
question on the same template.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache

from opd.train.corpus.symbols import Kind, Mark, marks

CONTEXT_MARKS = 4  # on either side of a difference, when it is shown

Opcode = tuple[str, int, int, int, int]


class Verdict(StrEnum):
    """What a training problem is to an evaluation problem."""

    SAME = "same"  # equal but for spelling
    CONTAINS = "contains"  # holds the whole evaluation problem, with text around it
    PART = "part"  # is a part of the evaluation problem, at its beginning or end
    REWORDED = "reworded"  # the same mathematics in other words
    CHANGED = "changed"  # other numbers, operators, variables or names: another question


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A verdict and what it rests on."""

    verdict: Verdict
    differences: tuple[str, ...]  # "… 4 - z ^ 2 [+ → -] 1 = 0 …", evaluation first, training second


def compare(training: str, evaluation: str) -> Comparison:
    """What the training problem is to the evaluation problem, with each place in which they differ."""
    ours, theirs = _aligned(training), _aligned(evaluation)
    matcher = SequenceMatcher(a=theirs.texts, b=ours.texts, autojunk=False)
    differing = [opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    inside, verdict = differing, Verdict.SAME
    for edge in (differing[:1], differing[-1:]):
        if edge and (found := _around(edge[0], ours=ours, theirs=theirs)) and edge[0] in inside:
            inside = [opcode for opcode in inside if opcode != edge[0]]
            # where each has something beyond the other, neither holds the other
            verdict = found if verdict in {Verdict.SAME, found} else Verdict.REWORDED
    if any(_is_mathematics(opcode, ours=ours, theirs=theirs) for opcode in inside):
        verdict = Verdict.CHANGED
    elif inside and verdict is Verdict.SAME:
        verdict = Verdict.REWORDED
    shown = tuple(_shown(opcode, ours=ours, theirs=theirs) for opcode in differing)
    return Comparison(verdict=verdict, differences=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """The marks that are compared, and the places among them at which a sentence begins."""

    compared: tuple[Mark, ...]
    begins: frozenset[int]

    @property
    def texts(self) -> list[str]:
        return [mark.text for mark in self.compared]


@cache
def _aligned(text: str) -> _Text:
    compared: list[Mark] = []
    begins = {0}
    for mark in marks(text):
        if mark.kind is Kind.STOP:
            begins.add(len(compared))
        else:
            compared.append(mark)
    return _Text(compared=tuple(compared), begins=frozenset(begins | {len(compared)}))


def _around(opcode: Opcode, *, ours: _Text, theirs: _Text) -> Verdict | None:
    """What an insertion or deletion at an end of the texts makes of the pair; None where it is none."""
    kind, i1, i2, j1, j2 = opcode
    outer, start, end = (ours, j1, j2) if kind == "insert" else (theirs, i1, i2)
    if kind == "replace" or (start > 0 and end < len(outer.compared)):
        return None
    border = end if start == 0 else start
    if border not in outer.begins and any(mark.kind is Kind.SYMBOL for mark in outer.compared[start:end]):
        return None  # `P(16)` and `P(16) + P(17)` are two questions
    return Verdict.CONTAINS if kind == "insert" else Verdict.PART


def _is_mathematics(opcode: Opcode, *, ours: _Text, theirs: _Text) -> bool:
    _, i1, i2, j1, j2 = opcode
    changed = (*theirs.compared[i1:i2], *ours.compared[j1:j2])
    return any(mark.kind is Kind.SYMBOL for mark in changed)


def _shown(opcode: Opcode, *, ours: _Text, theirs: _Text) -> str:
    _, i1, i2, j1, j2 = opcode
    before = _joined(theirs.texts[max(0, i1 - CONTEXT_MARKS) : i1])
    after = _joined(theirs.texts[i2 : i2 + CONTEXT_MARKS])
    change = f"[{_joined(theirs.texts[i1:i2])} → {_joined(ours.texts[j1:j2])}]"
    return " ".join(part for part in (before, change, after) if part)


def _joined(texts: Sequence[str]) -> str:
    return " ".join(texts)
