"""Texts whose letters have two or four bytes each, UTF-16 and UTF-32, as UTF-8: what signs beyond ASCII need.

    41 00 20 22 42 00      A∠B, little-endian; the same bytes read from the second on are other letters

ASCII in such a text has null bytes beside it, and by these its places are found: in any file, from any byte on, with
a mark of the order of its bytes or without. Each place is read from every byte and in both orders, and kept is what
reads as text.
"""

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Data = bytes | mmap.mmap
Letters = NDArray[np.unsignedinteger[Any]]

_BLOCK = 1 << 18
_CELL = 64  # bytes in which null bytes are counted
_LEAST_NULLS, _MOST_NULLS = 12, 58  # in one: ASCII has 32 of two bytes a letter, 48 of four; half may be other signs
_MARGIN = 64  # cells on both sides, with parts of the text that have few letters of ASCII
_LONGEST = 1 << 16  # bytes of one place
_OVERLAP = 2 * _MARGIN * _CELL  # bytes of a longer one that the next piece begins with
_ROW = 32  # letters
_LEAST_ASCII, _MOST_STRANGE = 12, 4  # of a row, for a text: numbers of four bytes have a null in every second letter
_MARKS = {  # of the order of bytes, where a whole file is one text
    b"\xff\xfe\0\0": "utf-32-le",
    b"\0\0\xfe\xff": "utf-32-be",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
_NAMES = {2: "UTF-16", 4: "UTF-32"}
_READINGS = tuple((bytes_each, order) for bytes_each in _NAMES for order in "<>")
_CODECS = {(2, "<"): "utf-16-le", (2, ">"): "utf-16-be", (4, "<"): "utf-32-le", (4, ">"): "utf-32-be"}


def widened(data: Data) -> Iterator[tuple[str, bytes]]:
    """Each text that there is, with its name, as UTF-8; none of what is a text already."""
    head = data[:4]
    if marked := next((codec for mark, codec in _MARKS.items() if head.startswith(mark)), None):
        yield marked[:6].upper(), _decoded(data[:], marked)
    for start, end in _places(data):
        piece = data[start:end]
        for bytes_each, order in _READINGS:
            for first in range(bytes_each):
                if _is_best(piece, bytes_each, order, first):
                    yield _NAMES[bytes_each], _decoded(piece[first:], _CODECS[bytes_each, order])


def _decoded(data: bytes, codec: str) -> bytes:
    return data.decode(codec, "ignore").replace("\0", "").encode("utf-8", "ignore")


def _places(data: Data) -> Iterator[tuple[int, int]]:
    """From where to where there are null bytes as letters have them, with what stands around."""
    first = last = -1
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        if block.count(b"\0") < _LEAST_NULLS:
            continue
        codes = np.frombuffer(block + b"\1" * (-len(block) % _CELL), np.uint8)
        nulls = (codes == 0).reshape(-1, _CELL).sum(axis=1)
        for cell in np.flatnonzero((nulls >= _LEAST_NULLS) & (nulls <= _MOST_NULLS)).tolist():
            begin = max(0, start + (cell - _MARGIN) * _CELL)
            if begin > last:
                if last > first:
                    yield first, last
                first = begin
            last = min(len(data), start + (cell + 1 + _MARGIN) * _CELL)
            if last - first > _LONGEST:
                yield first, last
                first = last - _OVERLAP
    if last > first:
        yield first, last


def _is_best(piece: bytes, bytes_each: int, order: str, first: int) -> bool:
    """Whether the piece reads as text so, and not better in the other order from the byte beside it.

    `a b` in one order is `a b` in the other, a byte later; signs beyond ASCII tell which of the two it is.
    """
    codes = _letters(piece, bytes_each, order, first)
    if not _has_row(codes):
        return False
    other = ">" if order == "<" else "<"
    beside = (first + (1 if order == "<" else -1) * (bytes_each - 1)) % bytes_each
    here, there = (int(_is_ascii(one).sum()) for one in (codes, _letters(piece, bytes_each, other, beside)))
    return here > there or (here >= there - 1 and order == "<")  # a letter at the piece's end makes no difference


def _letters(piece: bytes, bytes_each: int, order: str, first: int) -> Letters:
    return np.frombuffer(piece, f"{order}u{bytes_each}", count=(len(piece) - first) // bytes_each, offset=first)


def _is_ascii(codes: Letters) -> NDArray[np.bool_]:
    """Of each letter whether it is one of ASCII that is printed, or a blank."""
    return ((codes >= 32) & (codes < 127)) | ((codes >= 9) & (codes <= 13))


def _has_row(codes: Letters) -> bool:
    """Whether somewhere enough letters of ASCII are close together, and few that no keyboard writes."""
    written = _is_ascii(codes)
    strange = (codes < 32) & ~written
    if len(codes) < _ROW:
        return int(written.sum()) >= _LEAST_ASCII
    return bool(((_in_rows(written) >= _LEAST_ASCII) & (_in_rows(strange) <= _MOST_STRANGE)).any())


def _in_rows(marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many are marked in each row, wherever it begins."""
    total = np.concatenate(([0], np.cumsum(marked)))
    counts: NDArray[np.int64] = total[_ROW:] - total[:-_ROW]
    return counts
