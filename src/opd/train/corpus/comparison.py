"""Two problems that look alike: are they the same question? Decided on marks, so signs and numbers count.

The texts are aligned mark by mark. What one of them has beyond the other at its very beginning or end, as
whole sentences or as mere words, is text that was added around a problem (`contains`, `part`). A difference
inside decides the rest: in prose alone it is the same question in other words; in mathematics, or in a word
such as "odd", it is another question on the same template.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache

from opd.train.corpus.symbols import Kind, Mark, formulas, marks
from opd.train.corpus.texts import cjk_share

FOREIGN_SHARE = 0.1  # of CJK characters: formulas are in every script, prose is not
_FEW_LETTERS = 20
CONTEXT_MARKS = 4  # on either side of a difference, when it is shown

Opcode = tuple[str, int, int, int, int]


class Verdict(StrEnum):
    """What a training problem is to an evaluation problem."""

    SAME = "same"  # equal but for spelling
    CONTAINS = "contains"  # holds the whole evaluation problem, with text around it
    PART = "part"  # is a part of the evaluation problem, at its beginning or end
    REWORDED = "reworded"  # the same mathematics in other words
    TRANSLATED = "translated"  # the same mathematics in another script
    CHANGED = "changed"  # other numbers, operators, names, or a word that decides: another question


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A verdict and what it rests on."""

    verdict: Verdict
    differences: tuple[str, ...]  # "… 4 - z ^ 2 [+ → -] 1 = 0 …", evaluation first, training second


def compare(training: str, evaluation: str) -> Comparison:
    """What the training problem is to the evaluation problem, with each place in which they differ."""
    if _shouts(training) or _shouts(evaluation):  # where all is in capitals, they tell no name from a word
        training, evaluation = training.casefold(), evaluation.casefold()
    both = _Both(training=_aligned(training), evaluation=_aligned(evaluation))
    matcher = SequenceMatcher(a=both.evaluation.texts, b=both.training.texts, autojunk=False)
    differing = [opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    around = {
        index: found for index in (0, len(differing) - 1) if (found := _around(differing[index : index + 1], both))
    }
    inside = [opcode for index, opcode in enumerate(differing) if index not in around]
    if _is_translation(training, evaluation):
        verdict = Verdict.TRANSLATED
    elif any(_decides(opcode, both) for opcode in inside):
        verdict = Verdict.CHANGED
    elif inside or len(set(around.values())) > 1:  # each has something beyond the other: neither holds the other
        verdict = Verdict.REWORDED
    else:
        verdict = next(iter(around.values()), Verdict.SAME)
    shown = tuple(_shown(opcode, both) for opcode in differing)
    return Comparison(verdict=verdict, differences=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """The marks that are compared, and the places among them at which a sentence begins."""

    compared: tuple[Mark, ...]
    begins: frozenset[int]

    @property
    def texts(self) -> list[str]:
        return [mark.text for mark in self.compared]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Both:
    training: _Text
    evaluation: _Text


@lru_cache(maxsize=4_096)
def _aligned(text: str) -> _Text:
    compared: list[Mark] = []
    begins = {0}
    for mark in marks(text):
        if mark.kind is Kind.STOP:
            begins.add(len(compared))
        else:
            compared.append(mark)
    return _Text(compared=tuple(compared), begins=frozenset(begins))


def _shouts(text: str) -> bool:
    """Whether a text of more than a few letters has capitals alone; Chinese with letters in its formulas doesn't."""
    letters = [one for one in text if one.isalpha()]
    return len(letters) > _FEW_LETTERS and all(map(str.isupper, letters))


def _around(opcodes: Sequence[Opcode], both: _Both) -> Verdict | None:
    """What an insertion or deletion at an end of the texts makes of the pair; None where it is none."""
    if not opcodes or opcodes[0][0] == "replace":
        return None
    kind, i1, i2, j1, j2 = opcodes[0]
    outer, start, end = (both.training, j1, j2) if kind == "insert" else (both.evaluation, i1, i2)
    if start > 0 and end < len(outer.compared):
        return None
    border = end if start == 0 else start
    if border not in outer.begins and any(mark.kind is not Kind.WORD for mark in outer.compared[start:end]):
        return None  # `P(16)` and `P(16) + P(17)` are two questions
    return Verdict.CONTAINS if kind == "insert" else Verdict.PART


def _decides(opcode: Opcode, both: _Both) -> bool:
    """Whether more than prose differs."""
    _, i1, i2, j1, j2 = opcode
    return any(
        mark.kind is not Kind.WORD for mark in (*both.evaluation.compared[i1:i2], *both.training.compared[j1:j2])
    )


def _is_translation(training: str, evaluation: str) -> bool:
    if (cjk_share(training) > FOREIGN_SHARE) == (cjk_share(evaluation) > FOREIGN_SHARE):
        return False
    return formulas(marks(training)) == formulas(marks(evaluation)) != ()


def _shown(opcode: Opcode, both: _Both) -> str:
    _, i1, i2, j1, j2 = opcode
    theirs, ours = both.evaluation.texts, both.training.texts
    before, after = _joined(theirs[max(0, i1 - CONTEXT_MARKS) : i1]), _joined(theirs[i2 : i2 + CONTEXT_MARKS])
    change = f"[{_joined(theirs[i1:i2])} → {_joined(ours[j1:j2])}]"
    return " ".join(part for part in (before, change, after) if part)


def _joined(texts: Sequence[str]) -> str:
    return " ".join(texts)
