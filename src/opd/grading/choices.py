"""Multiple choice: the letter of an answer such as C, (C), or (C) 12."""

from collections.abc import Sequence
from dataclasses import dataclass

from opd.grading.tokens import Kind, Token

_LETTERS = "ABCDEFGHIJ"
_INTRODUCTIONS = frozenset({"answer", "choice", "option"})
_ENDS = frozenset({")", ".", ":"})
_OPERATORS = frozenset("+-*/^_=<>!|") | {"<=", ">=", "!=", "~=", "in", "cup", "cap", "setminus", "+-", "-+", ","}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A letter, and how it stands in the answer."""

    letter: str
    alone: bool  # whether the letter is the whole answer
    is_text: bool  # written as text, not as a variable


def same_choice(answer: Sequence[Token], gold: Sequence[Token]) -> bool | None:
    """Whether two answers choose the same letter; None when they are no choices, or may be variables."""
    one, other = _choice(answer), _choice(gold)
    if one is None or other is None:
        return None
    if one.alone and other.alone and not (one.is_text or other.is_text):
        return None
    return one.letter == other.letter


def _choice(tokens: Sequence[Token]) -> Choice | None:
    """The letter that an answer begins with: alone, or marked as (C), C. or C: with its text behind it."""
    if len(tokens) > 1 and tokens[0].text in _INTRODUCTIONS:
        tokens = tokens[1:]
    opened = bool(tokens) and tokens[0].text == "("
    inner = tokens[opened:]
    if not inner or not _is_letter(inner[0]):
        return None
    letter, rest = inner[0], inner[1:]
    marked = bool(rest) and rest[0].text in ({")"} if opened else _ENDS)
    if opened and not marked:
        return None
    text = rest[marked:]
    if text and (not marked or text[0].text in _OPERATORS):
        return None
    return Choice(letter=letter.text.upper(), alone=not text, is_text=letter.kind is Kind.WORD)


def _is_letter(token: Token) -> bool:
    if token.kind is Kind.WORD:
        return len(token.text) == 1 and token.text.upper() in _LETTERS
    return token.kind is Kind.NAME and token.text in _LETTERS
