"""Multiple choice: the letter of an answer such as C, (C), or (C) 12."""

from collections.abc import Sequence
from dataclasses import dataclass

from opd.grading.tokens import Kind, Token

_LETTERS = "ABCDEFGHIJ"
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
    if not tokens:
        return None
    opened = tokens[0].text == "("
    rest = tokens[1:] if opened else tokens
    if not rest or not _is_letter(rest[0]):
        return None
    letter, rest = rest[0], rest[1:]
    marked = bool(rest) and rest[0].text in _ENDS and (opened or rest[0].text != ")" or True)
    if opened and not (rest and rest[0].text == ")"):
        return None
    rest = rest[1:] if marked else rest
    if rest and (not marked or rest[0].text in _OPERATORS):
        return None
    return Choice(letter=letter.text.upper(), alone=not rest, is_text=letter.kind is Kind.WORD)


def _is_letter(token: Token) -> bool:
    if token.kind is Kind.WORD:
        return len(token.text) == 1 and token.text.upper() in _LETTERS
    return token.kind is Kind.NAME and token.text in _LETTERS
