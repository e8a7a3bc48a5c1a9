"""Is an answer equal to its gold? Staged, from the cheapest comparison to the last resort.

    integer    both are plain integers                                        here
    string     the same tokens: equal, whatever they mean (house rule 9)      here
    text       the same words, or the same letter of a multiple choice        here
    exact      trees compared part by part, values as fractions               here
    value      the same trees, values at many digits                          worker
    symbolic   what the grammar does not read: math-verify and sympy          worker

`compare` decides what it can with the arithmetic that it is given, and raises `NeedsWorker` for the rest.
Nothing in a text is ever run as code.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from opd.grading.choices import same_choice
from opd.grading.exact import Inexact
from opd.grading.folding import fold
from opd.grading.grammar import read
from opd.grading.lexer import tokenise
from opd.grading.realsets import Arithmetic
from opd.grading.structure import same
from opd.grading.tokens import Kind, Token, plain_letters
from opd.grading.trees import BeyondGrammar, Node, Unreadable

_INTEGER = re.compile(r"\s*([+-]?\d{1,4000})\s*", re.ASCII)
_SILENT = frozenset(",.;:()'!?") | {"and", "or"}
_SPOKEN = frozenset({Kind.WORD, Kind.NAME})


class Finding(StrEnum):
    """What a comparison came to."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a comparison came to, by which stage, and why, in a few words."""

    finding: Finding
    stage: str
    reason: str


class NeedsWorker(Exception):
    """The comparison needs more than exact arithmetic, and so a process that can be killed."""


def compare(
    answer: str,
    gold: str,
    arithmetic: Arithmetic,
    *,
    symbolic: Callable[[str, str], bool] | None = None,
) -> Outcome:
    """Whether two answers are equal, and by which stage. Raises `NeedsWorker` when `symbolic` is not given."""
    integers = _INTEGER.fullmatch(answer), _INTEGER.fullmatch(gold)
    if integers[0] and integers[1]:
        return _decided(int(integers[0][1]) == int(integers[1][1]), stage="integer")
    same_text = _compare_tokens(answer, gold)
    if same_text is not None:
        return same_text
    try:
        return _decided(_same_trees(answer, gold, arithmetic), stage=arithmetic.name)
    except Inexact:
        raise NeedsWorker from None
    except BeyondGrammar as error:
        if symbolic is None:
            raise NeedsWorker from None
        return _symbolically(answer, gold, symbolic, reason=str(error))
    except Unreadable as error:
        return _unreadable(answer, gold, reason=str(error))
    except RecursionError:  # the caller's own stack is nearly full: the grammar's depth is limited
        return Outcome(finding=Finding.UNREADABLE, stage="text", reason="it is nested too deeply")


def _decided(equal: bool, *, stage: str) -> Outcome:
    finding = Finding.EQUAL if equal else Finding.DIFFERENT
    return Outcome(finding=finding, stage=stage, reason=_REASONS[stage, equal])


_REASONS = {
    ("integer", True): "the same integer",
    ("integer", False): "another integer",
    ("string", True): "the same text, layout aside",
    ("text", True): "the same words",
    ("text", False): "another choice",
    ("exact", True): "equal in value, exactly",
    ("exact", False): "another value",
    ("value", True): "equal in value, to all digits computed",
    ("value", False): "another value",
    ("symbolic", True): "equal in value, by sympy",
    ("symbolic", False): "another value, by sympy",
}


def _compare_tokens(answer: str, gold: str) -> Outcome | None:
    """What the tokens alone can decide."""
    try:
        answer_tokens, gold_tokens = tokenise(answer), tokenise(gold)
    except Unreadable:
        return _decided(True, stage="string") if fold(answer) == fold(gold) != "" else None
    if answer_tokens == gold_tokens and gold_tokens:
        return _decided(True, stage="string")
    choice = same_choice(answer_tokens, gold_tokens)
    return None if choice is None else _decided(choice, stage="text")


def _same_trees(answer: str, gold: str, arithmetic: Arithmetic) -> bool:
    """Whether any reading of the answer equals any reading of the gold: 1,234 may be one number or two."""
    answers, golds = _readings(answer), _readings(gold)
    return any(same(one, other, arithmetic) for one in answers for other in golds)


def _readings(text: str) -> list[Node]:
    readings = [read(text)]
    if "," in text and tokenise(text, grouped=False) != tokenise(text):
        readings.append(read(text, grouped=False))
    return readings


def _symbolically(answer: str, gold: str, symbolic: Callable[[str, str], bool], *, reason: str) -> Outcome:
    try:
        return _decided(symbolic(answer, gold), stage="symbolic")
    except Unreadable as error:
        return Outcome(finding=Finding.UNREADABLE, stage="symbolic", reason=f"{reason}; {error}")


def _unreadable(answer: str, gold: str, *, reason: str) -> Outcome:
    """Text that no rule reads is still equal when it says the same words."""
    try:
        spoken = _spoken(tokenise(answer)), _spoken(tokenise(gold))
    except Unreadable:
        spoken = None, None
    if spoken[0] and spoken[0] == spoken[1]:
        return _decided(True, stage="text")
    return Outcome(finding=Finding.UNREADABLE, stage="text", reason=reason)


def _spoken(tokens: tuple[Token, ...]) -> str | None:
    """The letters of a text; None when there are numbers or signs in it, which letters don't tell."""
    hyphened = any(token.kind is Kind.WORD for token in tokens)  # x-axis; in x-y it is a sign
    for place, token in enumerate(tokens):
        hyphen = hyphened and token.text == "-" and 0 < place < len(tokens) - 1
        if token.kind not in _SPOKEN and token.text not in _SILENT and not hyphen:
            return None
    return plain_letters(tokens)
