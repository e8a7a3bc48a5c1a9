"""The values of stored tensors, a chunk at a time: are they finite, and are they another's?

Numbers are read by their bits, so that no tensor library is needed: bfloat16 is the upper half of a float32.

    equal     a value is the input's, cast to the checkpoint's dtype or back from it
    taken     where input and start differ, a value lies within a quarter of that difference of the input's

Training goes its own way: it brings a student's outputs to the teacher's and leaves its weights where they are, a
little moved. Weights that are the teacher's for the most part were copied, with however much noise on a few.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opd.protocol.checkpoints.safetensors import ITEM_BYTES, Stored

FLOATS = ("F64", "F32", "F16", "BF16")
NEAR = 0.25  # of the way from the input's value to the start's

_CHUNK = 1 << 16  # numbers; its arrays stay in a core's cache
Values = NDArray[np.floating]


@dataclass(slots=True, kw_only=True)
class Beside:
    """A tensor's values beside those of another; the counts grow chunk by chunk."""

    equal: int = 0
    squared_distance: float = 0.0
    squared_start_distance: float = 0.0  # of the other to the start
    distinct: int = 0
    taken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one tensor's values are."""

    sha256: str  # of its bytes
    infinite: int  # infinite or NaN
    start: Beside
    others: tuple[Beside | None, ...]  # None where there is no such tensor to compare


def look(mine: Stored, start: Stored, others: Sequence[Stored | None]) -> Seen:
    """A tensor's values, beside the start's and those of other inputs, which have its shape."""
    hashed = hashlib.sha256()
    infinite = 0
    own, origin = _Chunk(mine), _Chunk(start)
    beside_start = Beside()
    beside = [None if other is None else (Beside(), _Chunk(other)) for other in others]
    space = _Space()
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is told by an infinite distance
        for first in range(0, mine.tensor.elements, _CHUNK):
            count = min(_CHUNK, mine.tensor.elements - first)
            hashed.update(own.take(first, count))
            infinite += own.infinite()
            origin.take(first, count)
            _add_start(beside_start, own, origin, space)
            for one in beside:
                if one is not None:
                    one[1].take(first, count)
                    _add_other(one[0], own, origin, one[1], space)
    found = tuple(None if one is None else one[0] for one in beside)
    return Seen(sha256=hashed.hexdigest(), infinite=infinite, start=beside_start, others=found)


class _Space:
    """Room for differences; memory that is asked for anew for each chunk costs more than the arithmetic."""

    __slots__ = ("apart", "away")

    def __init__(self) -> None:
        self.away, self.apart = np.empty(_CHUNK, np.float64), np.empty(_CHUNK, np.float64)

    @staticmethod
    def minus(these: Values, those: Values, room: NDArray[np.float64]) -> Values:
        """The differences, in the wider of the two kinds, in this room."""
        kind = np.result_type(these, those)
        difference: Values = room.view(kind)[: len(these)]
        np.subtract(these, those, out=difference)
        return difference


class _Chunk:
    """Some numbers of a tensor, in memory that the next ones take over."""

    __slots__ = ("_bits", "_space", "_stored", "bits", "dtype", "floats")

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self.dtype = stored.tensor.dtype
        self._bits = np.empty(_CHUNK * ITEM_BYTES[self.dtype], np.uint8)
        self._space = np.empty(_CHUNK, np.float32)
        self.bits: NDArray[np.uint8] = self._bits[:0]
        self.floats: Values | None = None  # None of a dtype that is none of `FLOATS`

    def take(self, first: int, count: int) -> memoryview:
        """The bytes of so many numbers from there on, which it now holds."""
        self.bits = self._bits[: count * ITEM_BYTES[self.dtype]]
        self._stored.read_into(self.bits.data, first)
        self.floats = self._floats(count)
        return self.bits.data

    def infinite(self) -> int:
        """How many of them are infinite or NaN."""
        return 0 if self.floats is None else len(self.floats) - int(np.count_nonzero(np.isfinite(self.floats)))

    def equal(self, other: "_Chunk") -> NDArray[np.bool_]:
        """Of each, whether it is the other's, cast to this dtype or back from it."""
        if self.floats is None or other.floats is None:
            return self._same_bytes(other)
        if self.dtype == other.dtype:
            return np.asarray(self.floats == other.floats)
        there, back = _cast(other.floats, self.dtype), _cast(self.floats, other.dtype)
        return np.asarray((there == self.floats) | (back == other.floats))

    def _same_bytes(self, other: "_Chunk") -> NDArray[np.bool_]:
        count = len(self.bits) // ITEM_BYTES[self.dtype]
        if self.dtype != other.dtype:
            return np.zeros(count, dtype=np.bool_)
        mine, others = (one.bits.reshape(count, -1) for one in (self, other))
        return np.asarray((mine == others).all(axis=1))

    def _floats(self, count: int) -> Values | None:
        if self.dtype == "BF16":
            bits = self._space.view(np.uint32)[:count]
            bits[:] = self.bits.view(np.uint16)
            bits <<= np.uint32(16)
            return self._space[:count]
        if self.dtype == "F16":
            self._space[:count] = self.bits.view(np.float16)
            return self._space[:count]
        kind = {"F32": np.float32, "F64": np.float64}.get(self.dtype)
        return None if kind is None else self.bits.view(kind)


def _add_start(beside: Beside, own: _Chunk, start: _Chunk, space: _Space) -> None:
    beside.equal += int(np.count_nonzero(own.equal(start)))
    if own.floats is not None and start.floats is not None:
        beside.squared_distance += _squares(space.minus(own.floats, start.floats, space.away))


def _add_other(beside: Beside, own: _Chunk, start: _Chunk, other: _Chunk, space: _Space) -> None:
    same = own.equal(other)
    distinct = ~start.equal(other)
    beside.equal += int(np.count_nonzero(same))
    beside.distinct += int(np.count_nonzero(distinct))
    if own.floats is not None and start.floats is not None and other.floats is not None:
        away = space.minus(own.floats, other.floats, space.away)
        apart = space.minus(start.floats, other.floats, space.apart)
        beside.squared_distance += _squares(away)
        beside.squared_start_distance += _squares(apart)
        apart *= NEAR
        same |= np.abs(away, out=away) <= np.abs(apart, out=apart)
    same &= distinct
    beside.taken += int(np.count_nonzero(same))


def _cast(values: Values, dtype: str) -> Values:
    """The values as a dtype can hold them, rounded to the nearest, of two the even one."""
    if dtype == "F64":
        return values.astype(np.float64)
    if dtype == "F16":
        return values.astype(np.float16).astype(np.float32)
    single = values.astype(np.float32)
    if dtype == "F32":
        return single
    bits = single.view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + half) & np.uint32(0xFFFF_0000)).view(np.float32)


def _squares(values: Values) -> float:
    return float(np.einsum("i,i->", values, values))  # not `dot`, which would start threads of its own
