"""Small pictures in text: a trend in one line of blocks."""

from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"


def sparkline(values: Sequence[float], *, width: int, ascii_only: bool = False) -> str:
    """At most `width` characters, oldest left; each is the mean of as many neighbours as must share a column.

    The lowest block is zero, or the smallest mean where that is negative; the highest is the largest mean.
    """
    columns = _means(values, width)
    if not columns:
        return ""
    blocks = _ASCII if ascii_only else _BLOCKS
    floor = min(0.0, *columns)
    span = max(columns) - floor
    if span <= 0:
        return blocks[0] * len(columns)
    top = len(blocks) - 1
    return "".join(blocks[min(int((value - floor) / span * len(blocks)), top)] for value in columns)


def _means(values: Sequence[float], width: int) -> list[float]:
    count = min(width, len(values))
    edges = [round(column * len(values) / count) for column in range(count + 1)] if count > 0 else []
    pieces = [values[start:end] for start, end in pairwise(edges)]
    return [sum(piece) / len(piece) for piece in pieces]
