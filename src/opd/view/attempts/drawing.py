"""What the pictures of an attempt have in common: two widths, one set of colours, a unit of time that fits.

Every picture is drawn twice, wide for a desk and narrow for a hand; the page shows the one that fits, so that the
text is never smaller than the text around it by much. What two colours tell apart, a shape or a word tells too.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from opd.view.plain import shown
from opd.view.svg import literal, name_whole, styled, svg_text

BLUE, ORANGE, GREY = "#2b7fd0", "#c9751c", "#818a94"
COLOURS = (BLUE, ORANGE, GREY)
WIDTHS: Mapping[str, float] = {"wide": 13.0, "narrow": 4.4}  # inches
SMALL = 10.0  # points, of what stands inside a picture
NARROW_TEXT = 9.0  # the same, in a narrow one

_LONGEST = 3_000  # characters of what is said of a picture
_UNITS = ((2 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A picture, and what is said of it to someone who can't see it."""

    made: Figure
    title: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A unit of time, and how many seconds it has."""

    seconds: float
    name: str


def both_widths(name: str, draw: Callable[[bool], Drawn]) -> dict[str, str]:
    """The picture as SVG text, by the name of its width; `draw` is told whether it is the narrow one."""
    found = {}
    for width in WIDTHS:
        drawn = draw(width == "narrow")
        _lay_out(drawn.made)
        title, said = shown(drawn.title, longest=_LONGEST), shown(drawn.said, longest=_LONGEST)
        found[width] = svg_text(drawn.made, name=f"{name}-{width}", title=title, description=said)
    return found


def _lay_out(made: Figure) -> None:
    """The figure's parts in their places for good: left to itself, it works them out twice while it is written."""
    engine = made.get_layout_engine()
    assert engine is not None, "every figure of ours has one"
    with styled():
        engine.execute(made)
    made.set_layout_engine("none")


def time_scale(seconds: float) -> Scale:
    """Hours from two hours on, minutes from three minutes on, else seconds."""
    return next(Scale(seconds=size, name=name) for least, size, name in _UNITS if seconds >= least)


def round_ticks(most: int) -> MaxNLocator:
    """At most about so many ticks, at numbers that a person would choose."""
    return MaxNLocator(most, steps=[1, 2, 5, 10])


def lanes(axes: Axes, names: Iterable[str]) -> None:
    """Names for the rows of a picture, the first at the top, without an axis."""
    labels = list(names)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    literal(axes.get_yticklabels())


def entitle(text: Text, whole: str) -> None:
    """Whatever stands in a picture cut has a title that gives it whole."""
    name_whole(text, shown(whole, longest=_LONGEST))
