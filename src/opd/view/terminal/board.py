"""What `opd train` and `opd evaluate` show while they run.

    opd train  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╺━━━━━━━━━━━━━━━━━━   62 %   step 74/120
               0:31 elapsed   about 0:19 left

    KL to teacher   0.0412 nats/token    ▇▆▅▅▄▃▃▃▂▂▂▂▂▁▁▁▁▁▁
    …

Losses and KL are of the last step; speeds and seconds are means over the last steps. State is kept in tuples
that are replaced, never changed: the frame is drawn from another thread.
"""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TextIO, TypedDict, Unpack

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from opd.records.metrics import StepMetrics
from opd.records.scores import Sample
from opd.view.terminal.gauges import sparkline
from opd.view.terminal.pace import RECENT, Pace
from opd.view.terminal.terminal import Screen
from opd.view.words import UNDEFINED, clock, number, percent, small

_TREND_COLUMNS = 28
_BAR_COLUMNS = 36
_ALARMING_CUT = 0.1  # a tenth of the rollouts cut short already biases what is learned


class Showing(TypedDict, total=False):
    """Where and how a board is shown: what a call leaves out is as on a person's terminal."""

    quiet: bool
    stream: TextIO | None
    """In the place of standard error; no notebook is then looked for."""
    seconds_between_lines: float
    """On a pipe, at least."""
    now: Callable[[], float]
    """Seconds, of a clock that only rises."""


