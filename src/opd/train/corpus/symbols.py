r"""A problem's text as marks that a comparison can tell apart: words, mathematics, and where sentences end.

Spelling that changes nothing is gone (`$`, braces, `\left`, spacing, `\dfrac` for `\frac`), while every
number, operator, bracket, name and variable stays a mark of its own. So z^4-z^2+1 differs from z^4+z^2+1,
which have the same words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from opd.train.corpus.texts import CJK, visible


class Kind(StrEnum):
    """What a mark is."""

    WORD = "word"  # prose: two letters or more, not all capitals; or one CJK character
    SYMBOL = "symbol"  # a number, an operator, a bracket, a LaTeX command, a variable, a name such as ABC
    TERM = "term"  # a word on which the answer hangs: five, odd, smallest, perimeter
    STOP = "stop"  # the end of a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One token of a problem."""

    text: str
    kind: Kind


_SPACING = re.compile(
    r"\\(?:left|right|displaystyle|limits|quad|qquad|[bB]igg?[lr]?)(?![A-Za-z])|\\[,;:! ]|\\\\|\$|&nbsp;|~"
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{(?:align|equation|gather|array|center)\*?\}|\\[\[\]()]")
_FONT = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf|operatorname|emph)(?![A-Za-z])\*?")
_SHORT_FRACTION = re.compile(r"\\[dtc]?frac\s*(\d)\s*(\d)")
_PLAIN_FRACTION = re.compile(r"\\[dtc]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}")
_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:\{?,\}?\d{3})+)(?!\d)")
_ARTICLE = re.compile(r"(?<![\w$\\{^])[aA](?= [A-Za-z]{2})")  # before `$` goes: `a line`, but not `$a$ is`
_NO_DIGIT = re.compile(r"\D")

_SPELLINGS = {
    "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cfrac": "\\frac",
    "\\dots": "\\ldots", "\\cdots": "\\ldots", "\\dotsc": "\\ldots", "\\dotsb": "\\ldots", "...": "\\ldots",
    "\\leq": "\\le", "\\leqslant": "\\le", "≤": "\\le", "\\geq": "\\ge", "\\geqslant": "\\ge", "≥": "\\ge",
    "\\neq": "\\ne", "≠": "\\ne", "×": "\\times", "·": "\\cdot", "\\lvert": "|", "\\rvert": "|",
    "\\vert": "|", "\\mid": "|", "\\to": "\\rightarrow", "→": "\\rightarrow", "−": "-", "–": "-",
    "\\degree": "\\circ", "°": "\\circ", "\\pi": "π", "\\angle": "∠", "\\lbrace": "\\{", "\\rbrace": "\\}",
}  # fmt: skip

# a word before a colon stands for those behind it; "one" and "first" are mostly no numbers, and not here
_TERM_LIST = """
greatest: largest maximum maximal biggest
least: smallest minimum minimal fewest
twice: double
zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen eighteen
twenty thirty forty fifty sixty hundred thousand million half thrice triple
second third fourth fifth sixth seventh eighth ninth tenth
even odd positive negative nonnegative nonpositive not no without never
sum product difference area perimeter volume radius diameter real complex prime
"""


def _terms() -> dict[str, str]:
    """What each deciding word stands for: itself, or the one that means the same."""
    meanings: dict[str, str] = {}
    for line in _TERM_LIST.split("\n"):
        meaning, colon, others = line.rpartition(":")
        meanings |= {term: meaning if colon else term for term in others.split()} | (
            {meaning: meaning} if colon else {}
        )
    return meanings


_TERMS = _terms()

_MARK = re.compile(
    rf"(?P<number>\d+(?:\.\d+)?)|(?P<command>\\[A-Za-z]+|\\[{{}}%#&_|])|(?P<cjk>[{CJK}])"
    rf"|(?P<letters>(?:(?![{CJK}])[^\W\d_])+)|(?P<dots>\.\.\.)|(?P<stop>[.?。？])|(?P<brace>[{{}}])|(?P<ignored>[\s,，、:;\"'“”‘’`&])"
    r"|(?P<operator>.)",
    re.DOTALL,
)


def marks(text: str) -> tuple[Mark, ...]:
    """The marks of a text, in order, ends of sentences among them, braces not."""
    return tuple(
        _mark(found) for found in _MARK.finditer(_plain(text)) if found.lastgroup not in {"ignored", "brace"}
    )


def seen(of: Sequence[Mark]) -> tuple[str, ...]:
    """The texts of the marks that are compared: all but the ends of sentences."""
    return tuple(mark.text for mark in of if mark.kind is not Kind.STOP)


def symbol_form(text: str) -> str:
    """The marks with one blank between: equal for texts that differ in nothing but spelling.

    Unlike `marks` it keeps the braces around more than one mark, because x^{2y} is not x^2y.
    """
    form: list[str] = []
    for found in _MARK.finditer(_plain(text)):
        if found.lastgroup in {"ignored", "stop"}:
            continue
        form.append(found.group() if found.lastgroup == "brace" else _mark(found).text)
        if form[-1] == "}" and form[-3:-2] == ["{"]:
            form[-3:] = form[-2:-1]
    return " ".join(form)


def formulas(of: Sequence[Mark]) -> tuple[str, ...]:
    """The mathematics without the prose, in order: what a translation leaves as it is."""
    return tuple(mark.text for mark in of if mark.kind is Kind.SYMBOL)


def _plain(text: str) -> str:
    """The text without what only sets it: delimiters, spacing, fonts, and what can't be seen."""
    plain = _ARTICLE.sub("an", visible(text))
    plain = _SPACING.sub(" ", _ENVIRONMENT.sub(" ", plain))
    plain = _SHORT_FRACTION.sub(r"\1/\2 ", _FONT.sub(" ", plain))
    plain = _PLAIN_FRACTION.sub(r"\1/\2 ", plain)
    return _GROUPED.sub(_ungrouped, plain)


def _ungrouped(found: re.Match[str]) -> str:
    return _NO_DIGIT.sub("", found.group())


def _mark(found: re.Match[str]) -> Mark:
    text = found.group()
    if found.lastgroup == "stop":
        return Mark(text=text, kind=Kind.STOP)
    if found.lastgroup == "cjk":
        return Mark(text=text, kind=Kind.WORD)
    if found.lastgroup == "letters" and len(text) > 1 and not text.isupper():
        word = text.casefold()
        return Mark(text=_TERMS.get(word, word), kind=Kind.TERM if word in _TERMS else Kind.WORD)
    return Mark(text=_SPELLINGS.get(text, text), kind=Kind.SYMBOL)
