r"""The two normal forms of the reference grader: equal answers are those that come to the same text.

    Hendrycks, MATH 2021       \dfrac12, 1/2 and .5 are \frac{1}{2}; x = 7 is 7; what follows \text{ is a unit
    PRM800K, 2023              plain characters without blanks, units and capitals: 7\sqrt{5} is 7sqrt(5)

Where the original stumbles over a text, it goes on with the text as it is; so do these.
"""

import re

from opd.grading.reference.plaintext import Unplain, plain
from opd.grading.vocabulary import row


def hendrycks_form(text: str) -> str:
    """The text in the normal form of MATH's own scorer; as it stands where that scorer stumbles over it."""
    text = text.strip()
    wrapped = _WRAPPED.search(text)
    if wrapped:
        text = wrapped[1].strip()
    try:
        return _hendrycks_form(text)
    except _Stumbles:
        return text


class _Stumbles(Exception):
    """The normalisation reads past the end of the text, or finds two units."""


_WRAPPED = re.compile(r"^\\text\{(.+?)\}$")
_IGNORED = (r"\left", r"\right", r"^{\circ}", r"^\circ", r"\$")


def _hendrycks_form(text: str) -> str:
    text = text.replace("\n", "").replace(r"\!", "").replace(r"\\", "\\")
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    for layout in _IGNORED:
        text = text.replace(layout, "")
    if text.count(r"\text{ ") > 1:
        raise _Stumbles
    text = text.partition(r"\text{ ")[0].replace(r"\%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    text = f"0{text}" if text.startswith(".") else text
    if text.count("=") == 1 and text.index("=") <= 2:  # k = 7, and any two characters
        text = text.partition("=")[2]
    text = _braced_fractions(_braced_roots(text).replace(" ", ""))
    return _stacked(r"\frac{1}{2}" if text == "0.5" else text)


def _braced_roots(text: str) -> str:
    first, *others = text.split(r"\sqrt")
    if "" in others:
        raise _Stumbles
    braced = (part if part[0] == "{" else f"{{{part[0]}}}{part[1:]}" for part in others)
    return r"\sqrt".join((first, *braced))


def _braced_fractions(text: str) -> str:
    first, *others = text.split(r"\frac")
    done = [first]
    for part in others:
        if not part:
            raise _Stumbles
        if part[0] == "{":
            done.append(part)
        elif len(part) < 2:
            return text
        else:
            below = "{" if part[1] == "{" else f"{{{part[1]}}}"
            done.append(f"{{{part[0]}}}{below}{part[2:]}")
    return r"\frac".join(done)


def _stacked(text: str) -> str:
    """3/4 as a fraction, when both are integers as Python prints them."""
    whole = r"(?:0|-?[1-9][0-9]*)"
    found = re.fullmatch(f"({whole})/({whole})", text)
    return rf"\frac{{{found[1]}}}{{{found[2]}}}" if found else text


_SCALES = (("million", "*10^6"), ("billion", "*10^9"), ("trillion", "*10^12"))
_WORDS = (("\\%", ""), ("\\$", ""), ("$", ""), ("%", ""), (" or ", " , "), (" and ", " , "), *_SCALES)
_UNITS = row("degree cm centimeter meter mile second minute hour day week month year foot feet inch yard")
_SIGNS = {"√": "sqrt", "π": "pi", "∞": "inf", "∪": "U", "·": "*", "×": "*"}


def prm800k_form(text: str) -> str:
    """The text in the normal form of PRM800K's checker: plain characters, no units, no blanks, no capitals."""
    wrapped = _WRAPPED.search(text)
    text = wrapped[1] if wrapped else text
    for word, other in _WORDS:
        text = text.replace(word, other)
    for unit in _UNITS:
        text = re.sub(rf"{unit}(es)?(s)? *(\^[0-9]+)?", "", text)
    text = re.sub(r"\^ *\\circ", "", text)
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = re.sub(r",\\! *", "", text)
    near = _near_integer(text)
    text = _in_plain_characters(text if near is None else str(near))
    text = re.sub("- *", "-", text)
    text = re.sub("([0-9]) +([0-9])", r"\1+\2", text)  # a mixed number: 1 4/5
    text = re.sub("[ {}]", "", text).lower()
    if not is_integer(text):
        return text
    return str(int(float(text.replace(",", ""))))


def _in_plain_characters(text: str) -> str:
    if "\\" not in text:
        return text
    for command in ("tfrac", "dfrac"):
        text = text.replace(f"\\{command}", r"\frac")
    try:
        text = plain(text.replace(r"\frac", r" \frac"))
    except Unplain:
        return text
    for sign, name in _SIGNS.items():
        text = text.replace(sign, name)
    return text.strip()


def without_grouping(text: str) -> str:
    """The text without commas before three digits: 1,234 as 1234."""
    before = None
    while before != text:
        before, text = text, re.sub(r"(\d),(\d\d\d)($|\D)", r"\1\2\3", text)
    return text


def is_integer(text: str) -> bool:
    """Whether the text is an integer to seven places, as Python reads numbers: 52_8 is 528."""
    return _near_integer(without_grouping(text)) is not None


def _near_integer(text: str) -> int | None:
    """That integer, or None."""
    try:
        value = float(text)
        near = round(value)
    except (ValueError, OverflowError):
        return None
    return near if abs(value - near) <= 1e-7 else None
