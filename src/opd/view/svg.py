"""From a matplotlib figure to SVG text that fits into a page: no dates, no outside names, no fixed ink.

Text stays text in the font of the page. What is drawn in `INK` takes the colour of the text around it, so that
one picture serves a light page and a dark one. Equal figures give equal text.
"""

import io
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text

INK = "#010203"  # stands for the colour of the page's text until the picture is written
FAINT: Mapping[str, Any] = {"color": INK, "alpha": 0.12, "linewidth": 0.6}  # of lines that only lead the eye

_WHOLE = "whole:"  # a text's id that begins so is written as its title

_STANDALONE = (
    "<style>svg{color:#24292f;font-family:system-ui,-apple-system,'Segoe UI',sans-serif}"
    "@media(prefers-color-scheme:dark){svg{color:#d5dae0}}</style>"
)


def styled() -> AbstractContextManager[None]:
    """The look of every picture, while a figure is made and while it is written.

    It sets matplotlib's process-wide parameters for that time: pictures are made from one thread.
    """
    return mpl.rc_context(
        {
            "svg.fonttype": "none",  # text stays text
            "svg.hashsalt": "opd",  # ids follow from the content alone
            "font.size": 12,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.6,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "axes.axisbelow": True,
            "axes.unicode_minus": True,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
        }
    )


def figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches that belongs to no global list; an inch is 72 units of the SVG."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(made)
    return made


def ruled(axes: Axes, axis: Literal["x", "y", "both"]) -> None:
    """Faint lines across the picture, at the ticks of one axis or of both."""
    axes.grid(axis=axis, **FAINT)


def literal(texts: Iterable[Text]) -> None:
    """A name with a dollar sign is no formula."""
    for text in texts:
        text.set_parse_math(False)


def name_whole(text: Text, whole: str) -> None:
    """A text that stands for a longer one has that as its title: a pointer shows it, a screen reader says it."""
    if text.get_text() != whole:
        text.set_gid(f"{_WHOLE}{whole}")


def svg_text(made: Figure, *, name: str, title: str, description: str, standalone: bool = False) -> str:
    """The figure as one `<svg>` element with a spoken title and description.

    `name` prefixes every id, so that several pictures can stand in one page. A standalone picture brings its
    font and its ink for light and for dark surroundings; any other takes them from the page.
    """
    raw = io.StringIO()
    with styled():
        made.savefig(raw, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    body = raw.getvalue()
    body = body[body.index("<svg") :]
    body = re.sub(rf'<g id="{_WHOLE}([^"]*)">', r"<g><title>\1</title>", body)
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", body, flags=re.DOTALL)  # would style the page
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    body = re.sub(r"<[^>]*>", _short_coordinates, body)
    body = _prefixed_ids(body.replace(INK, "currentColor"), name)
    opening, rest = body.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', opening)
    assert box, "matplotlib writes a viewBox"
    labels = f'role="img" aria-labelledby="{name}-title {name}-description"'
    inside = f'<title id="{name}-title">{escape(title)}</title>'
    inside += f'<desc id="{name}-description">{escape(description)}</desc>'
    names = f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" class={quoteattr(name)}'
    return f"<svg {names} {box.group()} {labels}>{_STANDALONE if standalone else ''}{inside}{rest}".strip() + "\n"


def _short_coordinates(tag: re.Match[str]) -> str:
    """A hundredth of a point is finer than any screen; text between the tags, such as a score, stays as it is."""
    return re.sub(r"(\.\d\d)\d+", r"\1", tag.group())


def _prefixed_ids(body: str, name: str) -> str:
    """Ids that something refers to carry the picture's name; the others are dropped."""
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))

    def renamed(found: re.Match[str]) -> str:
        return f' id="{name}-{found.group(1)}"' if found.group(1) in used else ""

    body = re.sub(r' id="([^"]*)"', renamed, body)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body)
