"""Bars with intervals in text: `████▓▓░░    `.

█ up to the lower end of the interval, ▓ on to the value, ░ on to the upper end.
"""

import math
from dataclasses import dataclass

WIDTH = 30
_BLOCKS = ("█", "▓", "░")
_ASCII = ("#", "=", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value with its interval; without one, what is undefined is not drawn."""

    label: str
    value: float
    interval: tuple[float, float] | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Shares of one whole, or scores, that are drawn side by side."""

    caption: str
    bars: tuple[Bar, ...]
    scaled: bool = False
    """The largest fills the width; else one does."""


def legend(*, ascii_only: bool = False) -> str:
    """What the parts of a bar mean."""
    sure, value, upper = _ASCII if ascii_only else _BLOCKS
    return f"{sure} to the lower end of the 95 % interval, {value} to the value, {upper} to the upper end"


def drawn(bar: Bar, *, full: float, ascii_only: bool = False) -> str:
    """The bar in `WIDTH` columns, of which all stand for `full`."""
    sure, value, upper = _ASCII if ascii_only else _BLOCKS
    low, high = bar.interval or (bar.value, bar.value)
    ends = [round(min(max(end, 0.0), full) / full * WIDTH) if full > 0 else 0 for end in (low, bar.value, high)]
    return (sure * ends[0] + value * (ends[1] - ends[0]) + upper * (ends[2] - ends[1])).ljust(WIDTH)


def full_scale(group: Bars) -> float:
    """What the whole width stands for: one, or, where the group is scaled, the largest upper end, up to a tenth."""
    if not group.scaled:
        return 1.0
    largest = max(max(bar.value, bar.interval[1] if bar.interval else 0.0) for bar in group.bars)
    return min(1.0, max(0.1, math.ceil(largest * 10) / 10))
