"""A picture with the numbers that it shows, and how both are written: SVG, PDF or PNG, and a CSV beside it.

Equal input gives equal bytes. Text stays text in an SVG, and a PDF holds the outlines of its font.
"""

import csv
import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from opd.records.errors import AskedWrongly
from opd.records.files import check_writable, whole, write_text
from opd.view.svg import figure, literal, styled, svg_text

ENDINGS = (".svg", ".pdf", ".png")
WIDTH = 6.6  # inches: the text block of most papers; a column of two is about 3.3
NARROWEST, WIDEST = 2.0, 20.0  # inches
_DOTS_PER_INCH = 300  # what journals ask for
_NARROW = 4.5  # inches, below which the text is smaller

COLOURS = ("#2b7fd0", "#c9751c", "#c30a6e", "#8c8caf", "#821eff", "#916941")
"""One a run, in order. They differ for the common kinds of colour blindness and stand out from white and from
near-black (`tests/view/runs/test_plots.py`); dashes and marks differ as well.
"""
DASHES: tuple[str | tuple[float, tuple[float, ...]], ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
MARKS = ("o", "s", "^", "D", "v", "P")

_ADVANCE = 0.58  # of the size of the text: how wide a character is, on average

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture, what it says to someone who can't see it, and its data."""

    name: str
    title: str
    said: str
    figure: Figure
    columns: tuple[str, ...]  # with their units: `kl_nats_per_token`
    rows: tuple[tuple[Cell, ...], ...]  # None is an empty cell: undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How one of several runs is drawn."""

    colour: str
    dash: str | tuple[float, tuple[float, ...]]
    mark: str


def look(place: int) -> Look:
    """The look of the run at this place; no two of the first twenty-four are the same."""
    return Look(
        colour=COLOURS[place % len(COLOURS)],
        dash=DASHES[(place + place // len(COLOURS)) % len(DASHES)],
        mark=MARKS[place % len(MARKS)],
    )


def check_out(out: Path) -> None:
    """Nothing, when a picture can be written there; else `AskedWrongly`, before anything is read.

    Data that lies there already is looked at when the picture is made: it may be the same, of another format.
    """
    if out.suffix not in ENDINGS:
        raise AskedWrongly(f"--out {out}: its ending says what to write, one of {' '.join(ENDINGS)}")
    if out.exists():
        raise AskedWrongly(f"{out} exists already and is never overwritten; name another --out")
    check_writable(out.parent)


def check_width(width: float) -> None:
    """Nothing, for a width that a page can have; else `AskedWrongly`."""
    if not NARROWEST <= width <= WIDEST:
        raise AskedWrongly(f"--width {width}: in inches, from {NARROWEST:.0f} to {WIDEST:.0f}")


def data_path(out: Path) -> Path:
    """Where the data of a picture lies."""
    return out.with_suffix(".csv")


def write(plot: Plot, out: Path) -> None:
    """The data stands beside the picture, which is written last.

    Raises `AskedWrongly`, before anything is written, where other data stands there; the same stays as it is, so that
    a picture may be had in several formats.
    """
    data, text = data_path(out), as_csv(plot)
    if not data.exists():
        write_text(data, text)
    elif not data.is_file() or data.read_bytes() != text.encode():
        raise AskedWrongly(f"{data} exists already with other data, and is never overwritten; name another --out")
    if out.suffix == ".svg":
        write_text(
            out, svg_text(plot.figure, name=plot.name, title=plot.title, description=plot.said, standalone=True)
        )
        return
    pdf = out.suffix == ".pdf"
    # without the time and the program, which would make equal pictures differ
    metadata = {"Title": plot.title, "Subject": plot.said} | ({"CreationDate": None} if pdf else {"Software": None})
    with whole(out) as temporary, drawing(), mpl.rc_context({"pdf.fonttype": 42, "savefig.facecolor": "white"}):
        plot.figure.savefig(temporary, format=out.suffix[1:], dpi=_DOTS_PER_INCH, metadata=metadata)


def as_csv(plot: Plot) -> str:
    """The data as CSV, every number with all of its digits; undefined is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(plot.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in plot.rows)
    return text.getvalue()


@contextmanager
def drawing(*, width: float = WIDTH) -> Iterator[None]:
    """The look of every picture, at a size of text that suits its width."""
    size = 8.0 if width < _NARROW else 10.0
    with styled(), mpl.rc_context({"font.size": size, "font.family": "DejaVu Sans"}):
        yield


def panels(
    width: float, height: float, *, heights: Sequence[float] = (1.0,), shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches with panels under each other, of these relative heights; `shared` is the x axis."""
    made = figure(width, height)
    axes = made.subplots(len(heights), 1, squeeze=False, sharex=shared, height_ratios=list(heights))
    return made, list(axes.flat)


def fitted(text: str, inches: float) -> str:
    """The text on as many lines as it needs beside an axis of so many inches, at the size of text of now."""
    em = float(mpl.rcParams["font.size"]) / 72
    joined = text.replace(" %", "\N{NO-BREAK SPACE}%")
    return "\n".join(textwrap.wrap(joined, max(12, int(inches / (_ADVANCE * em))), break_long_words=False))


def legend(axes: Axes) -> None:
    """The names of the lines, as they are written; none for a single line."""
    if len(axes.get_legend_handles_labels()[1]) > 1:
        made = axes.legend(frameon=False)
        literal(made.get_texts())
