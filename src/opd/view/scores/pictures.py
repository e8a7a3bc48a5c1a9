"""The pictures of a score's report as SVG text: units on the axes, the uncertainty drawn, names as plain text.

Right, wrong and cut short have the same colours everywhere; they differ in lightness as well.
"""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from opd.records.score_report import Interval, LengthBin, QuestionResult, ScoreReport
from opd.view.plain import shown
from opd.view.scores.sections import Section
from opd.view.svg import INK, figure, literal, ruled, styled, svg_text
from opd.view.terminal.bars import Bar
from opd.view.words import number, percent

RIGHT, WRONG, CUT_SHORT = "#2b7fd0", "#c9751c", "#818a94"
NAMED_QUESTIONS = 60  # more names than this can't be read side by side
_WIDTH = 6.6  # inches

Drawn = tuple[Figure, str]  # the picture, and what is said of it to someone who can't see it


def pictures(report: ScoreReport, sections: Sequence[Section], *, standalone: bool = False) -> Mapping[str, str]:
    """An SVG element for each picture that the sections name; standalone ones bring their font and their ink."""
    made = {}
    for section in sections:
        if section.picture is not None:
            drawn, said = _DRAWN.get(section.picture, _bars)(report, section)
            made[section.picture] = svg_text(
                drawn, name=section.picture, title=section.title, description=said, standalone=standalone
            )
    return made


