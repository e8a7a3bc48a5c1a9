r"""An answer in plain characters: typographic, full-width and invisible ones become LaTeX, ASCII, or nothing.

    （1，2）    (1,2)          7√5    7\sqrt 5         5²    5^{2}         ½    \frac{1}{2}

Time and length stay linear in the answer.
"""

import re
import unicodedata

from opd.grading import vocabulary as words


def fold(text: str) -> str:
    """The text in plain characters: typographic and full-width signs as LaTeX, and nothing invisible."""
    if not text.isascii():
        text = text.translate(words.CHARACTERS)
        text = _SUPERSCRIPTS.sub(lambda run: f"^{{{_mapped(run.group(), words.SUPERSCRIPTS)}}}", text)
        text = _SUBSCRIPTS.sub(lambda run: f"_{{{_mapped(run.group(), words.SUBSCRIPTS)}}}", text)
        text = _VULGAR.sub(_vulgar_fraction, text)
        text = unicodedata.normalize("NFKC", text)
    text = _CLOCK.sub(lambda found: f" {(found[1] or found[2]).casefold()}m", _INVISIBLE.sub("", text))
    text = _PROGRAMMED_POWER.sub("^", text).replace("+/-", r"\pm ")
    text = _BASE_IN_BRACKETS.sub(r"\1\2", text)
    text = _BRACED_MARK.sub(r"\1", _QUOTED.sub(r"\1", text))
    text = _BASED_NUMERAL.sub(_bare_numeral, text)
    return _EMPTY_GROUP.sub("", _DROPPED.sub(" ", text).strip())


_SUPERSCRIPTS = re.compile(f"[{''.join(words.SUPERSCRIPTS)}]+")
_SUBSCRIPTS = re.compile(f"[{''.join(words.SUBSCRIPTS)}]+")
_VULGAR = re.compile("[¼-¾⅐-⅞↉]")
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe0f\ufeff]")
_PROGRAMMED_POWER = re.compile(r"(?<=[\d)])\*\*(?=[\d(-])")  # 2**10; elsewhere ** is bold type
_EMPTY_GROUP = re.compile(r"^(?:\{\})+|(?<=[\w)])(?:\{\})+$")  # around the answer; elsewhere something is missing
_BRACED_MARK = re.compile(r"\{\s*([:=])\s*\}")  # for TeX's spacing
_QUOTED = re.compile(r"``([^`']*)''")
_CLOCK = re.compile(r"\b([ap])\.\s?m\b\.?|(?<=:\d\d)\s*([ap])m\b", re.IGNORECASE)  # 4:30 p.m. or 4:30PM
_BASE_IN_BRACKETS = re.compile(r"(?<=[0-9A-Z)}])(_\s*\{?\s*)\(\s*(\d+)\s*\)")  # 1011_{(2)}
_NUMERAL = r"(?:[0-9A-Z]|\\(?:text|textrm|mathrm|mbox)\s*\{[0-9A-Z]+\})++"
_BASED_NUMERAL = re.compile(  # with a base of two digits behind it: 2\text{B}4_{12}, (3A)_{16}
    rf"(?<![0-9A-Za-z}}])(?:\(\s*({_NUMERAL})\s*\)|({_NUMERAL}))(?=\s*_\s*\{{?\s*\d\d)"
)
_DROPPED = re.compile(
    r"\\(?:hspace|vspace|tag|label|color|textcolor|phantom|hphantom|vphantom)\*?\s*\{[^{}]*\}"
    r"|\\[hv]?phantom\s*[^\s{}\\]|\\(?:left|right)\s*\.|\*\*|\\[()\[\]]"
)


def _mapped(run: str, table: dict[str, str]) -> str:
    return "".join(table[character] for character in run)


def _bare_numeral(found: re.Match[str]) -> str:
    """The digits and letters alone, where there are both; digits need no help, and letters alone are a name."""
    numeral = re.sub(r"\\[a-z]+\s*\{([0-9A-Z]+)\}", r"\1", found[1] or found[2])
    mixed = any(map(str.isdigit, numeral)) and any(map(str.isalpha, numeral))
    return numeral if mixed else found.group()


def _vulgar_fraction(found: re.Match[str]) -> str:
    numerator, denominator = unicodedata.normalize("NFKC", found.group()).split("⁄")
    return rf"\frac{{{numerator}}}{{{denominator}}}"