class _Board:
    """What both boards are: a pace, and a screen that shows what `draw` and `line` say at the moment."""

    def __init__(
        self,
        *,
        total: int,
        title: str,
        limit: Callable[[], float | None] = lambda: None,
        quiet: bool = False,
        stream: TextIO | None = None,
        seconds_between_lines: float = 10.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._pace = Pace(total=total, now=now, limit=limit)
        self._screen = Screen(
            draw=self.draw,
            line=self.line,
            quiet=quiet,
            stream=stream,
            seconds_between_lines=seconds_between_lines,
            clock=now,
        )

    def __enter__(self) -> Self:
        self._screen.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.__exit__(kind, error, trace)

    def say(self, message: str) -> None:
        """A line about what isn't progress; it stays above the frame."""
        self._screen.say(message)

    def tell(self, message: str) -> None:
        """A line before there is a frame; it stays."""
        self._screen.tell(message)

    def draw(self) -> RenderableType:
        """The whole frame, at most 80 columns wide."""
        raise NotImplementedError

    def line(self) -> str:
        """The same on one line, for a pipe."""
        raise NotImplementedError


class TrainBoard(_Board):
    """A live board for a training run: `with TrainBoard(total_steps=120) as board: board.step(metrics)`.

    `seconds_left` says what the run's wall clock leaves; None: there is none.
    """

    def __init__(
        self,
        *,
        total_steps: int,
        title: str = "opd train",
        seconds_left: Callable[[], float | None] = lambda: None,
        **showing: Unpack[Showing],
    ) -> None:
        super().__init__(total=total_steps, title=title, limit=seconds_left, **showing)
        self._recent: tuple[StepMetrics, ...] = ()
        self._kl: tuple[float, ...] = ()

    def step(self, metrics: StepMetrics) -> None:
        """Shows the step that just ended; after a resume the first one seen may have any number."""
        if not self._recent:
            self._pace.start_at(metrics.step - 1)
        self._recent = (*self._recent, metrics)[-RECENT:]
        self._kl = (*self._kl, metrics.kl)
        self._pace.reached(metrics.step, work=1)
        self._screen.changed(last=metrics.step >= self._pace.total)

    def draw(self) -> RenderableType:
        """The whole frame, at most 80 columns wide."""
        head = _head(self._title, self._pace, unit="step")
        if not self._recent:
            return Group(*head, Text("the first step is running", style="dim"))
        last = self._recent[-1]
        trend = sparkline(self._kl, width=_TREND_COLUMNS, ascii_only=self._screen.ascii_only)
        rows = [
            ("KL to teacher ", f"{small(last.kl)} nats/token", Text(trend, style="cyan")),
            ("loss", small(last.loss), Text(f"gradient norm {small(last.gradient_norm)}")),
            ("rollouts", f"{last.mean_tokens:,.1f} tokens", _cut_short(last.cut_short)),
            ("gap", f"{small(last.gap.mean)} nats/token", Text("between sampler and trainer, mean of |d|")),
            ("speed", f"{small(_tokens_per_second(self._recent))} tokens/s", Text("")),
        ]
        times = Text.assemble(("seconds a step", "dim"), f"   {self._phases()}", no_wrap=True)
        return Group(*head, _grid(rows), times, *(Text(f"warning: {one}", style="yellow") for one in last.warnings))

    def line(self) -> str:
        """The same on one line, for a pipe."""
        last = self._recent[-1]
        parts = [
            f"step {last.step}/{self._pace.total}",
            f"loss {small(last.loss)}",
            f"KL {small(last.kl)} nats/token",
            f"cut short {percent(last.cut_short)}",
            f"{last.mean_tokens:.1f} tokens",
            f"{small(_tokens_per_second(self._recent))} tokens/s",
            f"gap {small(last.gap.mean)}",
            f"seconds a step: {self._phases()}",
            self._pace.left_in_words,
            *(f"warning: {one}" for one in last.warnings),
        ]
        return "  ".join(parts)

    def _phases(self) -> str:
        """Mean seconds a step by phase, in the order of the step: `sample 0.15, score 0.06, total 0.39`."""
        spent = {
            name: sum(one.seconds.get(name, 0.0) for one in self._recent) / len(self._recent)
            for name in self._recent[-1].seconds
        }
        return ", ".join(f"{name} {small(seconds)}" for name, seconds in spent.items())


class EvaluateBoard(_Board):
    """A live board for an evaluation: `with EvaluateBoard(total=2000) as board: board.add(samples)`."""

    def __init__(self, *, total: int, title: str = "opd evaluate", **showing: Unpack[Showing]) -> None:
        super().__init__(total=total, title=title, **showing)
        self._done = self._settled = self._correct = self._cut_short = self._tokens = 0
        self._workers = ""

    def workers(self, count: int) -> None:
        """Shows how many workers of a cluster draw at the moment."""
        self._workers = f"{count} worker{'' if count == 1 else 's'}"

    def add(self, samples: Sequence[Sample], *, found: bool = False) -> None:
        """Counts graded samples; those `found` on disk, from an earlier call, say nothing about the speed."""
        if not samples:
            return
        tokens = sum(sample.tokens for sample in samples)
        self._done += len(samples)
        self._settled += sum(sample.judgement.verdict.settled for sample in samples)
        self._correct += sum(sample.correct for sample in samples)
        self._cut_short += sum(sample.stop.cut_short for sample in samples)
        self._tokens += tokens
        if found:
            self._pace.start_at(self._done)
        else:
            self._pace.reached(self._done, work=tokens)
        self._screen.changed(last=self._done >= self._pace.total)

    def draw(self) -> RenderableType:
        """The whole frame, at most 80 columns wide."""
        head = _head(self._title, self._pace, unit="sample")
        if not self._done:
            return Group(*head, Text("the first samples are running", style="dim"))
        failed = self._done - self._settled
        note = f"not settled: {failed:,}" if failed else "so far; no error bar yet"
        rows = [
            ("running mean", number(self._mean), Text(note, style="yellow" if failed else "")),
            ("length", f"{self._tokens / self._done:,.1f} tokens", _cut_short(self._cut_short / self._done)),
            ("speed", f"{small(self._pace.work_per_second)} tokens/s", Text(self._workers)),
        ]
        return Group(*head, _grid(rows))

    def line(self) -> str:
        """The same on one line, for a pipe."""
        failed = self._done - self._settled
        parts = [
            f"sample {self._done}/{self._pace.total}",
            f"running mean {number(self._mean)}",
            f"cut short {percent(self._cut_short / self._done) if self._done else UNDEFINED}",
            *([f"not settled: {failed}"] if failed else []),
            f"{small(self._pace.work_per_second)} tokens/s",
            *([self._workers] if self._workers else []),
            self._pace.left_in_words,
        ]
        return "  ".join(parts)

    @property
    def _mean(self) -> float | None:
        return self._correct / self._settled if self._settled else None


def _head(title: str, pace: Pace, *, unit: str) -> tuple[RenderableType, ...]:
    """The title, the bar and the count; under it the time."""
    share = pace.done / pace.total if pace.total else 1.0
    top = Table.grid(padding=(0, 2, 0, 0))
    top.add_row(
        Text(title, style="bold"),
        ProgressBar(
            total=max(pace.total, 1),
            completed=pace.done,
            width=_BAR_COLUMNS,
            complete_style="cyan",
            finished_style="cyan",
        ),
        Text(f"{share:.0%}".replace("%", " %")),
        Text(f"{unit} {pace.done:,}/{pace.total:,}", no_wrap=True),
    )
    time_line = Text(f"{clock(pace.elapsed)} elapsed   {pace.left_in_words}", style="dim")
    return top, Padding(time_line, (0, 0, 1, len(title) + 2))


def _grid(rows: Sequence[tuple[str, str, Text]]) -> Table:
    grid = Table.grid(padding=(0, 3, 0, 0))
    for name, value, aside in rows:
        aside.no_wrap = True
        grid.add_row(Text(name, style="dim"), Text(value, style="bold", no_wrap=True), aside)
    return grid


def _cut_short(share: float) -> Text:
    return Text(f"cut short {percent(share)}", style="yellow" if share >= _ALARMING_CUT else "")


def _tokens_per_second(steps: Sequence[StepMetrics]) -> float:
    """Trained tokens over the whole seconds of these steps; 0 where no time was taken."""
    seconds = sum(one.seconds.get("total", 0.0) for one in steps)
    return sum(one.trained_tokens for one in steps) / seconds if seconds > 0 else 0.0
