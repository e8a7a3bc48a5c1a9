"""All stages of an attempt, end to end: how long each try was active, what it was given, and how it ended."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from opd.records.reports import StageSpan
from opd.view.attempts.drawing import BLUE, GREY, ORANGE, SMALL, WIDTHS, Drawn, round_ticks, time_scale
from opd.view.attempts.files import StageFacts
from opd.view.attempts.rows import Label, Rows
from opd.view.svg import figure, styled
from opd.view.words import duration

ENDED_WELL = frozenset(
    {"submitted", "no_candidate", "sealed", "completed", "valid", "scored", "assessed", "rendered"}
)
"""Outcomes of tries that are no failure; every other has a cross."""


def stages_picture(stages: Sequence[StageSpan], facts: Mapping[str, StageFacts], *, narrow: bool) -> Drawn:
    """A bar for each try of each stage, end to end in the order in which they began; a failure has a cross."""
    scale = time_scale(sum(one.active_seconds for one in stages))
    rows = Rows(
        labels=[Label(name=one.name, words=_words(one, facts.get(one.name))) for one in stages], narrow=narrow
    )
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], rows.inches + 0.7)
        axes = made.subplots()
        began = reach = 0.0
        for place, one in enumerate(stages):
            given = facts[one.name].given_seconds if one.name in facts else one.active_seconds
            _draw_try(axes, one, place, began=began, given=given, unit=scale.seconds, height=rows.bar)
            reach = max(reach, began + given, began + one.active_seconds)
            began += one.active_seconds
        axes.set_xlim(0, max(reach, 1.0) / scale.seconds)
        axes.xaxis.set_major_locator(round_ticks(6 if narrow else 10))
        axes.set_xlabel(f"active time of the attempt, {scale.name}; frames: given", fontsize=SMALL)
        axes.tick_params(axis="x", labelsize=SMALL)
        rows.lay(axes)
        rows.rule(axes)
    said = "; ".join(f"{one.name}: {one.outcome}, {duration(one.active_seconds)}" for one in stages)
    return Drawn(made=made, title="The stages, end to end", said=f"{said}.")


def _draw_try(
    axes: Axes, one: StageSpan, place: int, *, began: float, given: float, unit: float, height: float
) -> None:
    began, given, length = began / unit, given / unit, one.active_seconds / unit
    well = one.outcome in ENDED_WELL
    colour = BLUE if well and one.counts else GREY
    if given > length:
        axes.barh(place, given, left=began, height=height, facecolor="none", edgecolor=GREY, linewidth=0.8)
    axes.barh(place, length, left=began, height=height, color=colour, alpha=0.9)
    axes.vlines(began, place - height / 2, place + height / 2, color=colour, linewidth=1.5)
    if not well:
        axes.plot(began + length, place, marker="X", markersize=8, color=ORANGE, clip_on=False, linestyle="none")


def _words(one: StageSpan, facts: StageFacts | None) -> str:
    share = f" of {facts.given_seconds:,.0f} s" if facts is not None else ""
    steps = f"; checkpoints {', '.join(str(step) for step in facts.steps)}" if facts and facts.steps else ""
    history = "" if one.counts else "; history"
    return f"{one.outcome.replace('_', ' ')}, {one.active_seconds:,.0f} s{share}{steps}{history}"
