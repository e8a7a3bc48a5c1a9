"""Questions of too few letters to be told by them, such as `Compute 6+6+3.`: looked for mark for mark.

Such a text comes up by chance, so that it stands somewhere says little. That several stand there one behind the other
in the order of the final says that the final was there.
"""

import mmap
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from opd.protocol.contamination.folds import tight
from opd.protocol.contamination.needles import LEAST_TIGHT, Needle

_BLOCK = 1 << 18
_OVERLAP = 1 << 10  # bytes; a short text with its blanks and escapes has fewer
_BEHIND = 24  # marks behind a short text in which its answer makes a pair: `,answer:15}`, and not the next row's
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(48)


class ShortTexts:
    """The short questions, by the last eight marks of each."""

    def __init__(self, needles: Sequence[Needle]) -> None:
        self._by_end: dict[int, list[Needle]] = {}
        for needle in needles:
            self._by_end.setdefault(int.from_bytes(needle.tight[-LEAST_TIGHT:], "little"), []).append(needle)
        self._table = np.zeros(1 << 16, np.bool_)
        self._table[(np.array(list(self._by_end), np.uint64) * _FACTOR) >> _SHIFT] = True

    def found(self, data: "bytes | mmap.mmap") -> Iterator[tuple[int, Needle, bool]]:
        """Each place of one, in order, with the byte at which its block begins, and whether its answer follows."""
        if not self._by_end:
            return
        for start in range(0, len(data), _BLOCK):
            before = tight(data[max(0, start - _OVERLAP) : start])
            text = before + tight(data[start : start + _BLOCK])
            behind = tight(data[start + _BLOCK : start + _BLOCK + _OVERLAP])[:_BEHIND]
            for end, needle in self._in(text):
                if end > len(before):  # else it was the block before's
                    yield start, needle, _is_answered(needle.answer, (text[end : end + _BEHIND] + behind)[:_BEHIND])

    def _in(self, text: bytes) -> Iterator[tuple[int, Needle]]:
        places = []
        for phase in range(min(LEAST_TIGHT, max(0, len(text) - LEAST_TIGHT + 1))):
            words = np.frombuffer(text, np.uint64, count=(len(text) - phase) // LEAST_TIGHT, offset=phase)
            seen = np.flatnonzero(self._table[((words * _FACTOR) >> _SHIFT).view(np.int64)])
            places += [(phase + (at + 1) * LEAST_TIGHT, int(words[at])) for at in seen.tolist()]
        for end, word in sorted(places):
            for needle in self._by_end.get(word, ()):
                if text[max(0, end - len(needle.tight)) : end] == needle.tight:
                    yield end, needle


def _is_answered(answer: str, behind: bytes) -> bool:
    """Whether the answer stands in these marks, and not as a part of a longer number or word."""
    marks = tight(answer.encode())
    return bool(marks) and re.search(rb"(?<![\w.-])" + re.escape(marks) + rb"(?!\w|\.\d)", behind) is not None


def longest_in_order(questions: Sequence[int]) -> int:
    """How many follow each other somewhere as they do in the final; one that is repeated at once counts once."""
    distinct = [one for at, one in enumerate(questions) if at == 0 or questions[at - 1] != one]
    longest = run = min(1, len(distinct))
    for one, other in pairwise(distinct):
        run = run + 1 if other == one + 1 else 1
        longest = max(longest, run)
    return longest
