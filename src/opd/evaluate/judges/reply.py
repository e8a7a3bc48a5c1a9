r"""A reply → correct or wrong, or the reason why it says nothing.

Labels: A or CORRECT; B or INCORRECT; C or INVALID. Letters are capitals, words of any case.

    strict      the reply is a letter and nothing else, blanks aside: `A`
    tolerant    a line of the reply is a label, maybe dressed and explained by the word for it:
                    A.   **A**   (A)   $\boxed{A}$   \boxed{\text{A}}   CORRECT   A: CORRECT   B) Incorrect.
                or ends in such a label behind "final judgment", "judgment", "verdict" or "label" and `:`, `=` or
                "is":
                    Final Judgment: \boxed{A}       So the verdict is **B**.
                or holds a boxed label anywhere. What a judge thought aloud, up to `</think>`, is passed over.

Nothing is mined from prose: "the answer is correct" is no label. All labels of a reply have to agree; a reply
that contradicts itself, has none, is empty or was cut off by the limit is a failure, never a verdict.
"""

import re
from dataclasses import dataclass
from typing import Literal

from opd.evaluate.judges.exchange import Reply
from opd.evaluate.judges.prompt import outside_reasoning
from opd.records.scores import Parsed, Verdict

Label = Literal["A", "B", "C"]
_LETTERS: dict[str, Label] = {"A": "A", "B": "B", "C": "C"}
_WORDS: dict[str, Label] = {"CORRECT": "A", "INCORRECT": "B", "INVALID": "C"}
LABELS = _LETTERS | _WORDS

_LABEL = r"(?:[ABC]|(?i:correct|incorrect|invalid))(?![A-Za-z0-9])"
_BOXED = rf"\\boxed\s*\{{\s*(?:\\(?:text|textbf|mathrm|mathbf)\s*\{{\s*)?\**(?P<boxed>{_LABEL})\**\s*\}}"
_DRESS = r"[\s*_`\"'$(\[]*"
_UNDRESS = r"[\s*_`\"'$)\].!:]*"
_PHRASE = re.compile(
    rf"{_DRESS}(?:{_BOXED}(?:\}})?|(?P<label>{_LABEL}))[\s*_`\"'$)\]]*"
    rf"(?:[-–—:=.,(\s]*(?P<word>(?i:correct|incorrect|invalid)))?{_UNDRESS}"
)
_MARK = re.compile(r"(?:final\s+)?(?:judge?ment|verdict|label)[\s*_`]*(?::|=|\bis\b)(?P<rest>.*)", re.IGNORECASE)
_BOX = re.compile(_BOXED)
_LONGEST_PHRASE = 80  # characters of a label and its dress; longer lines are prose, and cost nothing
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a reply says."""

    label: Label
    parsed: Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Why a reply says nothing."""

    reason: str


def verdict_of(label: Label) -> Verdict:
    """What a label makes of an answer: only A is correct. C, nothing to compare, is no more correct than B."""
    return Verdict.CORRECT if label == "A" else Verdict.WRONG


def read_reply(reply: Reply) -> Reading | Unread:
    """The label of a reply and how it was found, or why there is none."""
    text = reply.text.strip()
    if reply.cut_short:
        return Unread(reason=f"the limit cut the reply off: {_shown(text)}")
    if not text:
        return Unread(reason="the reply is empty")
    if text in _LETTERS:
        return Reading(label=_LETTERS[text], parsed="strict")
    labels = _labels(outside_reasoning(text))
    if len(labels) > 1:
        return Unread(reason=f"the reply contradicts itself ({' and '.join(sorted(labels))}): {_shown(text)}")
    if not labels:
        return Unread(reason=f"the reply has no label: {_shown(text)}")
    return Reading(label=labels.pop(), parsed="tolerant")


def _labels(text: str) -> set[Label]:
    """Every label that the grammar finds in a text."""
    found = {_label(box["boxed"]) for box in _BOX.finditer(text)}
    for line in text.splitlines():
        mark = _MARK.search(line)
        said = " ".join((mark["rest"] if mark else line).split())
        if len(said) <= _LONGEST_PHRASE and (phrase := _PHRASE.fullmatch(said)):
            found |= {_label(one) for one in phrase.group("boxed", "label", "word") if one}
    return found


def _label(text: str) -> Label:
    return LABELS[text.upper()]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS // 2]}…{text[-_SHOWN_CHARS // 2 :]}")
