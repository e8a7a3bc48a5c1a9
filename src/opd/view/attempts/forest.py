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
from opd.view.attempts.drawing import BLUE, GREY, ORANGE, SMALL, WIDTHS, Drawn, round_ticks
from opd.view.attempts.rows import Label, Rows
from opd.view.plain import shown
from opd.view.svg import INK, figure, literal, styled
from opd.view.words import chance, interval, number, short_place, signed

Ends = tuple[float, float]

_AXIS = 0.6  # inches, of an axis below its rows


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
    scored = Rows(labels=[Label(name=one.name, words=one.text) for one in panel.rows], narrow=narrow)
    tested = Rows(
        labels=[Label(name=difference_name(one), words=difference_text(one)) for one in panel.tests], narrow=narrow
    )
    shown_rows = [scored, tested] if panel.tests else [scored]
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], sum(one.inches + _AXIS for one in shown_rows))
        heights = [one.inches for one in shown_rows]
        parts = made.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        _draw_scores(parts[0], panel.rows, scored)
        unit = "" if narrow else f"{shown(panel.metric, longest=40)}, "
        parts[0].set_xlabel(f"{unit}share of samples right; lines: 95 % intervals", fontsize=SMALL)
        if panel.tests:
            _draw_differences(parts[1], panel.tests, tested)
            parts[1].set_xlabel("difference of shares, paired; lines: 95 % intervals", fontsize=SMALL)
        for axes in parts:
            axes.tick_params(axis="x", labelsize=SMALL)
            literal([axes.xaxis.label])
    scores = "; ".join(f"{one.name}: {one.text}, 95 % interval {interval(one.ends, digits=4)}" for one in panel.rows)
    differences = "; ".join(f"{difference_name(one)}: {difference_text(one)}" for one in panel.tests)
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
    counted = f" ({one.correct:,}/{one.samples:,})" if one.correct is not None else ""
    return Row(
        name=one.name,
        mean=one.score,
        ends=reference_ends(one, questions=questions),
        text=f"{number(one.score, 4)} {error}{counted}",
        kind="reference",
    )


def _score(one: Scored, mean: float) -> Row:
    error = "error undefined" if one.stderr is None else f"± {number(one.stderr, 4)}"
    said = ", official" if one.official else f", {short_place(one.what)}" if one.of == "proxy" else ""
    return Row(
        name=f"{one.label}{said}",
        mean=mean,
        ends=one.ci95,
        text=f"{number(mean, 4)} {error} ({one.correct:,}/{one.samples:,})",
        kind="official" if one.official else "score",
    )


_LOOKS = {"reference": (GREY, "D"), "score": (BLUE, "o"), "official": (ORANGE, "*")}


def _draw_scores(axes: Axes, scores: Sequence[Row], rows: Rows) -> None:
    for place, one in enumerate(scores):
        colour, marker = _LOOKS[one.kind]
        if one.kind == "reference":
            rows.across(axes, [one.mean], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        _point(axes, place, one.mean, one.ends, rows=rows, colour=colour, marker=marker)
    _frame(axes, [(one.mean, one.ends) for one in scores], rows)


def _draw_differences(axes: Axes, tests: Sequence[Compared], rows: Rows) -> None:
    rows.across(axes, [0.0], color=INK, linewidth=1)
    for place, one in enumerate(tests):
        marker = "s" if one.distinguishable else "o"
        _point(axes, place, one.difference, one.ci95, rows=rows, colour=BLUE, marker=marker)
    _frame(axes, [(0.0, None), *((one.difference, one.ci95) for one in tests)], rows)


def _point(axes: Axes, place: int, mean: float, ends: Ends | None, *, rows: Rows, colour: str, marker: str) -> None:
    rows.whisker(axes, place, ends)
    axes.plot(mean, place, marker=marker, markersize=11 if marker == "*" else 7, color=colour, linestyle="none")


def _frame(axes: Axes, drawn: Sequence[tuple[float, Ends | None]], rows: Rows) -> None:
    ends = [end for mean, both in drawn for end in (both or (mean, mean))]
    spare = max(0.08 * (max(ends) - min(ends)), 0.005)
    axes.set_xlim(min(ends) - spare, max(ends) + spare)
    axes.xaxis.set_major_locator(round_ticks(4 if rows.narrow else 9))
    rows.lay(axes)
    rows.rule(axes)
