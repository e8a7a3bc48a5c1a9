"""Rows of a picture: a name, a mark on an axis that all rows share, and in words what it came to.

    wide                             narrow
      a name │   ──•──    │ words      a name
    the next │ ──•──      │ words      words
                                          ──•──

Words and marks never share a place: in a narrow picture the lines of its ticks and references pass through the marks
alone, and what is said of a row is broken into lines. What is longer all the same is cut, and its title has it whole.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from opd.view.attempts.drawing import NARROW_TEXT, SMALL, WIDTHS, entitle, lanes
from opd.view.plain import shown
from opd.view.svg import FAINT, INK, literal, ruled

_LONGEST_NAME, _LONGEST_WORDS = 44, 72  # characters, beside a picture
_LONGEST_LINES = 300  # characters, above a narrow one
_LINE_POINTS, _MOST_LINES = 0.95 * 72 * WIDTHS["narrow"], 2  # of each line there, and how many of them
_FONT = FontProperties(size=NARROW_TEXT)
_BREAK = re.compile(r".*[\s/_,;-](?=.)")  # up to the last place at which a line may end
_LINE, _ABOVE, _BELOW = (
    12.0,
    9.0,
    15.0,
)  # points: a line of words, from a mark's middle up to them and down to the next
_PITCH = 26.0  # points from row to row of a wide picture
_BAND = 18.0  # points of a narrow picture's lines, across a mark
_BAR = 14.5  # points, the height of a bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What is said of a row: beside its mark, or above it."""

    name: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of one axis from above, at 0, 1, 2 …"""

    labels: Sequence[Label]
    narrow: bool

    @property
    def inches(self) -> float:
        """How high they are together, without the axis below them."""
        return (self._pitch * len(self.labels) + (0.0 if self.narrow else 6.0)) / 72

    @property
    def bar(self) -> float:
        """The height of a bar, in rows."""
        return _BAR / self._pitch

    def lay(self, axes: Axes) -> None:
        """Names and words in their places, each as its own characters, and the limits of the rows."""
        lanes(axes, ["" if self.narrow else shown(one.name, longest=_LONGEST_NAME) for one in self.labels])
        if self.narrow:
            self._write_above(axes)
            axes.set_ylim(len(self.labels) - 1 + _BELOW / self._pitch, _BELOW / self._pitch - 1)
        else:
            for text, one in zip(axes.get_yticklabels(), self.labels, strict=True):
                entitle(text, one.name)
            self._write_beside(axes)
            axes.set_ylim(len(self.labels) - 0.5, -0.6)
        literal(axes.texts)

    def rule(self, axes: Axes) -> None:
        """Faint lines at the ticks of the shared axis, whose limits are known by now."""
        if not self.narrow:
            ruled(axes, "x")
            return
        low, high = sorted(axes.get_xlim())
        ticks = [float(tick) for tick in axes.xaxis.get_majorticklocs() if low <= tick <= high]
        self.across(axes, ticks, **FAINT)

    def across(self, axes: Axes, places: Iterable[float], **look: Any) -> None:
        """Upright lines at these places of the axis, through all rows."""
        for place in places:
            if self.narrow:
                half = _BAND / 2 / self._pitch
                middles = range(len(self.labels))
                axes.vlines([place] * len(middles), [y - half for y in middles], [y + half for y in middles], **look)
            else:
                axes.axvline(place, **look)

    def whisker(self, axes: Axes, row: int, ends: tuple[float, float] | None) -> None:
        """An interval with its two ends; nothing where there is none."""
        if ends is not None:
            cap = 4.0 / self._pitch
            axes.hlines(row, *ends, color=INK, linewidth=1.2)
            axes.vlines(ends, row - cap, row + cap, color=INK, linewidth=1.2)

    @property
    def _pitch(self) -> float:
        """Points from one row to the next."""
        if not self.narrow:
            return _PITCH
        return _ABOVE + _BELOW + _LINE * max((len(_lines(one)) for one in self.labels), default=0)

    def _write_beside(self, axes: Axes) -> None:
        for place, one in enumerate(self.labels):
            text = axes.annotate(
                shown(one.words, longest=_LONGEST_WORDS), (1, place), (10, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", va="center", fontsize=SMALL, annotation_clip=False,
            )  # fmt: skip
            entitle(text, one.words)

    def _write_above(self, axes: Axes) -> None:
        for place, one in enumerate(self.labels):
            lines = _lines(one)
            for line, said in enumerate(reversed(lines)):
                text = axes.annotate(
                    said, (0, place), (0, _ABOVE + _LINE * line), xycoords=("axes fraction", "data"),
                    textcoords="offset points", va="bottom", fontsize=NARROW_TEXT, annotation_clip=False,
                )  # fmt: skip
                if said.endswith("…"):
                    entitle(text, f"{one.name}: {one.words}")


def _lines(label: Label) -> list[str]:
    """Name and words, each in at most so many lines."""
    return [line for part in (label.name, label.words) for line in broken(shown(part, longest=_LONGEST_LINES))]


def broken(text: str, *, points: float = _LINE_POINTS, most: int = _MOST_LINES) -> list[str]:
    """The text in lines of at most so many points, broken behind a space or a sign, else wherever it has to be.

    What is left after so many lines is cut, and stands for itself as `…`.
    """
    lines: list[str] = []
    while text and len(lines) < most:
        reach = list(accumulate(map(_points, text)))
        fits = max(1, bisect_right(reach, points))
        if fits < len(text) and (found := _BREAK.match(text[:fits])):
            fits = found.end()
        lines.append(text[:fits].strip())
        text = text[fits:].lstrip()
    if text:
        lines[-1] = f"{lines[-1][:-1]}…"
    return lines


@cache
def _points(letter: str) -> float:
    """How wide a letter of a narrow picture is, in a font that is wider than most."""
    width, _, _ = text_to_path.get_text_width_height_descent(letter, _FONT, False)
    return float(width)
