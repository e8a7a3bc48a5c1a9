"""The best score of each case with its interval, and the references, as an SVG element.

A case's name stands above its line, so that the picture is as wide as a phone and its letters can still be read.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from opd.records.cases import CaseRow, Result, TaskTable
from opd.view.plain import shown
from opd.view.svg import INK, figure, ruled, styled, svg_text
from opd.view.words import interval, number

MOST = 40  # cases that can be read below each other
BEST = "#2b7fd0"
_REFERENCES = ("#818a94", "#c9751c", "#2f8f5b")
_WIDTH = 4.6  # inches
_ROW, _AROUND, _REFERENCE = 0.42, 0.75, 0.2  # inches of height


def scores(task: TaskTable, *, name: str) -> str | None:
    """The picture; None where no case has a score."""
    made = drawn(task)
    if made is None:
        return None
    said = [f"{case.case} {number(one.mean)}, 95 % interval {interval(one.ci95)}" for case, one in _rows(task)]
    said += [f"{one.name} {number(one.score)}" for one in task.references]
    return svg_text(made, name=name, title=f"Best scores on {task.task}", description="; ".join(said))


def drawn(task: TaskTable) -> Figure | None:
    """A line for each case, the best on top; a dashed one for each reference."""
    rows = _rows(task)
    if not rows:
        return None
    with styled():
        made = figure(_WIDTH, _AROUND + _ROW * len(rows) + _REFERENCE * len(task.references))
        axes = made.subplots()
        for place, (case, result) in enumerate(rows):
            _draw(axes, place, _name(case), result)
        for one, colour in zip(task.references, _REFERENCES, strict=False):
            axes.axvline(one.score, color=colour, linewidth=1.2, linestyle=(0, (4, 3)), label=_reference(one.name))
        axes.set_ylim(len(rows) - 0.4, -0.9)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="x", labelsize=9)
        axes.set_xlabel("share of samples right; lines: 95 % interval", fontsize=9)
        ruled(axes, "x")
        if task.references:
            made.legend(loc="outside upper left", frameon=False, fontsize=9, ncols=1)
    return made


def _rows(task: TaskTable) -> list[tuple[CaseRow, Result]]:
    best = [(case, task.best(case)) for case in task.cases]
    return [(case, row.result) for case, row in best if row is not None and row.result is not None][:MOST]


def _draw(axes: Axes, place: int, name: str, result: Result) -> None:
    if result.ci95 is not None:
        axes.hlines(place, *result.ci95, color=INK, linewidth=1.0)
    axes.plot([result.mean], [place], "o", color=BEST, markersize=6)
    text = axes.text(0.0, place - 0.3, name, transform=axes.get_yaxis_transform(), fontsize=9, va="bottom")
    text.set_parse_math(False)


def _name(case: CaseRow) -> str:
    """`codex · gpt-5 · high`: the task is that of the picture."""
    return shown(" · ".join(part for part in (case.harness, case.model, case.effort) if part), longest=52)


def _reference(name: str) -> str:
    return shown(name, longest=52).replace("$", r"\$")