def _questions(report: ScoreReport, _: Section) -> Drawn:
    """A bar for each question, lowest first, with Wilson's interval of its samples."""
    questions = report.by_question
    named = len(questions) <= NAMED_QUESTIONS
    with styled():
        made = figure(_WIDTH, 3.6 if named else 3.0)
        axes = made.subplots()
        (_draw_named if named else _draw_many)(axes, questions)
        axes.set_ylim(0, 1.0)
        axes.set_ylabel("share of samples right")
        axes.axhline(report.mean, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(
            f"mean {number(report.mean)}", xy=(0.01, report.mean), xycoords=("axes fraction", "data"), va="bottom"
        )
        ruled(axes, "y")
    each = f"{report.samples_per_question} samples" if report.samples_per_question else "its samples"
    return (
        made,
        f"{len(questions)} questions from the lowest share right to the highest, with the 95 % interval of {each}.",
    )


def _draw_named(axes: Axes, questions: Sequence[QuestionResult]) -> None:
    places = range(len(questions))
    shares = [one.correct / one.samples for one in questions]
    axes.bar(places, shares, width=0.8, color=RIGHT, alpha=0.75)
    axes.vlines(
        places,
        [one.interval[0] for one in questions],
        [one.interval[1] for one in questions],
        color=INK,
        linewidth=0.9,
    )
    labels = [shown(one.question, longest=18) for one in questions]
    axes.set_xticks(list(places), labels, rotation=90, fontsize=7)
    literal(axes.get_xticklabels())
    axes.set_xlabel("question; lines: 95 % interval from its own samples (Wilson)")
    axes.set_xlim(-0.8, len(questions) - 0.2)


def _draw_many(axes: Axes, questions: Sequence[QuestionResult]) -> None:
    edges = list(range(len(questions) + 1))

    def steps(values: Sequence[float]) -> list[float]:
        return [*values, values[-1]]

    axes.fill_between(
        edges,
        steps([one.correct / one.samples for one in questions]),
        step="post",
        color=RIGHT,
        alpha=0.7,
        linewidth=0,
    )
    axes.fill_between(
        edges,
        steps([one.interval[0] for one in questions]),
        steps([one.interval[1] for one in questions]),
        step="post",
        color=INK,
        alpha=0.22,
        linewidth=0,
    )
    axes.set_xlabel("questions, by their share; grey: 95 % interval of each (Wilson)")
    axes.set_xlim(0, len(questions))


def _lengths(report: ScoreReport, _: Section) -> Drawn:
    """A histogram of lengths: shares of samples, right, wrong and cut short upon each other."""
    said = report.lengths
    assert said is not None, "a section of lengths has lengths"
    with styled():
        made = figure(_WIDTH, 3.2)
        axes = made.subplots()
        bottom = [0.0] * len(said.bins)
        for name, colour, count in _LENGTH_PARTS:
            shares = [count(one) / report.n for one in said.bins]
            if any(shares):
                places, width = [one.least for one in said.bins], said.bins[0].below - said.bins[0].least
                axes.bar(places, shares, width=width * 0.92, bottom=bottom, align="edge", color=colour, label=name)
            bottom = [low + share for low, share in zip(bottom, shares, strict=True)]
        for one in said.bins:
            _line(axes, (one.least + one.below) / 2, one.ci95)
        axes.set_ylim(0, None)
        axes.set_xlabel(f"length of a response, {said.unit}")
        axes.set_ylabel("share of samples; lines: 95 %")
        axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
        ruled(axes, "y")
        axes.legend(frameon=False, fontsize=10)
    return made, f"{said.mean:,.0f} {said.unit} on average, longest {said.longest:,}."


_LENGTH_PARTS: tuple[tuple[str, str, Callable[[LengthBin], int]], ...] = (
    ("right", RIGHT, lambda one: one.correct),
    ("wrong", WRONG, lambda one: one.wrong),
    ("cut short", CUT_SHORT, lambda one: one.cut_short),
)


def _line(axes: Axes, place: float, ends: Interval | None) -> None:
    if ends is not None and ends[1] > ends[0]:
        axes.vlines(place, max(0.0, ends[0]), ends[1], color=INK, linewidth=0.9)


def _tries(report: ScoreReport, _: Section) -> Drawn:
    """pass@k and majority@k over k, with their 95 % intervals over questions."""
    ks = [one.k for one in report.at_k]
    with styled():
        made = figure(_WIDTH, 3.0)
        axes = made.subplots()
        _draw_curve(axes, ks, [(one.pass_at_k, one.pass_ci95) for one in report.at_k], name="pass@k", colour=RIGHT)
        majority = [(one.majority_at_k, one.majority_ci95) for one in report.at_k if one.majority_at_k is not None]
        if len(majority) == len(ks):
            _draw_curve(axes, ks, [(m or 0.0, ci) for m, ci in majority], name="majority@k", colour=WRONG)
        axes.set_xscale("log", base=2)
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.minorticks_off()
        axes.set_xlabel("k, samples of a question")
        axes.set_ylabel("share; bands: 95 %")
        ruled(axes, "y")
        axes.legend(frameon=False, fontsize=10)
    last = report.at_k[-1]
    return made, f"pass@{last.k} {number(last.pass_at_k)}; majority@{last.k} {number(last.majority_at_k)}."


def _draw_curve(
    axes: Axes, ks: Sequence[int], values: Sequence[tuple[float, Interval | None]], *, name: str, colour: str
) -> None:
    known = [(k, ends) for k, (_, ends) in zip(ks, values, strict=True) if ends]
    places, low, high = [k for k, _ in known], [ends[0] for _, ends in known], [ends[1] for _, ends in known]
    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(ks, [value for value, _ in values], color=colour, marker="o", markersize=4, linewidth=1.8, label=name)


def _bars(_: ScoreReport, section: Section) -> Drawn:
    """The section's bars, group under group, each with its 95 % interval."""
    bars = [bar for group in section.bars for bar in group.bars]
    with styled():
        made = figure(_WIDTH, 0.9 + 0.3 * len(bars) + 0.35 * len(section.bars))
        heights = [len(group.bars) + 0.6 for group in section.bars]
        panels = made.subplots(len(section.bars), 1, height_ratios=heights, squeeze=False, sharex=True)
        for axes, group in zip(panels[:, 0], section.bars, strict=True):
            _draw_bars(axes, group.bars)
            axes.set_title(group.caption, loc="left", fontsize=11)
        panels[-1, 0].set_xlabel(f"{_UNITS[section.picture or '']}; lines: 95 % interval")
    return made, "; ".join(f"{bar.label} {percent(bar.value)}" for bar in bars)


_UNITS = {
    "outcomes": "share of all samples",
    "bounds": "score, share of samples right",
    "contamination": "score, share of samples right",
}


def _draw_bars(axes: Axes, bars: Sequence[Bar]) -> None:
    for place, bar in enumerate(bars):
        low, high = bar.interval or (bar.value, bar.value)
        axes.barh(place, bar.value, height=0.62, color=RIGHT, alpha=0.8)
        if high > low:
            axes.hlines(place, max(0.0, low), high, color=INK, linewidth=1.1)
        axes.annotate(
            bar.note,
            xy=(max(bar.value, high), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=10)
    literal([*axes.get_yticklabels(), *axes.texts])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.5)  # room for the note behind a full bar
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    ruled(axes, "x")


_DRAWN: Mapping[str, Callable[[ScoreReport, Section], Drawn]] = {
    "questions": _questions,
    "lengths": _lengths,
    "tries": _tries,
}
