"""Scores with their 95 % intervals: several side by side, or one question by question."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from opd.records.score_report import QuestionResult
from opd.view.plain import shown
from opd.view.plots.inputs import Named, runs_of, scores_in
from opd.view.plots.plot import COLOURS, WIDTH, Plot, drawing, fitted, panels
from opd.view.programs import report_of
from opd.view.runs.folders import Kind
from opd.view.svg import INK, literal, ruled
from opd.view.words import interval, number

_NAMED_QUESTIONS = 60  # more names than this can't be read side by side
_LONGEST_NAME = 32
_NAMES_INCHES = 1.0  # of height for the names of questions, which stand upright


def score(paths: Sequence[Path], *, width: float = WIDTH) -> Plot:
    """The score of each folder at and below the paths; of a single one, the share of each of its questions."""
    found = scores_in(runs_of(paths, Kind.SCORE))
    return _questions(found[0], width=width) if len(found) == 1 else _scores(found, width=width)


def _scores(found: Sequence[Named], *, width: float) -> Plot:
    with drawing(width=width):
        made, (axes,) = panels(width, 0.9 + 0.3 * len(found))
        for place, one in enumerate(found):
            _draw_score(axes, one, place)
        axes.set_yticks(range(len(found)), [shown(one.name, longest=_LONGEST_NAME) for one in found])
        literal(axes.get_yticklabels())
        axes.invert_yaxis()
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.12)
        axes.set_xlabel(fitted("pass@1, share of samples correct; lines: 95 %, clustered by question", width * 0.7))
        ruled(axes, "x")
    said = "; ".join(f"{one.name} {number(one.score.mean)}, {interval(one.score.ci95)}" for one in found)
    return Plot(
        name="scores",
        title=f"Scores on {found[0].score.benchmark}",
        said=f"Means with 95 % intervals, clustered by question: {said}.",
        figure=made,
        columns=(
            "score",
            "mean",
            "stderr_clustered",
            "ci95_low",
            "ci95_high",
            "correct",
            "samples",
            "questions",
            "file",
        ),
        rows=tuple(
            (
                one.name,
                one.score.mean,
                one.score.stderr,
                *(one.score.ci95 or (None, None)),
                one.score.correct,
                one.score.samples,
                one.score.questions,
                (one.path / "score.json").as_posix(),
            )
            for one in found
        ),
    )


def _draw_score(axes: Axes, one: Named, place: int) -> None:
    if one.score.ci95:
        axes.hlines(place, *one.score.ci95, color=COLOURS[0], linewidth=2)
    axes.plot([one.score.mean], [place], color=COLOURS[0], marker="o", markersize=6, linestyle="")
    axes.annotate(
        number(one.score.mean), xy=(one.score.mean, place), xytext=(0, 6), textcoords="offset points", ha="center"
    )


def _questions(one: Named, *, width: float) -> Plot:
    report = report_of(one.path)
    questions = report.by_question
    with drawing(width=width):
        named = len(questions) <= _NAMED_QUESTIONS
        made, (axes,) = panels(width, width * 0.5 + (_NAMES_INCHES if named else 0.0))
        _draw_questions(axes, questions, width=width)
        axes.axhline(report.mean, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_ylim(0, 1)
        axes.set_ylabel(fitted("share of samples right", width * 0.35))
        axes.set_title(
            f"mean {number(report.mean)}, 95 % interval {interval(report.ci95)}", loc="left", fontsize="medium"
        )
        ruled(axes, "y")
    return Plot(
        name="questions",
        title=f"Share of samples right, question by question, on {one.score.benchmark}",
        said=f"{len(questions)} questions from the lowest share to the highest, each with Wilson's 95 % interval of "
        f"its own samples; the mean is {number(report.mean)}, 95 % interval {interval(report.ci95)}.",
        figure=made,
        columns=("question", "correct", "samples", "share", "wilson95_low", "wilson95_high"),
        rows=tuple(
            (each.question, each.correct, each.samples, each.correct / each.samples, *each.interval)
            for each in questions
        ),
    )


def _draw_questions(axes: Axes, questions: Sequence[QuestionResult], *, width: float) -> None:
    places = list(range(len(questions)))
    named = len(questions) <= _NAMED_QUESTIONS
    low, high = [each.interval[0] for each in questions], [each.interval[1] for each in questions]
    if named:
        axes.vlines(places, low, high, color=INK, linewidth=0.9)
    else:
        axes.fill_between(places, low, high, step="mid", color=INK, alpha=0.2, linewidth=0)
    axes.plot(
        places,
        [each.correct / each.samples for each in questions],
        color=COLOURS[0],
        marker="o",
        markersize=4 if named else 2,
        linestyle="",
    )
    if named:
        axes.set_xticks(places, [shown(each.question, longest=18) for each in questions], rotation=90)
        literal(axes.get_xticklabels())
        axes.tick_params(axis="x", labelsize=7)
    drawn = "lines" if named else "grey"
    axes.set_xlabel(fitted(f"questions, by their share; {drawn}: 95 % of its own samples (Wilson)", width * 0.8))
