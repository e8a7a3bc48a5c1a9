"""What training runs wrote about themselves, step by step, and how much of the data they saw.

These are claims of the candidate's own code: nobody measured them. A long run is drawn in bins, the mean of each as a
line and its least and greatest as a band, so that a spike is never averaged away.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from opd.records.reports import Coverage
from opd.view.attempts.drawing import BLUE, COLOURS, GREY, SMALL, WIDTHS, Drawn, entitle, round_ticks
from opd.view.attempts.files import Series
from opd.view.attempts.rows import Label, Rows
from opd.view.plain import shown
from opd.view.svg import INK, figure, literal, ruled, styled
from opd.view.words import percent, small

METRICS: Mapping[str, str] = {
    "kl": "KL to the teacher, nats a token",
    "loss": "loss, objective's mean a token",
    "gradient_norm": "gradient norm before clipping",
    "mean_tokens": "length, tokens a rollout",
    "cut_short": "cut short, share of rollouts",
    "reward": "task reward, mean of a step",
}
"""What is drawn, with its unit, where a run has it."""

MOST_BINS = 240
MOST_PROBES = 9  # lines that can be told apart in one picture
_LONGEST_NAME = 36  # characters of a line's name in a legend
_LEAST = 0.6  # points, of a part of a strip: also one row of thousands can be seen
_DASHES = ("solid", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 1.5, 1.5, 1.5)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Steps that are drawn as one place."""

    step: float
    mean: float
    least: float
    greatest: float


def binned(steps: Sequence[int], values: Sequence[float | None], *, most: int = MOST_BINS) -> tuple[Bin, ...]:
    """At most so many bins of as many steps each, the last may be shorter; a step without a value is in none."""
    known = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
    size = max(1, math.ceil(len(known) / most))
    groups = [known[at : at + size] for at in range(0, len(known), size)]
    return tuple(
        Bin(
            step=sum(step for step, _ in group) / len(group),
            mean=sum(value for _, value in group) / len(group),
            least=min(value for _, value in group),
            greatest=max(value for _, value in group),
        )
        for group in groups
    )


def run_picture(told: Series, *, narrow: bool) -> Drawn:
    """A small picture for each metric that the run has, over its steps."""
    names = [name for name in METRICS if any(value is not None for value in told.values.get(name, ()))]
    columns = 1 if narrow else 3
    rows = math.ceil(len(names) / columns)
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], 0.2 + 2.1 * rows)
        panels = made.subplots(rows, columns, squeeze=False)
        for place, axes in enumerate(panels.flat):
            if place >= len(names):
                axes.set_visible(False)
                continue
            _draw_bins(axes, binned(told.steps, told.values[names[place]]))
            axes.set_title(METRICS[names[place]], loc="left", fontsize=10.5)
            axes.set_xlabel("step", fontsize=10)
    ends = "; ".join(_ends(name, told) for name in names)
    return Drawn(
        made=made,
        title=f"What {shown(told.label)} wrote about its steps",
        said=f"{len(told.steps):,} steps up to {max(told.steps):,}. {ends}.",
    )


def probes_picture(told: Sequence[Series], *, metric: str, narrow: bool) -> Drawn:
    """One metric of several runs on one axis, named beside the picture."""
    drawn = told[:MOST_PROBES]
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], 3.4 if narrow else 2.9)
        axes = made.subplots()
        looks = zip(drawn, cycle(COLOURS), (dash for dash in _DASHES for _ in COLOURS), strict=False)
        for one, colour, dash in looks:
            bins = binned(one.steps, one.values[metric])
            name, places = shown(one.label, longest=_LONGEST_NAME), [each.step for each in bins]
            axes.plot(
                places, [each.mean for each in bins], color=colour, linestyle=dash, linewidth=1.8, label=name,
                marker="o" if len(bins) == 1 else None,
            )  # fmt: skip
        axes.set_title(METRICS[metric], loc="left", fontsize=10.5)
        axes.set_xlabel("step", fontsize=SMALL)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        axes.yaxis.set_major_locator(round_ticks(5))
        axes.tick_params(labelsize=SMALL)
        axes.margins(x=0.01)
        ruled(axes, "y")
        _name_lines(made, axes, drawn, narrow=narrow)
    said = "; ".join(_ends(metric, one) for one in drawn)
    return Drawn(made=made, title=f"{METRICS[metric]}, of the explorer's own trainings", said=said)


