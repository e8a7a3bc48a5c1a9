"""Units and counting words: what follows a value, and whether two of them may stand for the same.

House rule 5: a unit that only one side has is ignored; two different units differ.
"""

from collections import Counter
from collections.abc import Sequence

from opd.grading import vocabulary as words

Unit = tuple[tuple[str, int], ...]  # sorted pairs of word and power; empty: none, or nothing in particular

_NO_PLURAL = frozenset({"s", "ss", "us", "is"})


def unit_of(parts: Sequence[tuple[str, int]]) -> Unit:
    """The unit that a run of words with their powers stands for, whatever its spelling.

    square inches, in², sq. in. and inches^2 are one; "square units" and 个 are nothing in particular.
    """
    powers: Counter[str] = Counter()
    pending = 1
    for word, power in parts:
        if word in words.POWER_WORDS:
            pending = words.POWER_WORDS[word]
            if word.endswith("ed") and powers:  # "inches squared": the word before
                last = next(reversed(powers))
                powers[last] *= pending
                pending = 1
            continue
        inner, name = _canonical(word)
        for part, sign in words.COMPOUND_UNITS.get(name, ((name, 1),)):
            if part not in words.PLACEHOLDERS:
                powers[part] += sign * power * pending * inner
        pending = 1
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def agree(one: Unit, other: Unit) -> bool:
    """Whether two units may stand for the same: one is missing, they are equal, or one is a qualified other."""
    if not one or not other or one == other:
        return True
    left, right = set(one), set(other)
    if not (left <= right or right <= left):
        return False
    # "right triangles" qualifies "triangles", but nothing qualifies a unit of measure
    return all(_counts(name) for name, _ in left | right)


def has(unit: Unit, name: str) -> bool:
    """Whether a word is part of a unit."""
    return any(word == name for word, _ in unit)


def _counts(name: str) -> bool:
    return name in words.COUNTED or name not in words.UNIT_ALIASES


def _canonical(word: str) -> tuple[int, str]:
    """The power inside a word (平方厘米 has 2) and its name in the singular."""
    for prefix in ("平方", "立方"):
        if word.startswith(prefix) and len(word) > len(prefix):
            return words.POWER_WORDS[prefix], _canonical(word.removeprefix(prefix))[1]
    if word in words.UNIT_ALIASES:
        return 1, words.UNIT_ALIASES[word]
    if not word.isascii():
        counted = word[1:] if len(word) > 1 and word[0] in words.PLACEHOLDERS else word
        return 1, counted
    single = _singular(word)
    return 1, words.UNIT_ALIASES.get(single, single)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and len(word) > 2 and word[-2:] not in _NO_PLURAL:
        return word[:-1]
    return word
