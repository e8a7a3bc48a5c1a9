"""Curves over steps: the score of checkpoints with its 95 % band, or any metric that the steps have."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from opd.view.plots.inputs import Learning, Named, Series, learning_of, runs_of, scores_in, series_of
from opd.view.plots.plot import WIDTH, Cell, Plot, drawing, fitted, legend, look, panels
from opd.view.runs.folders import Kind, find
from opd.view.story.pictures import smoothed
from opd.view.svg import INK, literal, ruled
from opd.view.words import number, small

SCORE = "score"  # the metric that is read from scores, and not from the steps
_PROPORTION = 0.62  # of the height to the width
_INSIDE = 0.75  # of a panel is between its ticks

UNITS = {
    "loss": "loss, objective's mean a token",
    "kl": "KL(student ‖ teacher), nats/token",
    "clamped": "clamped, share of tokens",
    "gradient_norm": "gradient norm before clipping",
    "learning_rate": "learning rate",
    "trained_tokens": "trained tokens a step",
    "tokens": "scored tokens a step",
    "rollouts": "rollouts a step",
    "mean_tokens": "length, tokens a rollout",
    "surprise": "entropy of the student, nats/token",
    "cut_short": "cut short, share of rollouts",
    "repeated": "ends in a loop, share of rollouts",
    "rows_seen": "distinct rows seen",
    "reward": "task reward, mean of rollouts",
    "peak_bytes": "peak memory, bytes",
    "gap.mean": "sampler–trainer gap, mean |d|, nats/token",
    "gap.largest": "sampler–trainer gap, largest |d|, nats",
    "gap.k3": "KL(sampler ‖ trainer), nats/token",
    "first_token_kl": "KL at the first token, nats",
    "first_token_distance": "median |d| at the first token, nats",
    "eos_teacher_logp": "teacher's log p of the end, nats",
}


def curve(paths: Sequence[Path], *, metric: str | None, width: float = WIDTH) -> Plot:
    """A curve for each training run at and below the paths; without a metric, scores where there are any, else KL."""
    runs = runs_of(paths, Kind.TRAIN)
    if metric is None or metric == SCORE:
        folders = [one for path in paths for one in find([path]) if one.kind is Kind.SCORE]
        finished = [one for one in folders if (one.path / "score.json").is_file()]
        learned = learning_of(runs, scores_in(finished)) if finished else []
        if learned:
            return _scores(learned, width=width)
        metric = metric or "kl"
    return _metric(series_of(runs, metric), metric, width=width)


def unit(metric: str) -> str:
    """The metric with its unit, as an axis says it."""
    if metric.startswith("seconds."):
        return f"{metric.removeprefix('seconds.')}, seconds a step"
    if metric.startswith("teachers.") and metric.count(".") > 1:
        _, teacher, of_it = metric.split(".", 2)
        return f"teacher {teacher}: {unit(of_it)}"
    return UNITS.get(metric, metric)


def draw_series(axes: Axes, series: Sequence[Series], *, label: str, height: float) -> None:
    """Each run raw and thin, and its moving mean over a twelfth of the run, in a panel of so many inches."""
    for place, one in enumerate(series):
        here = look(place)
        known = [(step, value) for step, value in zip(one.steps, one.values, strict=True) if value is not None]
        steps, values = [step for step, _ in known], [value for _, value in known]
        axes.plot(steps, values, color=here.colour, alpha=0.35, linewidth=0.7)
        axes.plot(steps, _smooth(values), color=here.colour, linestyle=here.dash, linewidth=1.8, label=one.name)
    axes.set_ylabel(fitted(label, height * _INSIDE))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.margins(x=0.01)
    ruled(axes, "y")


def series_rows(series: Sequence[Series]) -> list[tuple[Cell, ...]]:
    """(run, step, value, moving mean) of every step of every run."""
    rows: list[tuple[Cell, ...]] = []
    for one in series:
        means = iter(_smooth([value for value in one.values if value is not None]))
        rows += [
            (one.name, step, value, None if value is None else next(means))
            for step, value in zip(one.steps, one.values, strict=True)
        ]
    return rows


def _metric(series: Sequence[Series], metric: str, *, width: float) -> Plot:
    with drawing(width=width):
        made, (axes,) = panels(width, width * _PROPORTION)
        draw_series(axes, series, label=unit(metric), height=width * _PROPORTION)
        axes.set_xlabel("updates of the student (steps)")
        legend(axes)
    ends = "; ".join(f"{one.name}: {_first_and_last(one)}" for one in series)
    return Plot(
        name=f"curve-{metric.replace('.', '-').replace('_', '-')}",
        title=f"{unit(metric)} over steps",
        said=f"Thin: each step; thick: a moving mean. {ends}.",
        figure=made,
        columns=("run", "step", metric, f"{metric}_moving_mean"),
        rows=tuple(series_rows(series)),
    )


def _first_and_last(one: Series) -> str:
    known = [value for value in one.values if value is not None]
    return f"{small(known[0])} to {small(known[-1])} in {one.steps[-1]:,} steps" if known else "no values"


def _smooth(values: Sequence[float]) -> list[float]:
    return smoothed(values, reach=max(1, len(values) // 25))


def _scores(learned: Sequence[Learning], *, width: float) -> Plot:
    teachers = list({one.teacher.score.model_digest: one.teacher for one in learned if one.teacher}.values())
    with drawing(width=width):
        made, (axes,) = panels(width, width * _PROPORTION)
        for teacher in teachers:
            _draw_teacher(axes, teacher)
        for place, one in enumerate(learned):
            _draw_learning(axes, one, place)
        axes.set_xlabel("updates of the student (steps)")
        axes.set_ylabel(fitted("pass@1, share of samples correct; bands: 95 %", width * _PROPORTION * _INSIDE))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlim(left=0)
        ruled(axes, "y")
        legend(axes)
    said = "; ".join(
        f"{one.name}: " + ", ".join(f"step {step} {number(point.score.mean)}" for step, point in one.points)
        for one in learned
    )
    return Plot(
        name="curve-score",
        title=f"Score over steps on {learned[0].points[0][1].score.benchmark}",
        said=f"Bands: 95 % intervals, clustered by question. {said}.",
        figure=made,
        columns=_SCORE_COLUMNS,
        rows=tuple(
            [_score_row(one.name, step, point) for one in learned for step, point in one.points]
            + [_score_row("teacher", None, teacher) for teacher in teachers]
        ),
    )


_SCORE_COLUMNS = ("run", "step", "mean", "stderr_clustered", "ci95_low", "ci95_high", "questions", "samples", "file")


def _score_row(run: str, step: int | None, point: Named) -> tuple[Cell, ...]:
    score = point.score
    low, high = score.ci95 or (None, None)
    file = (point.path / "score.json").as_posix()
    return (run, step, score.mean, score.stderr, low, high, score.questions, score.samples, file)


def _draw_teacher(axes: Axes, teacher: Named) -> None:
    axes.axhline(teacher.score.mean, color=INK, alpha=0.55, linestyle=(0, (4, 3)), linewidth=1.0)
    if teacher.score.ci95:
        axes.axhspan(*teacher.score.ci95, color=INK, alpha=0.08, linewidth=0)
    text = axes.annotate(
        f"teacher {number(teacher.score.mean)}",
        xy=(0.01, teacher.score.mean),
        xycoords=("axes fraction", "data"),
        xytext=(0, -3),
        textcoords="offset points",
        va="top",
    )
    literal([text])


def _draw_learning(axes: Axes, one: Learning, place: int) -> None:
    here = look(place)
    steps = [step for step, _ in one.points]
    means = [point.score.mean for _, point in one.points]
    known = [(step, point.score.ci95) for step, point in one.points if point.score.ci95]
    axes.fill_between(
        [step for step, _ in known],
        [low for _, (low, _) in known],
        [high for _, (_, high) in known],
        color=here.colour,
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(
        steps, means, color=here.colour, linestyle=here.dash, marker=here.mark, markersize=4, linewidth=1.8,
        label=one.name, clip_on=False,
    )  # fmt: skip
