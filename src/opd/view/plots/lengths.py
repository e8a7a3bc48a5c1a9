"""How long the responses are: of scores as histograms of what came out, of trainings over steps."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from opd.records.errors import AskedWrongly
from opd.records.score_report import LengthBin, Lengths
from opd.view.plain import shown
from opd.view.plots.curve import draw_series, series_rows, unit
from opd.view.plots.inputs import runs_of, scores_in, series_of
from opd.view.plots.plot import WIDTH, Cell, Plot, drawing, fitted, legend, panels
from opd.view.programs import report_of
from opd.view.runs.folders import Kind, find
from opd.view.scores.pictures import CUT_SHORT, RIGHT, WRONG
from opd.view.svg import INK, literal, ruled

_PARTS: tuple[tuple[str, str, str, Callable[[LengthBin], int]], ...] = (
    ("right", RIGHT, "", lambda one: one.correct),
    ("wrong", WRONG, "//", lambda one: one.wrong),
    ("cut short", CUT_SHORT, "..", lambda one: one.cut_short),
)


def lengths(paths: Sequence[Path], *, width: float = WIDTH) -> Plot:
    """The lengths of the scores at and below the paths, or of the training runs where there are no scores."""
    kinds = {one.kind for one in find(list(paths))}
    return _of_scores(paths, width=width) if Kind.SCORE in kinds else _of_runs(paths, width=width)


def _of_scores(paths: Sequence[Path], *, width: float) -> Plot:
    found = scores_in(runs_of(paths, Kind.SCORE))
    measured = [(one.name, _measured(one.path)) for one in found]
    with drawing(width=width):
        made, axes = panels(width, 0.7 + 1.5 * len(found), heights=[1.0] * len(found), shared=True)
        for here, (name, (counted, said)) in zip(axes, measured, strict=True):
            _draw_bins(here, said, counted)
            literal([here.set_title(shown(name), loc="left")])
        label = f"length of a response, {measured[0][1][1].unit}; lines: 95 % (Wilson), clustered by question"
        axes[-1].set_xlabel(fitted(label, width * 0.8))
        axes[-1].xaxis.set_major_locator(MaxNLocator(6, integer=True))
        legend(axes[0])
    said_of_each = "; ".join(
        f"{name}: {said.mean:,.0f} on average, longest {said.longest:,}" for name, (_, said) in measured
    )
    return Plot(
        name="lengths",
        title=f"Lengths of responses on {found[0].score.benchmark}",
        said=f"Shares of samples by length in {measured[0][1][1].unit}, right, wrong and cut short upon each other, "
        f"with Wilson's 95 % intervals, clustered by question. {said_of_each}.",
        figure=made,
        columns=("score", "least", "below", "right", "wrong", "cut_short", "share", "ci95_low", "ci95_high"),
        rows=tuple(row for name, (_, said) in measured for row in _bin_rows(name, said)),
    )


def _measured(path: Path) -> tuple[int, Lengths]:
    """How many samples were counted, and their lengths."""
    report = report_of(path)
    if report.lengths is None:
        raise AskedWrongly(f"{path}: its samples don't say how long they are")
    return report.n, report.lengths


def _draw_bins(axes: Axes, said: Lengths, counted: int) -> None:
    bottom = [0.0] * len(said.bins)
    for name, colour, hatch, count in _PARTS:
        parts = [count(one) / counted for one in said.bins]
        axes.bar(
            [one.least for one in said.bins],
            parts,
            width=[one.below - one.least for one in said.bins],
            bottom=bottom,
            align="edge",
            color=colour,
            edgecolor="white",
            linewidth=0.3,
            hatch=hatch,
            label=name,
        )
        bottom = [low + part for low, part in zip(bottom, parts, strict=True)]
    for one in said.bins:
        if one.ci95 is not None and one.ci95[1] > one.ci95[0]:
            axes.vlines((one.least + one.below) / 2, *one.ci95, color=INK, linewidth=0.9)
    axes.set_ylim(0, None)
    axes.set_ylabel("share of samples")
    ruled(axes, "y")


def _bin_rows(name: str, said: Lengths) -> list[tuple[Cell, ...]]:
    return [
        (name, one.least, one.below, one.correct, one.wrong, one.cut_short, one.share, *(one.ci95 or (None, None)))
        for one in said.bins
    ]


def _of_runs(paths: Sequence[Path], *, width: float) -> Plot:
    runs = runs_of(paths, Kind.TRAIN)
    long, cut = (series_of(runs, metric) for metric in ("mean_tokens", "cut_short"))
    with drawing(width=width):
        made, (top, bottom) = panels(width, width * 0.75, heights=(1.0, 1.0), shared=True)
        draw_series(top, long, label=unit("mean_tokens"), height=width * 0.35)
        draw_series(bottom, cut, label=unit("cut_short"), height=width * 0.35)
        largest = max((value for one in cut for value in one.values if value is not None), default=0.0)
        bottom.set_ylim(0, max(0.05, largest * 1.05))
        bottom.set_xlabel("updates of the student (steps)")
        legend(top)
    rows = [(*of_length, *of_cut[2:]) for of_length, of_cut in zip(series_rows(long), series_rows(cut), strict=True)]
    return Plot(
        name="lengths-over-steps",
        title="Length of rollouts and share cut short over steps",
        said="Thin: each step; thick: a moving mean.",
        figure=made,
        columns=("run", "step", "mean_tokens", "mean_tokens_moving_mean", "cut_short", "cut_short_moving_mean"),
        rows=tuple(rows),
    )
