"""What training runs wrote about themselves, step by step, and how much of the data they saw.

These are claims of the candidate's own code: nobody measured them. A long run is drawn in bins, the mean of each as a
line and its least and greatest as a band, so that a spike is never averaged away.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from opd.records.reports import Coverage
from opd.view.attempts.drawing import (
    BLUE,
    COLOURS,
    GREY,
    NARROW_TEXT,
    SMALL,
    WIDTHS,
    Drawn,
    lanes,
    literal,
    round_ticks,
    ruled,
)
from opd.view.attempts.files import Series
from opd.view.svg import INK, figure, styled
from opd.view.terminal.plain import shown
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
            name, places = shown(one.label, longest=28), [each.step for each in bins]
            axes.plot(
                places, [each.mean for each in bins], color=colour, linestyle=dash, linewidth=1.8, label=name,
                marker="o" if len(bins) == 1 else None,
            )  # fmt: skip
        axes.set_xlabel("step")
        axes.set_ylabel(METRICS[metric], fontsize=10.5)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(round_ticks(5))
        axes.margins(x=0.01)
        ruled(axes, "y")
        legend = made.legend(
            handles=axes.get_lines(),
            loc="outside lower center" if narrow else "outside right upper",
            frameon=False,
            fontsize=SMALL,
            ncols=2 if narrow else 1,
        )
        literal(legend.get_texts())
    said = "; ".join(_ends(metric, one) for one in drawn)
    return Drawn(made=made, title=f"{METRICS[metric]}, of the explorer's own trainings", said=said)


def rows_picture(told: Sequence[Coverage], *, narrow: bool) -> Drawn:
    """A strip for each run: the whole file, and what it saw of it. A prefix is a block, shuffled rows are a comb."""
    rows = max(one.rows for one in told)
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], 0.95 + (0.62 if narrow else 0.42) * len(told))
        axes = made.subplots()
        for place, one in enumerate(told):
            low, height = (place - 0.02, 0.34) if narrow else (place - 0.25, 0.5)
            axes.barh(low, one.rows, height=height, align="edge", facecolor="none", edgecolor=GREY, linewidth=0.8)
            axes.broken_barh(seen_parts(one), (low, height), color=BLUE, linewidth=_LEAST)
            text = f"{one.rows_seen:,} of {one.rows:,} rows, {percent(one.rows_seen / one.rows)}, {_order(one)}"
            above = f"{shown(one.label, longest=24)}: {text}" if narrow else text
            at, offset = ((0, place), (0, 8)) if narrow else ((one.rows, place), (8, 0))
            axes.annotate(
                above, at, offset, textcoords="offset points", va="center", fontsize=NARROW_TEXT if narrow else SMALL,
                annotation_clip=False,
            )  # fmt: skip
        lanes(axes, ["" if narrow else shown(one.label, longest=28) for one in told])
        axes.set_ylim(len(told) - 0.5, -0.75)
        axes.set_xlim(0, rows)
        axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, integer=True))
        axes.set_xlabel("training rows, by their place in the file")
        literal(axes.texts)
    said = "; ".join(f"{shown(one.label)}: {one.rows_seen:,} of {one.rows:,} rows, {_order(one)}" for one in told)
    return Drawn(made=made, title="How much of the data each run saw", said=said)


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
