"""Paired differences: question by question, and in all with their 95 % interval, as `opd compare` found them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.scores import Comparison
from opd.records.settings import validated
from opd.view.plain import shown
from opd.view.plots.inputs import read_score, shares
from opd.view.plots.plot import COLOURS, WIDTH, Cell, Plot, drawing, fitted, panels
from opd.view.programs import compared
from opd.view.runs.folders import read_object
from opd.view.svg import INK, literal, ruled
from opd.view.words import interval, signed

_LONGEST_NAME = 32
_LARGEST_MARK, _SMALLEST_MARK = 90.0, 8.0  # square points; the largest is where most questions are
_SQUARE = 0.85  # of the width
_MARGIN = 0.04  # of the share, so that no mark at its ends is cut
_COLUMNS = (
    *("question", "right_a", "samples_a", "share_a", "right_b", "samples_b", "share_b"),
    *("difference", "stderr", "ci95_low", "ci95_high"),
)

Shares = Mapping[str, tuple[int, int]]


def compare(paths: Sequence[Path], *, width: float = WIDTH) -> Plot:
    """B against A, question by question, for two scores; the differences of several from the first; or those that
    files of `opd compare --json` hold.
    """
    if all(path.is_file() for path in paths):
        return _differences([one for path in paths for one in _held_by(path)], width=width)
    if len(paths) < 2:
        raise AskedWrongly(f"a comparison needs two scores, or a file of `opd compare --json`; got {len(paths)} path")
    first, *others = paths
    for path in paths:
        read_score(path)
    found = [compared(first, other) for other in others]
    return _paired(found[0], shares(first), shares(others[0]), width=width) if len(others) == 1 else _differences(
        found, width=width
    )  # fmt: skip


def _held_by(path: Path) -> list[Comparison]:
    """The comparison of a file of `opd compare --json`, or each of several."""
    values = read_object(path)
    each = values.get("comparisons", [values])
    if not isinstance(each, list) or not all(isinstance(one, dict) for one in each):
        raise AskedWrongly(f"{path} is not what `opd compare --json` prints")
    known = Comparison.model_fields.keys()
    return [validated(Comparison, {key: one[key] for key in one if key in known}, source=str(path)) for one in each]


def _paired(found: Comparison, a: Shares, b: Shares, *, width: float) -> Plot:
    if a.keys() != b.keys() or len(a) != found.questions:
        raise AnswerIsNo(
            f"{found.a} and {found.b} hold other questions than were compared; one was changed meanwhile"
        )
    with drawing(width=width):
        made, (above, below) = panels(width, width * _SQUARE + 1.1, heights=(width * _SQUARE, 0.7))
        _draw_pairs(above, found, a, b, height=width * _SQUARE)
        _draw_differences(below, [found], width=width)
    name_a, name_b = _names([found.a, found.b])
    counts = Counter(_sign(_share(b[question]) - _share(a[question])) for question in a)
    return Plot(
        name="compare",
        title=f"{name_b} against {name_a}, paired by question",
        said=f"Difference {signed(found.difference)}, 95 % interval {interval(found.ci95, difference=True)}, over "
        f"{found.questions} questions: {counts[1]} better, {counts[-1]} worse, {counts[0]} equal.",
        figure=made,
        columns=_COLUMNS,
        rows=(*(_question_row(question, a, b) for question in sorted(a)), _all_row(found)),
    )


def _draw_pairs(axes: Axes, found: Comparison, a: Shares, b: Shares, *, height: float) -> None:
    """A mark at each pair of shares, its area the number of questions there."""
    places = Counter((_share(a[question]), _share(b[question])) for question in a)
    most = max(places.values())
    for sign, name, colour, mark in _SIGNS:
        here = {place: count for place, count in places.items() if _sign(place[1] - place[0]) == sign}
        if here:
            axes.scatter(
                [x for x, _ in here],
                [y for _, y in here],
                s=[max(_SMALLEST_MARK, _LARGEST_MARK * count / most) for count in here.values()],
                color=colour,
                marker=mark,
                alpha=0.8,
                linewidths=0,
                label=f"{sum(here.values())} {name}",
                clip_on=False,
            )
    axes.plot([0, 1], [0, 1], color=INK, alpha=0.35, linewidth=0.8)
    axes.set_xlim(-_MARGIN, 1 + _MARGIN)
    axes.set_ylim(-_MARGIN, 1 + _MARGIN)
    axes.set_aspect("equal")
    name_a, name_b = _names([found.a, found.b])
    axes.set_xlabel(fitted(f"A: {name_a}, share of samples right", height * 0.8))
    axes.set_ylabel(fitted(f"B: {name_b}, share of samples right", height * 0.8))
    literal([axes.xaxis.label, axes.yaxis.label])
    ruled(axes, "both")
    figure = axes.get_figure(root=True)
    assert figure is not None, "these axes were made in a figure"
    made = figure.legend(
        frameon=False, title=f"questions; most at one place: {most}", loc="outside upper center", ncols=3
    )
    for handle in made.legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_sizes([30.0])


_SIGNS = ((1, "better", COLOURS[0], "^"), (0, "equal", COLOURS[3], "o"), (-1, "worse", COLOURS[1], "v"))


def _differences(found: Sequence[Comparison], *, width: float) -> Plot:
    with drawing(width=width):
        made, (axes,) = panels(width, 1.0 + 0.3 * len(found))
        _draw_differences(axes, found, width=width)
    said = "; ".join(
        f"{one.b} against {one.a} {signed(one.difference)}, {interval(one.ci95, difference=True)}" for one in found
    )
    return Plot(
        name="differences",
        title="Differences, paired by question",
        said=f"Differences with 95 % intervals: {said}.",
        figure=made,
        columns=("a", "b", "difference", "stderr", "ci95_low", "ci95_high", "p", "questions"),
        rows=tuple(
            (one.a, one.b, one.difference, one.stderr, *(one.ci95 or (None, None)), one.p, one.questions)
            for one in found
        ),
    )


def _draw_differences(axes: Axes, found: Sequence[Comparison], *, width: float) -> None:
    axes.axvline(0, color=INK, alpha=0.5, linewidth=0.8)
    for place, one in enumerate(found):
        if one.ci95:
            axes.hlines(place, *one.ci95, color=COLOURS[0], linewidth=2)
        axes.plot([one.difference], [place], color=COLOURS[0], marker="o", markersize=6, linestyle="")
        axes.annotate(
            signed(one.difference), xy=(one.difference, place), xytext=(0, 6), textcoords="offset points", ha="center"
        )
    axes.set_ylim(len(found) - 0.5, -0.5)
    names = _names([name for one in found for name in (one.a, one.b)])
    axes.set_yticks(range(len(found)), [f"{b} − {a}" for a, b in zip(names[::2], names[1::2], strict=True)])
    literal(axes.get_yticklabels())
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.2)
    axes.set_xlabel(fitted("difference in share right, paired by question; lines: 95 %", width * 0.7))
    ruled(axes, "x")


def _names(said: Sequence[str]) -> list[str]:
    """The last part of each place, or all of it where two places end alike; short enough for an axis."""
    last = {place: Path(place).name or place for place in said}
    alike = Counter(last.values())
    return [shown(last[place] if alike[last[place]] == 1 else place, longest=_LONGEST_NAME) for place in said]


def _question_row(question: str, a: Shares, b: Shares) -> tuple[Cell, ...]:
    of_a, of_b = a[question], b[question]
    difference = _share(of_b) - _share(of_a)
    return (question, *of_a, _share(of_a), *of_b, _share(of_b), difference, None, None, None)


def _all_row(found: Comparison) -> tuple[Cell, ...]:
    """The whole comparison stands in the last row, which names no question."""
    of_a = (None, found.samples_a, found.mean_a)
    of_b = (None, found.samples_b, found.mean_b)
    return ("", *of_a, *of_b, found.difference, found.stderr, *(found.ci95 or (None, None)))


def _share(counts: tuple[int, int]) -> float:
    return counts[0] / counts[1]


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
