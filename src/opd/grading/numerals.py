"""Numbers as they are written: decimals, repeating ones, programmer's notation, other bases, English words."""

import re
from collections.abc import Sequence
from fractions import Fraction

from opd.grading import vocabulary as words
from opd.grading.trees import Number, Unreadable

_LARGEST_EXPONENT = 4_000  # of ten, in programmer's notation
_REPEATING = re.compile(r"(\d*)\.(\d*)\\[a-z]+\s*\{(\d+)\}")


def number_value(digits: str) -> Fraction:
    """The exact value of a decimal, with repeating digits or in programmer's notation too."""
    repeating = _REPEATING.fullmatch(digits)
    if repeating:
        whole, once, again = repeating.groups()
        shift = 10 ** len(once)
        return Fraction(int(whole + once or "0"), shift) + Fraction(int(again), (10 ** len(again) - 1) * shift)
    _, _, exponent = digits.casefold().partition("e")
    try:
        if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
            raise Unreadable(f"{digits[:40]} is too large")
        return Fraction(digits)
    except ValueError:
        raise Unreadable(f"{digits[:40]!r} is no number without its base") from None


def in_base(digits: str, base: str) -> Number:
    """The number that these digits are in the base of a subscript such as `_8`."""
    radix = int(base[1:]) if base[1:].isdecimal() and len(base) < 4 else words.NUMBER_WORDS.get(base[1:], 0)
    whole, _, places = digits.partition(".")
    if not 2 <= radix <= 36 or not (whole + places).isalnum():
        raise Unreadable(f"{digits}{base} is no number in a base from 2 to 36")
    try:
        return Number(Fraction(int(whole + places, radix), radix ** len(places)))
    except ValueError:
        raise Unreadable(f"{digits!r} has a digit that base {radix} does not") from None


def number_from_words(spoken: Sequence[str]) -> int | None:
    """The number that English or Chinese words say: twenty-five, three hundred, 二十五; None for any other text."""
    if len(spoken) == 1 and set(spoken[0]) <= words.CHINESE_NUMERALS:
        return _chinese(spoken[0])
    total, current = 0, None
    for word in spoken:
        if word in words.NUMBER_WORDS and _may_follow(words.NUMBER_WORDS[word], current):
            current = (current or 0) + words.NUMBER_WORDS[word]
        elif word in words.SCALE_WORDS and current:
            scale = words.SCALE_WORDS[word]
            if scale == 100:
                current *= scale
            else:
                total, current = total + current * scale, 0
        else:
            return None
    return None if current is None else total + current


def _may_follow(value: int, before: int | None) -> bool:
    """Whether this word goes on with a number: five behind twenty or a hundred, but not behind six."""
    if before is None or before % 100 == 0:
        return True
    return before % 10 == 0 and before % 100 >= 20 and 0 < value < 10


def _chinese(numeral: str) -> int | None:
    """The number of digits with their places, 三百零五; a row of digits alone, 二五, is not read."""
    total, digit = 0, None
    for character in numeral:
        if character in words.CHINESE_PLACES:
            total += (1 if digit is None else digit) * words.CHINESE_PLACES[character]
            digit = None
        elif digit is None or digit == 0:
            digit = words.CHINESE_DIGITS.index(character)
        else:
            return None
    return total + (digit or 0)
