"""Runs of sixteen letters as numbers, and a sieve that tells in a look which of many such runs a block may hold.

A text is taken at every place, a haystack at every fourth: a shared stretch of 39 letters holds six places of both,
and so do two of 27 and three of 23. A block holds a text, for the sieve, when it has six close together: with fewer
it shares a turn of phrase. Numbers are 64 bits of two words of eight letters; equal runs have equal numbers, and
others hardly ever.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

GRAM = 16
STRIDE = 4
LEAST = 6
NEIGHBOURHOOD = 1 << 11  # letters within which they stand; a question has some hundred
_WORD = 8
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd, with bits all over
_TABLE_BITS = 22  # four million places for some ten thousand runs: one look in a few hundred is in vain
_SHIFT = np.uint64(64 - _TABLE_BITS)

Grams = NDArray[np.uint64]


def grams(letters: bytes) -> Grams:
    """The number of the run at each place, in order; none for a text of fewer letters."""
    found = np.empty(max(0, len(letters) - GRAM + 1), np.uint64)
    for phase in range(min(_WORD, len(found))):
        found[phase::_WORD] = _from(letters, phase)[: len(found[phase::_WORD])]
    return found


def _from(letters: bytes, phase: int) -> Grams:
    """The numbers of the runs at `phase` and every eight letters on."""
    count = max(0, len(letters) - phase) // _WORD
    words: Grams = np.frombuffer(letters, np.uint64, count=count, offset=min(phase, len(letters)))
    numbers: Grams = words[:-1] * _FIRST + words[1:] * _SECOND
    return numbers


class Sieve:
    """Which of many texts a block shares enough with to be read again."""

    def __init__(self, texts: Sequence[Grams]) -> None:
        """`texts` are the runs of each that count."""
        numbers = np.concatenate([np.empty(0, np.uint64), *texts])
        self._texts = len(texts)
        order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[order]
        self._owners = np.repeat(np.arange(len(texts)), [len(one) for one in texts])[order]
        self._table = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._table[self._numbers >> _SHIFT] = True

    def found(self, letters: bytes) -> tuple[int, ...]:
        """The numbers of the texts, in the order in which they were given."""
        owners, places = [], []
        for phase in range(0, _WORD, STRIDE):
            seen = _from(letters, phase)
            at = np.flatnonzero(self._table[(seen >> _SHIFT).view(np.int64)])
            first = np.searchsorted(self._numbers, seen[at], "left")
            last = np.searchsorted(self._numbers, seen[at], "right")
            while (inside := first < last).any():  # as often as texts share a run
                at, first, last = at[inside], first[inside], last[inside]
                owners.append(self._owners[first])
                places.append(at * _WORD + phase)
                first = first + 1
        if sum(map(len, owners)) < LEAST:
            return ()
        return _close(np.concatenate(owners), np.concatenate(places))


def _close(owners: NDArray[np.int64], places: NDArray[np.int64]) -> tuple[int, ...]:
    """Those that have enough places close together."""
    order = np.lexsort((places, owners))
    owners, places = owners[order], places[order]
    last = LEAST - 1
    close = (owners[last:] == owners[:-last]) & (places[last:] - places[:-last] <= NEIGHBOURHOOD)
    return tuple(np.unique(owners[last:][close]).tolist())
