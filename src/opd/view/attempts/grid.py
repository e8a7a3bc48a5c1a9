"""The finals question by question: a row for each checkpoint, a bar for each question, the same order in all rows.

A thin line is the 95 % interval (Wilson) of a question from its own samples: how far other seeds may lead.
"""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from opd.view.attempts.drawing import BLUE, SMALL, WIDTHS, Drawn, entitle
from opd.view.attempts.files import Grid
from opd.view.plain import shown
from opd.view.svg import INK, figure, literal, ruled, styled

NAMED_QUESTIONS = 60  # more names than this can't be read side by side
_Z = 1.959963984540054  # of a normal: 95 % lie within


def grid_picture(grid: Grid, *, narrow: bool) -> Drawn:
    """Share right over the questions, from the one with the lowest share over all checkpoints to the highest."""
    rows = len(grid.checkpoints)
    named = len(grid.questions) <= NAMED_QUESTIONS and not narrow
    with styled():
        made = figure(WIDTHS["narrow" if narrow else "wide"], 0.7 + 1.05 * rows + (0.7 if named else 0.0))
        panels = made.subplots(rows, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, name, right, samples in zip(panels, grid.checkpoints, grid.right, grid.samples, strict=True):
            (_draw_bars if len(right) <= NAMED_QUESTIONS else _draw_steps)(axes, right, samples)
            axes.set_ylim(0, 1)
            axes.set_yticks([0, 0.5, 1.0])
            axes.tick_params(labelsize=SMALL)
            literal([axes.set_title(f"{shown(name)}: share of samples right", loc="left", fontsize=10.5, pad=3)])
            ruled(axes, "y")
        _label(panels[-1], grid, named=named)
    each = sorted({count for counts in grid.samples for count in counts})
    said = f"{len(grid.questions)} questions, {_range(each)} samples each, {rows} checkpoints: "
    said += "; ".join(
        f"{name} {sum(right)} of {sum(samples)}, {sum(not one for one in right)} questions never, "
        f"{sum(one == all_ for one, all_ in zip(right, samples, strict=True))} always right"
        for name, right, samples in zip(grid.checkpoints, grid.right, grid.samples, strict=True)
    )
    return Drawn(made=made, title="The finals, question by question", said=f"{said}.")


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of independent trials, of which there is one at least."""
    share, z2 = hits / trials, _Z * _Z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    reach = math.sqrt(z2 * (share * (1 - share) + z2 / (4 * trials)) / trials) / (1 + z2 / trials)
    return max(0.0, centre - reach), min(1.0, centre + reach)


def _draw_bars(axes: Axes, right: Sequence[int], samples: Sequence[int]) -> None:
    places = range(len(right))
    axes.bar(places, _shares(right, samples), width=0.8, color=BLUE, alpha=0.8)
    ends = [wilson(one, all_) for one, all_ in zip(right, samples, strict=True)]
    axes.vlines(places, [low for low, _ in ends], [high for _, high in ends], color=INK, linewidth=0.8)
    axes.set_xlim(-0.7, len(right) - 0.3)


def _draw_steps(axes: Axes, right: Sequence[int], samples: Sequence[int]) -> None:
    edges = range(len(right) + 1)

    def steps(values: Sequence[float]) -> list[float]:
        return [*values, values[-1]]

    ends = [wilson(one, all_) for one, all_ in zip(right, samples, strict=True)]
    axes.fill_between(edges, steps(_shares(right, samples)), step="post", color=BLUE, alpha=0.8, linewidth=0)
    axes.fill_between(
        edges, steps([low for low, _ in ends]), steps([high for _, high in ends]), step="post", color=INK, alpha=0.2,
        linewidth=0,
    )  # fmt: skip
    axes.set_xlim(0, len(right))


def _label(axes: Axes, grid: Grid, *, named: bool) -> None:
    if named:
        labels = [shown(one, longest=18) for one in grid.questions]
        axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=8.5)
        literal(axes.get_xticklabels())
        for text, one in zip(axes.get_xticklabels(), grid.questions, strict=True):
            entitle(text, one)
        axes.set_xlabel("question; thin lines: 95 % interval from its own samples (Wilson)", fontsize=SMALL)
        return
    axes.set_xticks([])
    axes.set_xlabel(
        f"{len(grid.questions)} questions, lowest share first\nthin: 95 % interval from its own samples (Wilson)",
        fontsize=SMALL,
    )


def _shares(right: Sequence[int], samples: Sequence[int]) -> list[float]:
    return [one / all_ for one, all_ in zip(right, samples, strict=True)]


def _range(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
