"""Scores and paired differences with their 95 % intervals, one picture for each measure.

Proxy and final are never on one axis: they ask other questions, so their numbers don't compare. References are
diamonds, and their means go through the picture as dashed lines. Differences have an axis of their own, with zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from scipy.special import stdtrit

from opd.records.reports import Compared, ReferenceLine, Report, Scored
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
)
from opd.view.svg import INK, figure, styled
from opd.view.terminal.plain import shown
from opd.view.words import chance, interval, number, signed

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A score, ours or published."""

    name: str
    mean: float
    ends: Ends | None
    text: str
    kind: Literal["score", "official", "reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The scores of one measure, and nothing that was measured otherwise."""

    title: str
    metric: str
    rows: tuple[Row, ...]
    tests: tuple[Compared, ...]
    missing: tuple[str, ...]  # measurements without a score, each with the reason


def panels(report: Report) -> tuple[Panel, ...]:
    """Proxy and final, each where there is a score of our own."""
    found = (
        _panel(report, "proxy", "Proxy scores", report.proxy_metric, report.proxies),
        _panel(report, "final", "Final scores", report.final_metric, report.finals),
    )
    return tuple(one for one in found if any(row.kind != "reference" for row in one.rows))


def forest_picture(panel: Panel, *, narrow: bool) -> Drawn:
    """The scores of one measure, and below them the differences that were tested."""
    rows, tests = panel.rows, panel.tests
    with styled():
        size = 0.56 if narrow else 0.36
        height = 0.9 + size * len(rows) + ((0.9 + size * len(tests)) if tests else 0.0)
        made = figure(WIDTHS["narrow" if narrow else "wide"], height)
        ratios = [len(rows) + 1, len(tests) + 1] if tests else [1]
        parts = made.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
        _draw_scores(parts[0], rows, narrow=narrow)
        unit = "" if narrow else f"{shown(panel.metric, longest=40)}, "
        parts[0].set_xlabel(f"{unit}share of samples right; lines: 95 %", fontsize=10)
        if tests:
            _draw_differences(parts[1], tests, narrow=narrow)
            paired = "difference of shares" + ("" if narrow else ", paired by question")
            parts[1].set_xlabel(f"{paired}; lines: 95 %", fontsize=10)
        for axes in parts:
            literal([*axes.texts, axes.xaxis.label])
    scores = "; ".join(f"{one.name}: {one.text}, 95 % interval {interval(one.ends, digits=4)}" for one in rows)
    differences = "; ".join(f"{difference_name(one)}: {difference_text(one)}" for one in tests)
    return Drawn(made=made, title=panel.title, said=". ".join(filter(None, (scores, differences))) + ".")


def difference_name(one: Compared) -> str:
    """Which is taken from which; the matched control is named as that."""
    return f"{one.b} − {one.a}{', its matched control' if one.matched else ''}"


def difference_text(one: Compared) -> str:
    """The difference with its interval, p, and what that comes to."""
    told = {True: "distinguishable", False: "not distinguishable", None: "undefined"}[one.distinguishable]
    return f"{signed(one.difference, 4)} [{interval(one.ci95, difference=True, digits=4)}], {chance(one.p)}, {told}"


def reference_ends(one: ReferenceLine, *, questions: int) -> Ends | None:
    """Mean ± t(questions - 1) × its published error, as of a score; None where no error was published."""
    if one.stderr is None or questions < 2:
        return None
    reach = float(stdtrit(questions - 1, 0.975)) * one.stderr
    return one.score - reach, one.score + reach


def _panel(report: Report, of: Literal["proxy", "final"], title: str, metric: str, scores: Sequence[Scored]) -> Panel:
    questions = next((one.questions for one in scores if one.questions is not None), 0)
    references = [_reference(one, questions=questions) for one in report.references if one.of == of]
    return Panel(
        title=title,
        metric=metric,
        rows=(*references, *(_score(one, one.mean) for one in scores if one.mean is not None)),
        tests=tuple(one for one in report.comparisons if one.of == of),
        missing=tuple(f"{one.label}: {one.missing}" for one in scores if one.mean is None),
    )


def _reference(one: ReferenceLine, *, questions: int) -> Row:
    error = "no error published" if one.stderr is None else f"± {number(one.stderr, 4)}"
    counted = f" ({one.correct}/{one.samples})" if one.correct is not None else ""
    return Row(
        name=one.name,
        mean=one.score,
        ends=reference_ends(one, questions=questions),
        text=f"{number(one.score, 4)} {error}{counted}",
        kind="reference",
    )


def _score(one: Scored, mean: float) -> Row:
    error = "error undefined" if one.stderr is None else f"± {number(one.stderr, 4)}"
    return Row(
        name=f"{one.label}{', official' if one.official else f', {_short(one.what)}' if one.of == 'proxy' else ''}",
        mean=mean,
        ends=one.ci95,
        text=f"{number(mean, 4)} {error} ({one.correct}/{one.samples})",
        kind="official" if one.official else "score",
    )


def _short(path: str) -> str:
    """The last two parts of what the explorer named: `reward/checkpoint-40`."""
    return "/".join(path.rstrip("/").split("/")[-2:])


_LOOKS = {"reference": (GREY, "D"), "score": (BLUE, "o"), "official": (ORANGE, "*")}


def _draw_scores(axes: Axes, rows: Sequence[Row], *, narrow: bool) -> None:
    for place, one in enumerate(rows):
        colour, marker = _LOOKS[one.kind]
        if one.kind == "reference":
            axes.axvline(one.mean, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        _point(axes, place, one.mean, one.ends, colour=colour, marker=marker)
        _words(axes, place, one.name, one.text, narrow=narrow)
    lanes(axes, ["" if narrow else shown(one.name, longest=44) for one in rows])
    _frame(axes, len(rows), [(one.mean, one.ends) for one in rows], narrow=narrow)


def _draw_differences(axes: Axes, tests: Sequence[Compared], *, narrow: bool) -> None:
    axes.axvline(0, color=INK, linewidth=1)
    for place, one in enumerate(tests):
        _point(axes, place, one.difference, one.ci95, colour=BLUE, marker="s" if one.distinguishable else "o")
        _words(axes, place, difference_name(one), difference_text(one), narrow=narrow)
    lanes(axes, ["" if narrow else shown(difference_name(one), longest=44) for one in tests])
    _frame(axes, len(tests), [(0.0, None), *((one.difference, one.ci95) for one in tests)], narrow=narrow)


def _point(axes: Axes, place: int, mean: float, ends: Ends | None, *, colour: str, marker: str) -> None:
    if ends is not None:
        axes.hlines(place, *ends, color=INK, linewidth=1.2)
        axes.vlines(ends, place - 0.12, place + 0.12, color=INK, linewidth=1.2)
    axes.plot(mean, place, marker=marker, markersize=11 if marker == "*" else 7, color=colour, linestyle="none")


def _words(axes: Axes, place: int, name: str, text: str, *, narrow: bool) -> None:
    """The numbers of a row: at the right, or with its name above it where it is narrow."""
    axes.annotate(
        f"{shown(name, longest=30)}: {text.partition(' [')[0]}" if narrow else text,
        (0, place) if narrow else (1, place),
        (0, 12) if narrow else (10, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        fontsize=NARROW_TEXT if narrow else SMALL,
        annotation_clip=False,
    )


def _frame(axes: Axes, rows: int, drawn: Sequence[tuple[float, Ends | None]], *, narrow: bool) -> None:
    ends = [end for mean, both in drawn for end in (both or (mean, mean))]
    spare = max(0.08 * (max(ends) - min(ends)), 0.005)
    axes.set_xlim(min(ends) - spare, max(ends) + spare)
    axes.set_ylim(rows - 0.5, -0.8 if narrow else -0.6)
    axes.xaxis.set_major_locator(round_ticks(4 if narrow else 9))
    ruled(axes, "x")
