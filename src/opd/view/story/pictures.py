"""Scores and training curves as SVG text, with units on the axes and the uncertainty drawn.

Start, result and teacher have the same colours and marks everywhere. The colours differ for the common kinds
of colour blindness and stand out from white and from near-black (`tests/view/story/test_pictures.py`).
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from opd.records.files import write_text
from opd.records.metrics import StepMetrics
from opd.records.scores import Score
from opd.view.story.story import Story
from opd.view.svg import INK, figure, ruled, styled, svg_text
from opd.view.words import interval, number


class Role(StrEnum):
    """Whose score it is."""

    START = "start"
    RESULT = "distilled"
    TEACHER = "teacher"


COLOURS = {Role.START: "#818a94", Role.RESULT: "#2b7fd0", Role.TEACHER: "#c9751c"}
_SCORE_UNIT = "pass@1, share of samples correct"


def learning_curve(points: Sequence[tuple[int, Score]], *, start: Score, teacher: Score) -> str:
    """Score over updates with its 95 % band, between the start's and the teacher's."""
    with styled():
        made = figure(6.2, 3.9)
        _draw_curve(made.subplots(), points, start=start, teacher=teacher)
    steps = "; ".join(f"step {step}: {number(score.mean)}" for step, score in points)
    return svg_text(
        made,
        name="learning-curve",
        title="Learning curve",
        description=f"Score after each number of updates. Start {number(start.mean)}; {steps}; "
        f"teacher {number(teacher.mean)}.",
    )


def score_bars(scores: Sequence[tuple[Role, Score]]) -> str:
    """A bar from zero for each score, with its 95 % interval."""
    with styled():
        made = figure(6.2, 2.3)
        _draw_bars(made.subplots(), scores)
    said = "; ".join(
        f"{role.value} {number(score.mean)}, 95 % interval {interval(score.ci95)}" for role, score in scores
    )
    return svg_text(made, name="score-bars", title="Scores", description=said)


def kl_over_steps(metrics: Sequence[StepMetrics]) -> str:
    """The student's distance from the teacher in each step, raw and smoothed."""
    with styled():
        made = figure(6.2, 3.1)
        axes = made.subplots()
        _draw_series(axes, metrics, lambda one: one.kl, unit="KL(student ‖ teacher), nats/token")
    first, last = (number(one.kl, 4) for one in (metrics[0], metrics[-1]))
    return svg_text(
        made,
        name="kl-over-steps",
        title="KL to the teacher over steps",
        description=f"Estimated from the sampled tokens: {first} nats a token in the first step, {last} in the last.",
    )


def health_panels(metrics: Sequence[StepMetrics]) -> str:
    """Loss, gradient norm, length and share cut short over steps: four small pictures in one."""
    panels: list[tuple[str, Callable[[StepMetrics], float]]] = [
        ("loss, objective's mean a token", lambda one: one.loss),
        ("gradient norm before clipping", lambda one: one.gradient_norm),
        ("length, tokens a rollout", lambda one: one.mean_tokens),
        ("cut short, share of rollouts", lambda one: one.cut_short),
    ]
    with styled():
        made = figure(6.2, 4.4)
        for axes, (unit, value) in zip(made.subplots(2, 2).flat, panels, strict=True):
            _draw_series(axes, metrics, value, unit=unit)
            axes.set_ylabel("")
            axes.set_title(unit, loc="left", fontsize=11)
            axes.set_xlabel("step" if axes.get_subplotspec().is_last_row() else "")
            if unit.startswith("cut"):
                axes.set_ylim(0, max(0.05, *(one.cut_short for one in metrics)) * 1.05)
    return svg_text(
        made,
        name="health-panels",
        title="Loss, gradient norm, length and share cut short over steps",
        description=f"{len(metrics)} steps; thin: each step, thick: a moving mean.",
    )


def write_summary_picture(path: Path, story: Story) -> None:
    """One standalone SVG file with the learning curve and the score bars, for a README."""
    with styled():
        made = figure(10.4, 3.7)
        left, right = made.subplots(1, 2, width_ratios=[3, 2])
        points = [(point.step, point.score.value) for point in story.curve]
        _draw_curve(left, points, start=story.start.value, teacher=story.teacher.value)
        _draw_bars(right, story_scores(story))
    picture = svg_text(
        made,
        name="summary",
        title=story.title,
        description="Left: score over updates. Right: start, distilled and teacher. Both with 95 % intervals.",
        standalone=True,
    )
    write_text(path, picture)


def story_scores(story: Story) -> list[tuple[Role, Score]]:
    """The three scores of a story in the order in which they are shown."""
    return [
        (Role.START, story.start.value),
        (Role.RESULT, story.result.value),
        (Role.TEACHER, story.teacher.value),
    ]


