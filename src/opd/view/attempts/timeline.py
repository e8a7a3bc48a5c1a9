"""Where the time of an exploration went, second by second.

score       proxies at the time at which they were measured, with their 95 % intervals
device      in use │ evaluation │ idle
trainings   each command that asked for the device, to its end where that is known
units       U-01 │ U-02 │ … as the analysis tells them
notes       the explorer's own words, by number
            ………………………………………………… submitted ┆ what was left of the budget
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from opd.records.reports import Activity, Exploring, Moment, Scored, Stretch, Unit
from opd.view.attempts.drawing import BLUE, GREY, ORANGE, SMALL, WIDTHS, Drawn, lanes, round_ticks, time_scale
from opd.view.svg import INK, figure, ruled, styled
from opd.view.words import interval, number

_FILLS: Mapping[str, dict[str, Any]] = {
    "in use": {"facecolor": BLUE, "edgecolor": "none", "linewidth": 0},
    "evaluation": {"facecolor": ORANGE, "edgecolor": "none", "linewidth": 0},
    "idle": {"facecolor": "none", "edgecolor": GREY, "linewidth": 0.5, "hatch": "////"},
}
Part = tuple[float, float]  # begin and end, seconds
Side = Literal["left", "center", "right"]

_LETTER = 6.4  # points, the width of one in a picture's text
_GAP = 0.5  # letters, from one label to the next
_NOTE_LETTERS = 6.0  # from one label of notes to the next: `10–12`, and a space
_SHARE = {True: 0.72, False: 0.9}  # of a picture's width that is left to its axis, by whether it is narrow


def exploration_picture(told: Exploring, proxies: Sequence[Scored], units: Sequence[Unit], *, narrow: bool) -> Drawn:
    """The scores of the proxies above what the device did, on one axis of time."""
    scale = time_scale(told.given_seconds)
    room = _Room(seconds=max(told.given_seconds, told.used_seconds), narrow=narrow)
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], 5.2 if narrow else 4.9)
        upper, lower = made.subplots(2, 1, sharex=True, height_ratios=[1, 1])
        _draw_scores(upper, placed(told.stretches, proxies), room, end=told.used_seconds, seconds=scale.seconds)
        _draw_lanes(lower, told, units, room, seconds=scale.seconds)
        for axes in (upper, lower):
            _draw_end(axes, told, seconds=scale.seconds, labelled=axes is upper)
        lower.set_xlim(0, room.seconds / scale.seconds)
        lower.set_xlabel(f"time since the exploration began, {scale.name}", fontsize=SMALL)
        lower.tick_params(axis="x", labelsize=SMALL)
        handles = [Patch(label=f"{_device(told)}: {name}", **fill) for name, fill in _FILLS.items()]
        made.legend(
            handles=handles, loc="outside lower center", ncols=2 if narrow else 3, frameon=False, fontsize=SMALL
        )
    return Drawn(made=made, title="The exploration over time", said=_said(told, proxies))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """How much of a picture a label has for itself."""

    seconds: float  # of the whole axis
    narrow: bool

    def letters(self, seconds: float) -> float:
        """How many letters stand side by side in so much of the axis."""
        points = 72 * WIDTHS["narrow" if self.narrow else "wide"] * _SHARE[self.narrow]
        return seconds / max(self.seconds, 1.0) * points / _LETTER

    def beside(self, at: float, text: str, *, end: float) -> tuple[Side, float]:
        """How a label at this second is aligned to lie between zero and the end, and at which letter it begins."""
        middle, half = self.letters(at), (len(text) + _GAP) / 2
        if middle < half:
            return "left", middle
        return ("right", middle - 2 * half) if middle + half > self.letters(end) else ("center", middle - half)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Label:
    """What stands at a point, and where."""

    text: str
    side: Side
    above: bool


def _device(told: Exploring) -> str:
    """What its lane is called."""
    return "processor" if told.device == "processor" else "device"


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
    axes: Axes, found: Sequence[tuple[float, int, Scored]], room: _Room, *, end: float, seconds: float
) -> None:
    scored = [(at, name, one, one.mean) for at, name, one in found if one.mean is not None]
    for at, _, one, mean in scored:
        low, high = one.ci95 or (mean, mean)
        axes.vlines(at / seconds, low, high, color=INK, linewidth=1.2)
        axes.plot(at / seconds, mean, marker="o", markersize=6, color=ORANGE, linestyle="none")
    for (at, _, one, mean), label in zip(scored, _score_labels(scored, room, end=end), strict=True):
        low, high = one.ci95 or (mean, mean)
        place, offset = ((at / seconds, high), 4) if label.above else ((at / seconds, low), -4)
        axes.annotate(
            label.text, place, (0, offset), textcoords="offset points", ha=label.side, fontsize=SMALL,
            va="bottom" if label.above else "top",
        )  # fmt: skip
    for at, _, one in found:
        if one.mean is None:
            axes.plot(at / seconds, 0.06, marker="x", color=INK, transform=axes.get_xaxis_transform())
    if not scored:
        axes.text(
            0.5, 0.5, "nothing was measured with a score", transform=axes.transAxes, ha="center", fontsize=SMALL
        )
        axes.set_yticks([])
    else:
        axes.yaxis.set_major_locator(round_ticks(5))
    axes.margins(y=0.25)
    axes.tick_params(labelsize=SMALL)
    axes.set_ylabel("share of samples\nright; lines: 95 %", fontsize=SMALL)
    ruled(axes, "y")


def _score_labels(scored: Sequence[tuple[float, int, Scored, float]], room: _Room, *, end: float) -> list[_Label]:
    """`2: 0.8345` above each point; where that has no room its number alone, above or below, or else nothing."""
    long = [f"{name}: {number(mean, 4)}" for _, name, _, mean in scored]
    places = [at for at, *_ in scored]
    if not room.narrow:
        found = list(_beside_each_other(places, long, room, end=end))
        if all(one.text and one.above for one in found):
            return found
    return list(_beside_each_other(places, [str(name) for _, name, *_ in scored], room, end=end))


def _beside_each_other(places: Sequence[float], texts: Sequence[str], room: _Room, *, end: float) -> Iterator[_Label]:
    """The texts so that none touches another: above its point, else below, else none."""
    free = {True: 0.0, False: 0.0}  # the letter at which the next may begin
    for at, text in zip(places, texts, strict=True):
        side, begin = room.beside(at, text, end=end)
        above = next((which for which, letter in free.items() if begin >= letter), None)
        if above is not None:
            free[above] = begin + len(text) + _GAP
        yield _Label(text=text if above is not None else "", side=side, above=above is not False)


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


def _draw_lanes(axes: Axes, told: Exploring, units: Sequence[Unit], room: _Room, *, seconds: float) -> None:
    """From above: the device, the trainings, the units, the notes; those that there are."""
    trained = any(one.activity is Activity.TRAINING for one in told.stretches)
    drawn: list[tuple[str, bool, Callable[[int], None]]] = [
        (_device(told), True, lambda lane: _draw_device(axes, told, lane, seconds=seconds)),
        ("trainings", trained, lambda lane: _draw_trainings(axes, told, lane, seconds=seconds)),
        ("units", bool(units), lambda lane: _draw_units(axes, units, lane, room, seconds=seconds)),
        ("notes", bool(notes(told)), lambda lane: _draw_notes(axes, told, lane, room, seconds=seconds)),
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


def _draw_units(axes: Axes, units: Sequence[Unit], lane: int, room: _Room, *, seconds: float) -> None:
    """A box for each, with its name where that fits: `U-03`, or `3` where one is too short for that."""
    rooms = [room.letters(one.end_seconds - one.begin_seconds) for one in units]
    short = any(len(one.id) + _GAP > free for one, free in zip(units, rooms, strict=True))
    for one, free in zip(units, rooms, strict=True):
        begin, end = one.begin_seconds / seconds, one.end_seconds / seconds
        axes.barh(lane, end - begin, left=begin, height=0.6, facecolor="none", edgecolor=GREY, linewidth=0.8)
        name = one.id.rpartition("-")[2].lstrip("0") if short else one.id
        if len(name) + _GAP <= free:
            place = ((begin + end) / 2, lane)
            axes.annotate(name, place, ha="center", va="center_baseline", fontsize=SMALL)


def _draw_notes(axes: Axes, told: Exploring, lane: int, room: _Room, *, seconds: float) -> None:
    """A mark for each, and below it its number; those of one place share a label: `2–4`."""
    noted = notes(told)
    for note in noted:
        place = (note.at_seconds / seconds, lane - 0.12)
        axes.plot(*place, marker="v", markersize=5, color=INK, linestyle="none", clip_on=False)
    for first, last in _together([room.letters(note.at_seconds) for note in noted]):
        text = str(first + 1) if first == last else f"{first + 1}–{last + 1}"
        middle = (noted[first].at_seconds + noted[last].at_seconds) / 2
        side, _ = room.beside(middle, text, end=told.used_seconds)
        place = (middle / seconds, lane)
        axes.annotate(text, place, (0, -4), textcoords="offset points", ha=side, va="top", fontsize=SMALL)


def _together(places: Sequence[float]) -> Iterator[tuple[int, int]]:
    """First and last of each run of neighbours whose labels would touch; places are in letters, in their order."""
    first = 0
    for here, (before, after) in enumerate(pairwise(places), start=1):
        if after - before > _NOTE_LETTERS:
            yield first, here - 1
            first = here
    if places:
        yield first, len(places) - 1


def _draw_end(axes: Axes, told: Exploring, *, seconds: float, labelled: bool) -> None:
    """A line where it ended, and what was left of its budget behind it."""
    end = told.used_seconds / seconds
    axes.axvline(end, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    if told.given_seconds > told.used_seconds:
        axes.axvspan(end, told.given_seconds / seconds, facecolor=GREY, alpha=0.14, linewidth=0)
    if labelled:
        late = end > told.given_seconds / seconds / 2
        axes.annotate(
            f"{ending(told)}, {told.left_seconds:,.0f} s left",
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
    idle = f"; the device was idle for {told.idle_seconds:,.0f} s" if told.device == "GPU" else ""
    return (
        f"{told.name}: {ending(told)} after {told.used_seconds:,.0f} s of {told.given_seconds:,.0f} s{idle}. "
        f"Proxies: {scores or 'none'}."
    )


def score_words(one: Scored) -> str:
    """A score with its interval, or why there is none."""
    if one.mean is None:
        return f"no score, {one.missing}"
    return f"{number(one.mean, 4)}, 95 % interval {interval(one.ci95, digits=4)}"
