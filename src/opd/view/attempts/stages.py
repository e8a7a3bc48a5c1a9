"""All stages of an attempt, end to end: how long each try was active, what it was given, and how it ended."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from opd.records.reports import StageSpan
from opd.view.attempts.drawing import (
    BLUE,
    GREY,
    NARROW_TEXT,
    ORANGE,
    SMALL,
    WIDTHS,
    Drawn,
    lanes,
    literal,
    round_ticks,
    ruled,
    time_scale,
)
from opd.view.attempts.files import StageFacts
from opd.view.svg import figure, styled
from opd.view.words import duration

ENDED_WELL = frozenset(
    {"submitted", "no_candidate", "sealed", "completed", "valid", "scored", "assessed", "rendered"}
)
"""Outcomes of tries that are no failure; every other has a cross."""


def stages_picture(stages: Sequence[StageSpan], facts: Mapping[str, StageFacts], *, narrow: bool) -> Drawn:
    """A bar for each try of each stage, end to end in the order in which they began; a failure has a cross."""
    total = sum(one.active_seconds for one in stages)
    scale = time_scale(total)
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], 1.0 + (0.52 if narrow else 0.36) * len(stages))
        axes = made.subplots()
        began = reach = 0.0
        for place, one in enumerate(stages):
            given = facts[one.name].given_seconds if one.name in facts else one.active_seconds
            _draw_try(axes, one, place, began=began, given=given, unit=scale.seconds, narrow=narrow)
            _beside(axes, _try_text(one, facts.get(one.name), narrow=narrow), place, narrow=narrow)
            reach = max(reach, began + given, began + one.active_seconds)
            began += one.active_seconds
        lanes(axes, ["" if narrow else one.name for one in stages])
        axes.set_ylim(len(stages) - 0.5, -0.9 if narrow else -0.6)
        axes.set_xlim(0, max(reach, 1.0) / scale.seconds)
        axes.set_xlabel(f"active time of the attempt, {scale.name}" + ("" if narrow else "; frames: what was given"))
        axes.xaxis.set_major_locator(round_ticks(6 if narrow else 10))
        ruled(axes, "x")
        literal(axes.texts)
    said = "; ".join(f"{one.name}: {one.outcome}, {duration(one.active_seconds)}" for one in stages)
    return Drawn(made=made, title="The stages, end to end", said=f"{said}.")


def _draw_try(
    axes: Axes, one: StageSpan, place: float, *, began: float, given: float, unit: float, narrow: bool
) -> None:
    began, given, length = began / unit, given / unit, one.active_seconds / unit
    well = one.outcome in ENDED_WELL
    colour = BLUE if well and one.counts else GREY
    place, height = (place + 0.16, 0.36) if narrow else (place, 0.56)
    if given > length:
        axes.barh(place, given, left=began, height=height, facecolor="none", edgecolor=GREY, linewidth=0.8)
    axes.barh(place, length, left=began, height=height, color=colour, alpha=0.9)
    axes.vlines(began, place - height / 2, place + height / 2, color=colour, linewidth=1.5)
    if not well:
        axes.plot(began + length, place, marker="X", markersize=8, color=ORANGE, clip_on=False, linestyle="none")


def _try_text(one: StageSpan, facts: StageFacts | None, *, narrow: bool) -> str:
    share = f" of {facts.given_seconds:,.0f} s" if facts is not None else ""
    text = f"{one.outcome.replace('_', ' ')}, {one.active_seconds:,.0f} s{share}"
    if narrow:
        return f"{one.name}: {text}"
    steps = f"; checkpoints {', '.join(str(step) for step in facts.steps)}" if facts and facts.steps else ""
    return text + steps + ("" if one.counts else "; history")


def _beside(axes: Axes, text: str, place: int, *, narrow: bool) -> None:
    """The words of a bar: at the right, or above it where it is narrow."""
    axes.annotate(
        text,
        (0, place) if narrow else (1, place),
        (0, 10) if narrow else (10, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        fontsize=NARROW_TEXT if narrow else SMALL,
        annotation_clip=False,
    )