def smoothed(values: Sequence[float], *, reach: int) -> list[float]:
    """The mean of each value with up to `reach` neighbours on either side; shorter at the ends, never shifted."""
    windows = (values[max(0, at - reach) : at + reach + 1] for at in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def spread(places: Sequence[float], *, apart: float) -> list[float]:
    """The nearest places, by least squares, that keep their order and lie at least `apart` from each other.

    Isotonic regression (pool adjacent violators) on the places less their rank times `apart`.
    """
    order = sorted(range(len(places)), key=lambda at: places[at])
    pools: list[tuple[float, int]] = []  # mean of a pool, and how many it holds
    for rank, at in enumerate(order):
        mean, count = places[at] - rank * apart, 1
        while pools and pools[-1][0] > mean:
            before, held = pools.pop()
            mean, count = (mean * count + before * held) / (count + held), count + held
        pools.append((mean, count))
    level = [mean for mean, count in pools for _ in range(count)]
    moved = {at: level[rank] + rank * apart for rank, at in enumerate(order)}
    return [moved[at] for at in range(len(places))]


def _draw_curve(axes: Axes, points: Sequence[tuple[int, Score]], *, start: Score, teacher: Score) -> None:
    steps = [step for step, _ in points]
    for role, score in ((Role.START, start), (Role.TEACHER, teacher)):
        axes.axhline(score.mean, color=COLOURS[role], linestyle=(0, (4, 3)), linewidth=1.2)
        if score.ci95:
            axes.axhspan(*score.ci95, color=COLOURS[role], alpha=0.13, linewidth=0)
    known = [(step, score.ci95) for step, score in points if score.ci95]
    colour = COLOURS[Role.RESULT]
    axes.fill_between(
        [step for step, _ in known],
        [low for _, (low, _) in known],
        [high for _, (_, high) in known],
        color=colour,
        alpha=0.2,
        linewidth=0,
    )
    axes.plot(
        steps, [score.mean for _, score in points], color=colour, linewidth=2, marker="o", markersize=5, clip_on=False
    )
    low, high = _limits([start, teacher, *(score for _, score in points)])
    axes.set_ylim(low, high)
    axes.set_xlim(steps[0], max(steps[-1], steps[0] + 1))
    axes.set_xlabel("updates of the student (steps)")
    axes.set_ylabel(_SCORE_UNIT)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ruled(axes, "y")
    labels = [(Role.START, start), (Role.TEACHER, teacher), (Role.RESULT, points[-1][1])]
    _label_at_right(axes, labels, apart=(high - low) * 0.075)


def _label_at_right(axes: Axes, labels: Sequence[tuple[Role, Score]], *, apart: float) -> None:
    """Names beside the ends of the lines: no legend to look up."""
    places = spread([score.mean for _, score in labels], apart=apart)
    for (role, score), place in zip(labels, places, strict=True):
        axes.annotate(
            f"{role.value} {number(score.mean)}",
            xy=(1, place),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=COLOURS[role],
            annotation_clip=False,
        )


def _draw_bars(axes: Axes, scores: Sequence[tuple[Role, Score]]) -> None:
    for place, (role, score) in enumerate(scores):
        axes.barh(place, score.mean, height=0.56, color=COLOURS[role], alpha=0.85)
        if score.ci95:
            low, high = score.ci95
            axes.errorbar(
                score.mean, place, xerr=[[score.mean - low], [high - score.mean]], color=INK, capsize=4, linewidth=1.2
            )
        right = max(score.mean, score.ci95[1] if score.ci95 else 0)
        axes.annotate(number(score.mean), xy=(right, place), xytext=(6, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(scores)), [role.value for role, _ in scores])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, max([1.0, *(score.ci95[1] for _, score in scores if score.ci95)]) * 1.08)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.set_xlabel("pass@1, share correct; lines: 95 % interval")
    ruled(axes, "x")


def _draw_series(
    axes: Axes, metrics: Sequence[StepMetrics], value: Callable[[StepMetrics], float], *, unit: str
) -> None:
    steps = [one.step for one in metrics]
    values = [value(one) for one in metrics]
    reach = max(1, len(metrics) // 25)  # about a twelfth of the run: the trend stays, the batches go
    axes.plot(steps, values, color=COLOURS[Role.RESULT], alpha=0.4, linewidth=0.8)
    axes.plot(steps, smoothed(values, reach=reach), color=COLOURS[Role.RESULT], linewidth=2)
    axes.axhline(0, color=INK, alpha=0.35, linewidth=0.6)
    axes.set_xlabel("step")
    axes.set_ylabel(unit)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.margins(x=0.01)
    ruled(axes, "y")


def _limits(scores: Sequence[Score]) -> tuple[float, float]:
    """From just below the lowest bar end to just above the highest, inside [0, 1] where the ends are."""
    ends = [end for score in scores for end in (score.ci95 or (score.mean, score.mean))]
    room = max(0.02, (max(ends) - min(ends)) * 0.08)
    low, high = min(ends) - room, max(ends) + room
    return (max(0.0, low) if min(ends) >= 0 else low), (min(1.0, high) if max(ends) <= 1 else high)
