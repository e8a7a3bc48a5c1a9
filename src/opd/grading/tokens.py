"""What a token is, and a row of them without what stands around an answer: punctuation, braces, brackets again.

Two answers with the same tokens are equal (house rule 9), whatever they mean.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from opd.grading import vocabulary as words

_TRAILING = frozenset({".", ",", ";", ":", "\\\\", "?"})
_LEADING = frozenset({":", ",", ".", "=", "~="})
_BEFORE_A_SET = frozenset({"in", "cup", "cap", "setminus", "="})
_BEHIND_A_SET = frozenset({"cup", "cap", "setminus", "and", "or"})


class Kind(StrEnum):
    """What a token is; numbers keep their digits as text."""

    NUMBER = "number"
    NAME = "name"  # a single letter or a Greek one: a variable or a constant
    WORD = "word"  # text, casefolded
    FUNCTION = "function"
    UNIT = "unit"
    MARK = "mark"


class Token(NamedTuple):
    """One of the things that an answer consists of."""

    kind: Kind
    text: str


def trimmed(tokens: list[Token]) -> tuple[Token, ...]:
    """The answer in a row of tokens, as far as its outline goes."""
    return _peeled(_without_punctuation(_round_brackets(_without_introduction(_with_spoken_marks(tokens)))))


def _with_spoken_marks(tokens: list[Token]) -> list[Token]:
    """With the `to` of a ratio as a colon, 3 to 4, and without the `and` of a number: one hundred and five."""
    result = []
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else token
        behind = tokens[place + 1] if place + 1 < len(tokens) else token
        if token.text == "to" and before.kind is behind.kind is Kind.NUMBER:
            result.append(Token(Kind.MARK, ":"))
        elif token.text != "and" or before.text not in words.SCALE_WORDS or behind.text not in words.NUMBER_WORDS:
            result.append(token)
    return result


def _without_introduction(tokens: list[Token]) -> list[Token]:
    """Without words that only say what comes, as in `Domain: [0, 1)`."""
    end = next((place for place, token in enumerate(tokens) if token.kind is not Kind.WORD), 0)
    if 0 < end < len(tokens) - 1 and tokens[end].text == ":" and tokens[end - 1].text in words.INTRODUCTIONS:
        return tokens[end + 1 :]
    return tokens


def _round_brackets(tokens: list[Token]) -> list[Token]:
    """An interval's open ends as parentheses where they were written ]0,1[."""
    result = list(tokens)
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        behind = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.text == "]" and (before is None or before.text in _BEFORE_A_SET) and behind is not None:
            result[place] = Token(Kind.MARK, "(")
        elif token.text == "[" and before is not None and (behind is None or behind.text in _BEHIND_A_SET):
            result[place] = Token(Kind.MARK, ")")
    return result


def _without_punctuation(tokens: list[Token]) -> list[Token]:
    """Without punctuation around the answer: a dot or comma at the end, a colon or equals sign at the start."""
    start, end = 0, len(tokens)
    while end > start and tokens[end - 1].kind is Kind.MARK and tokens[end - 1].text in _TRAILING:
        end -= 1
    while start < end and tokens[start].kind is Kind.MARK and tokens[start].text in _LEADING:
        start += 1
    return tokens[start:end]


def _peeled(tokens: list[Token]) -> tuple[Token, ...]:
    """Without braces around everything, and with one pair of parentheses where there were several."""
    partner = _partners(tokens)
    start, end = 0, len(tokens)
    while end - start > 2 and partner.get(start) == end - 1:
        doubled = tokens[start + 1].text == "(" and partner.get(start + 1) == end - 2
        if tokens[start].text == "{" or (tokens[start].text == "(" and doubled):
            start, end = start + 1, end - 1
        else:
            break
    return tuple(tokens[start:end])


def _partners(tokens: list[Token]) -> dict[int, int]:
    """Where each opening parenthesis or brace is closed."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for position, token in enumerate(tokens):
        if token.text in {"(", "{"}:
            opened.append(position)
        elif token.text in {")", "}"} and opened:
            partner[opened.pop()] = position
    return partner


def plain_letters(tokens: tuple[Token, ...]) -> str:
    """What is left of an answer when only its letters and digits count, articles aside: for text."""
    return "".join(_speaking(tokens))


def _speaking(tokens: tuple[Token, ...]) -> Iterator[str]:
    several = sum(token.kind is not Kind.MARK for token in tokens) > 1
    for token in tokens:
        if token.kind is Kind.WORD and several and token.text in words.ARTICLES:
            continue
        if token.kind is not Kind.MARK or token.text in {"and", "or"}:
            yield token.text.casefold()
