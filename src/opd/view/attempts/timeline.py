"""Where the time of an exploration went, second by second.

score       proxies at the time at which they were measured, with their 95 % intervals
device      in use │ evaluation │ idle
trainings   each command that asked for the device, to its end where that is known
units       U-01 │ U-02 │ … as the analysis tells them
notes       the explorer's own words, by number
            ………………………………………………… submitted ┆ what was left of the budget
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from opd.records.reports import Activity, Exploring, Moment, Scored, Stretch, Unit
from opd.view.attempts.drawing import (
    BLUE,
    GREY,
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
from opd.view.svg import INK, figure, styled
from opd.view.terminal.plain import shown
from opd.view.words import interval, number

_FILLS: Mapping[str, dict[str, Any]] = {
    "in use": {"facecolor": BLUE, "edgecolor": "none", "linewidth": 0},
    "evaluation": {"facecolor": ORANGE, "edgecolor": "none", "linewidth": 0},
    "idle": {"facecolor": "none", "edgecolor": GREY, "linewidth": 0.5, "hatch": "////"},
}
Part = tuple[float, float]  # begin and end, seconds

_CROWDED = 12  # labels beside points: beyond so many they cover each other


def exploration_picture(
    told: Exploring, proxies: Sequence[Scored], units: Sequence[Unit], *, metric: str, narrow: bool
) -> Drawn:
    """The scores of the proxies above what the device did, on one axis of time."""
    scale = time_scale(told.given_seconds)
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], 5.2 if narrow else 4.9)
        upper, lower = made.subplots(2, 1, sharex=True, height_ratios=[1, 1])
        _draw_scores(upper, placed(told.stretches, proxies), seconds=scale.seconds, unit=metric, narrow=narrow)
        _draw_lanes(lower, told, units, seconds=scale.seconds, narrow=narrow)
        for axes in (upper, lower):
            _draw_end(axes, told, seconds=scale.seconds, labelled=axes is upper)
        lower.set_xlim(0, max(told.given_seconds, told.used_seconds) / scale.seconds)
        lower.set_xlabel(f"time since the exploration began, {scale.name}")
        handles = [Patch(label=f"device: {name}", **fill) for name, fill in _FILLS.items()]
        made.legend(
            handles=handles, loc="outside lower center", ncols=2 if narrow else 3, frameon=False, fontsize=SMALL
        )
    return Drawn(made=made, title="The exploration over time", said=_said(told, proxies))


def placed(stretches: Sequence[Stretch], proxies: Sequence[Scored]) -> tuple[tuple[float, int, Scored], ...]:
    """When each measurement ended, its number in order, and what it came to; they are matched by the checkpoint."""
    left = [one for one in stretches if one.activity is Activity.EVALUATION]
    found = []
    for number_, proxy in enumerate(proxies, start=1):
        its = next((one for one in left if one.label == proxy.what), None)
        if its is not None:
            left.remove(its)
            found.append((its.end_seconds, number_, proxy))
    return tuple(found)


def notes(told: Exploring) -> tuple[Moment, ...]:
    """What is numbered in the lane of notes, and listed below the picture."""
    return tuple(one for one in told.moments if one.kind == "note")


def _draw_scores(
    axes: Axes, found: Sequence[tuple[float, int, Scored]], *, seconds: float, unit: str, narrow: bool
) -> None:
    scored = [(at, name, one, one.mean) for at, name, one in found if one.mean is not None]
    for at, name, one, mean in scored:
        low, high = one.ci95 or (mean, mean)
        axes.vlines(at / seconds, low, high, color=INK, linewidth=1.2)
        axes.plot(at / seconds, mean, marker="o", markersize=6, color=ORANGE, linestyle="none")
        if len(scored) <= _CROWDED:
            text = str(name) if narrow else f"{name}: {number(mean, 4)}"
            axes.annotate(text, (at / seconds, mean), (6, 4), textcoords="offset points", fontsize=SMALL)
    for at, _, one in found:
        if one.mean is None:
            axes.plot(at / seconds, 0.06, marker="x", color=INK, transform=axes.get_xaxis_transform())
    if not scored:
        axes.text(0.5, 0.5, "nothing was measured with a score", transform=axes.transAxes, ha="center")
        axes.set_yticks([])
    else:
        axes.yaxis.set_major_locator(round_ticks(5))
    axes.margins(y=0.25)
    if not narrow:
        literal([axes.set_title(shown(unit, longest=60), loc="left", fontsize=SMALL)])
    axes.set_ylabel("share of samples\nright; lines: 95 %", fontsize=SMALL)
    ruled(axes, "y")


def device_parts(told: Exploring) -> dict[str, tuple[Part, ...]]:
    """Begin and end of what the device did, from the start of the explorer to its end, each second once.

    An evaluation is one all the way, also where it left the device idle; what is neither one nor idle is use.
    """

    def parts(kind: Activity) -> tuple[Part, ...]:
        own = [(one.begin_seconds, one.end_seconds) for one in told.stretches if one.activity is kind]
        return _joined(own, end=told.used_seconds)

    evaluation, idle = parts(Activity.EVALUATION), parts(Activity.IDLE)
    free = _between(evaluation, end=told.used_seconds)
    return {
        "in use": _common(free, _between(idle, end=told.used_seconds)),
        "evaluation": evaluation,
        "idle": _common(free, idle),
    }


def _joined(parts: Sequence[Part], *, end: float) -> tuple[Part, ...]:
    """The same in order, up to the end; those that touch are one."""
    found: list[Part] = []
    for begin, until in sorted((begin, min(end, until)) for begin, until in parts):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        elif until > begin:
            found.append((begin, until))
    return tuple(found)


def _between(parts: Sequence[Part], *, end: float) -> tuple[Part, ...]:
    """What joined parts leave free, from zero to the end."""
    edges = [0.0, *(edge for part in parts for edge in part), end]
    return tuple((begin, until) for begin, until in zip(edges[::2], edges[1::2], strict=True) if until > begin)


def _common(these: Sequence[Part], those: Sequence[Part]) -> tuple[Part, ...]:
    """What lies in both of two sequences of joined parts."""
    pairs = ((max(a, c), min(b, d)) for a, b in these for c, d in those)
    return tuple((begin, until) for begin, until in pairs if until > begin)


def _draw_lanes(axes: Axes, told: Exploring, units: Sequence[Unit], *, seconds: float, narrow: bool) -> None:
    """From above: the device, the trainings, the units, the notes; those that there are."""
    trained = any(one.activity is Activity.TRAINING for one in told.stretches)
    drawn: list[tuple[str, bool, Callable[[int], None]]] = [
        ("device", True, lambda lane: _draw_device(axes, told, lane, seconds=seconds)),
        ("trainings", trained, lambda lane: _draw_trainings(axes, told, lane, seconds=seconds)),
        ("units", bool(units), lambda lane: _draw_units(axes, units, lane, seconds=seconds, narrow=narrow)),
        ("notes", bool(notes(told)), lambda lane: _draw_notes(axes, notes(told), lane, seconds=seconds)),
    ]
    there = [(name, draw) for name, is_there, draw in drawn if is_there]
    for lane, (_, draw) in enumerate(there):
        draw(lane)
    lanes(axes, [name for name, _ in there])


def _draw_device(axes: Axes, told: Exploring, lane: int, *, seconds: float) -> None:
    for name, parts in device_parts(told).items():
        places = [(begin / seconds, (end - begin) / seconds) for begin, end in parts]
        axes.broken_barh(places, (lane - 0.34, 0.68), **_FILLS[name])


def _draw_trainings(axes: Axes, told: Exploring, lane: int, *, seconds: float) -> None:
    for one in told.stretches:
        if one.activity is Activity.TRAINING:
            begin, end = one.begin_seconds / seconds, one.end_seconds / seconds
            axes.hlines(lane, begin, end, color=BLUE, linewidth=3)
            axes.vlines(begin, lane - 0.26, lane + 0.26, color=BLUE, linewidth=1.5)


def _draw_units(axes: Axes, units: Sequence[Unit], lane: int, *, seconds: float, narrow: bool) -> None:
    for one in units:
        begin, end = one.begin_seconds / seconds, one.end_seconds / seconds
        axes.barh(lane, end - begin, left=begin, height=0.6, facecolor="none", edgecolor=GREY, linewidth=0.8)
        if len(units) <= _CROWDED:
            name = one.id.rpartition("-")[2].lstrip("0") if narrow else one.id
            axes.annotate(name, ((begin + end) / 2, lane), ha="center", va="center", fontsize=SMALL)


def _draw_notes(axes: Axes, noted: Sequence[Moment], lane: int, *, seconds: float) -> None:
    for rank, note in enumerate(noted, start=1):
        place = (note.at_seconds / seconds, lane)
        axes.plot(*place, marker="v", markersize=5, color=INK, linestyle="none")
        if len(noted) <= _CROWDED:
            axes.annotate(str(rank), place, (5, -3), textcoords="offset points", fontsize=SMALL)


def _draw_end(axes: Axes, told: Exploring, *, seconds: float, labelled: bool) -> None:
    """A line where it ended, and what was left of its budget behind it."""
    end, left = told.used_seconds / seconds, max(0.0, told.given_seconds - told.used_seconds)
    axes.axvline(end, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    if left:
        axes.axvspan(end, told.given_seconds / seconds, facecolor=GREY, alpha=0.14, linewidth=0)
    if labelled:
        late = end > told.given_seconds / seconds / 2
        axes.annotate(
            f"{ending(told)}, {left:,.0f} s left",
            (end, 1.0),
            (-4 if late else 4, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right" if late else "left",
            fontsize=SMALL,
            annotation_clip=False,
        )


def ending(told: Exploring) -> str:
    """How the exploration ended, by the last of its moments that is no note."""
    kinds = [one.kind for one in told.moments if one.kind != "note"]
    words = {"submit": "submitted", "no-candidate": "no candidate", "deadline": "the budget ended"}
    return words[kinds[-1]] if kinds else "ended"


def _said(told: Exploring, proxies: Sequence[Scored]) -> str:
    scores = "; ".join(f"{one.label}: {score_words(one)}" for one in proxies)
    return (
        f"{told.name}: {ending(told)} after {told.used_seconds:,.0f} s of {told.given_seconds:,.0f} s; the device "
        f"was idle for {told.idle_seconds:,.0f} s. Proxies: {scores or 'none'}."
    )


def score_words(one: Scored) -> str:
    """A score with its interval, or why there is none."""
    if one.mean is None:
        return f"no score, {one.missing}"
    return f"{number(one.mean, 4)}, 95 % interval {interval(one.ci95, digits=4)}"