def _name_lines(made: Figure, axes: Axes, drawn: Sequence[Series], *, narrow: bool) -> None:
    """A legend: below a narrow picture, in two columns where the names are short, else beside it."""
    short = all(len(one.label) <= _LONGEST_NAME // 2 for one in drawn)
    legend = made.legend(
        handles=axes.get_lines(),
        loc="outside lower left" if narrow else "outside right upper",
        frameon=False,
        fontsize=SMALL,
        ncols=2 if narrow and short else 1,
    )
    literal(legend.get_texts())
    for text, one in zip(legend.get_texts(), drawn, strict=True):
        entitle(text, one.label)


def rows_picture(told: Sequence[Coverage], *, narrow: bool) -> Drawn:
    """A strip for each run: the whole file, and what it saw of it. A prefix is a block, shuffled rows are a comb."""
    labels = [Label(name=one.label, words=f"{_seen(one)}, {percent(one.rows_seen / one.rows)}") for one in told]
    rows = Rows(labels=labels, narrow=narrow)
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], rows.inches + 0.7)
        axes = made.subplots()
        for place, one in enumerate(told):
            low = place - rows.bar / 2
            axes.barh(place, one.rows, height=rows.bar, facecolor="none", edgecolor=GREY, linewidth=0.8)
            axes.broken_barh(seen_parts(one), (low, rows.bar), color=BLUE, linewidth=_LEAST)
        axes.set_xlim(0, max(one.rows for one in told))
        axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, integer=True))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("training rows, by their place in the file", fontsize=SMALL)
        axes.tick_params(axis="x", labelsize=SMALL)
        rows.lay(axes)
    said = "; ".join(f"{shown(one.label)}: {_seen(one)}" for one in told)
    return Drawn(made=made, title="How much of the data each run saw", said=said)


def _seen(one: Coverage) -> str:
    return f"{one.rows_seen:,} of {one.rows:,} rows, {_order(one)}"


def seen_parts(one: Coverage, *, teeth: int = 60) -> list[tuple[float, float]]:
    """Start and length of each part that was seen. Where the rows are shuffled it is spread over the file evenly."""
    if not one.shuffled or one.rows_seen >= one.rows:
        return [(0.0, float(one.rows_seen))]
    pitch = one.rows / teeth
    return [(tooth * pitch, pitch * one.rows_seen / one.rows) for tooth in range(teeth)]


def _order(one: Coverage) -> str:
    if one.rows_seen >= one.rows:
        return "all of them"
    return {True: "shuffled", False: "always the first", None: "in an unknown order"}[one.shuffled]


def _draw_bins(axes: Axes, bins: Sequence[Bin]) -> None:
    places = [one.step for one in bins]
    if any(one.greatest > one.least for one in bins):
        lows, highs = [one.least for one in bins], [one.greatest for one in bins]
        axes.fill_between(places, lows, highs, color=BLUE, alpha=0.25, linewidth=0)
    marker = "o" if len(bins) == 1 else None
    axes.plot(places, [one.mean for one in bins], color=BLUE, linewidth=1.5, marker=marker)
    axes.axhline(0, color=INK, alpha=0.35, linewidth=0.6)
    if min(one.least for one in bins) >= 0:
        axes.set_ylim(0, 1.08 * max(one.greatest for one in bins) or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(round_ticks(4))
    axes.tick_params(labelsize=SMALL)
    axes.margins(x=0.01)
    ruled(axes, "y")


def _ends(name: str, told: Series) -> str:
    known = [value for value in told.values[name] if value is not None]
    ends = f"{small(known[0])} first, {small(known[-1])} last" if known else "never"
    return f"{shown(told.label)}, {METRICS[name]}: {ends}"
