"""A problem's words, and the runs that they form.

The words are those of the public projections: NFKC, casefolded, maximal runs of letters and digits. They see
neither signs nor brackets, so equal words are a hint and no proof; `symbols.py` sees both.
"""

import re
import unicodedata
from collections.abc import Sequence

Words = tuple[str, ...]

_RUN = re.compile(r"[^\W_]+")
# kana, Han with its first extension and compatibility forms, Hangul: written without blanks between words
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_RUN_OR_CHARACTER = re.compile(rf"[{CJK}]|(?:(?![{CJK}])[^\W_])+")
_CJK = re.compile(f"[{CJK}]")
_INVISIBLE = re.compile(  # format characters, fillers, variation selectors and tags
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e0fff]"
)


def words(text: str) -> Words:
    """The runs of letters and digits, after NFKC and casefolding. A run of Chinese is one word."""
    return tuple(_RUN.findall(unicodedata.normalize("NFKC", text).casefold()))


def words_and_characters(text: str) -> Words:
    """Like `words`, with each Chinese, Japanese or Korean character a word of its own, and invisible ones gone."""
    return tuple(_RUN_OR_CHARACTER.findall(visible(text).casefold()))


def visible(text: str) -> str:
    """The text after NFKC and without what is not seen: zero-width characters, soft hyphens, marks of direction.

    They would cut a word in two, and hide a problem from every comparison (faults H43).
    """
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))


def canonical(text: str) -> str:
    """The words with one blank between: what the public projections compare and hash."""
    return " ".join(words(text))


def cjk_share(text: str) -> float:
    """Chinese, Japanese and Korean characters, as a share of those that are not blank; 0 for a blank text."""
    characters = len("".join(text.split()))
    return len(_CJK.findall(text)) / characters if characters else 0.0


def runs(of: Sequence[str], length_words: int) -> set[Words]:
    """Every run of that many words; none in a shorter text."""
    return set(zip(*(of[start:] for start in range(length_words)), strict=False))


def shingles(of: Words, length_words: int) -> set[Words]:
    """Like `runs`, but a shorter text is one shingle itself, so that it is not invisible; an empty one has none."""
    return runs(of, length_words) or ({of} if of else set())


def jaccard(one: set[Words], other: set[Words]) -> float:
    """|both| / |either|; 0 when both are empty."""
    either = len(one | other)
    return len(one & other) / either if either else 0.0


def holds(outer: Words, inner: Words) -> bool:
    """Whether the inner words stand in the outer ones in one piece; an empty text is held by none."""
    return bool(inner) and f" {' '.join(inner)} " in f" {' '.join(outer)} "
