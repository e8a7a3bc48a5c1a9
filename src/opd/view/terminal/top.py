"""Several runs at once, as they go on: a table that is drawn anew, or a line for each change on a pipe.

    run          state     steps     KL                        tokens/s  score          left
    sweep/lr-1   running   74/120    0.0412 ▇▆▅▄▃▃▂▂▂▁▁        4,120     –              about 0:19 left
    sweep/lr-2   finished  120/120   0.0115 ▇▅▃▂▂▁▁▁▁▁▁        –         0.864 ± 0.009  0:49 used

It reads files and nothing else: a run is not slowed down by who looks at it, and goes on when nobody does.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from opd.view.growing import News, news
from opd.view.plain import shown
from opd.view.runs.folders import Folder, Kind, State, find
from opd.view.runs.runs import score_in_words, steps
from opd.view.runs.runs import values as run_values
from opd.view.runs.summaries import Summary, step_seconds, summaries
from opd.view.terminal.gauges import sparkline
from opd.view.words import clock, small

_HEADER = {
    "run": "run",
    "state": "state",
    "steps": "steps",
    "kl": "KL",
    "trend": "nats/token",
    "speed": "tokens/s",
    "score": "score",
    "aside": "",
}
_BETWEEN = 2  # blanks between two columns
_LEAST_WORDS, _BARELY = 34, 12  # columns for the place and the words at the end together
_TREND_COLUMNS = 14
_RECENT = 20  # steps over which speed is averaged
_NONE = "–"
_COLOURS = {
    State.RUNNING: "cyan",
    State.FINISHED: "green",
    State.FAILED: "bold red",
    State.DAMAGED: "bold red",
    State.LEFT: "yellow",
    State.INTERRUPTED: "yellow",
    State.WAITING: "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What the lines of a training run's metrics have said so far."""

    end: int = 0  # bytes that were read
    seconds: float = 0.0  # of all steps
    kl: tuple[float, ...] = ()
    recent: tuple[tuple[float, int], ...] = ()  # (seconds, trained tokens) of the last steps
    warnings: tuple[str, ...] = ()  # of the last step

    def after(self, found: News) -> "Pulse":
        """With the lines that came since; a file that was cut back is read anew."""
        before = self if found.start == self.end else Pulse()
        lines = found.values
        if not lines:
            return replace(before, end=found.end)
        taken = [(step_seconds(line), _count(line.get("trained_tokens"))) for line in lines]
        return Pulse(
            end=found.end,
            seconds=before.seconds + sum(seconds for seconds, _ in taken),
            kl=(*before.kl, *(float(line["kl"]) for line in lines if isinstance(line.get("kl"), float))),
            recent=(*before.recent, *taken)[-_RECENT:],
            warnings=tuple(map(str, lines[-1].get("warnings") or ())),
        )

    @property
    def step_seconds(self) -> float | None:
        """Mean of the last steps; None before the first."""
        return sum(seconds for seconds, _ in self.recent) / len(self.recent) if self.recent else None

    @property
    def tokens_per_second(self) -> float | None:
        """Trained tokens over the whole seconds of the last steps; None where no time was taken."""
        seconds = sum(seconds for seconds, _ in self.recent)
        return sum(tokens for _, tokens in self.recent) / seconds if seconds > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run as it is now."""

    run: Summary
    pulse: Pulse


class Watch:
    """The runs at and below some folders, looked at again and again; new ones are found as they begin."""

    def __init__(self, roots: Sequence[Path], *, now: Callable[[], float] = time.time) -> None:
        self._roots = tuple(roots)
        self._now = now
        self._pulses: dict[Path, Pulse] = {}
        self.seen: tuple[Seen, ...] = ()

    def look(self) -> tuple[Seen, ...]:
        """Every run as it is now."""
        found = summaries(find(self._roots), counts_seconds=False)
        self._pulses = {one.folder.path: self._pulse(one.folder) for one in found}
        self.seen = tuple(
            Seen(run=_timed(one, self._pulses[one.folder.path]), pulse=self._pulses[one.folder.path]) for one in found
        )
        return self.seen

    @property
    def over(self) -> bool:
        """Whether none of them goes on."""
        return all(one.run.state.ended for one in self.seen)

    def draw(self, *, width: int, ascii_only: bool = False) -> RenderableType:
        """The table in so many columns; those that go on stand first.

        Where it is narrow the speed goes, then the trend; then the place and the words at the end are cut, never a
        number.
        """
        shown_first = sorted(self.seen, key=lambda one: one.run.state.ended)
        cells = [self._cells(one, ascii_only=ascii_only) for one in shown_first]
        keys = ["run", "state", "steps", "kl", "trend", "speed", "score", "aside"]
        widths = {key: max(cell_len(_HEADER[key]), *(one[key].cell_len for one in cells)) for key in keys}
        for least in ("speed", "trend"):
            if width - _taken(widths, keys) < _LEAST_WORDS:
                keys.remove(least)
        left = max(_BARELY, width - _taken(widths, keys))
        widths["run"] = min(widths["run"], max(left - widths["aside"], left * 3 // 5))
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _BETWEEN, 0, 0))
        for key in keys:
            kept = left - widths["run"] if key == "aside" else widths[key]
            table.add_column(_HEADER[key], no_wrap=True, overflow="ellipsis", width=max(1, kept))
        for one in cells:
            table.add_row(*(one[key] for key in keys))
        return table

    def _cells(self, one: Seen, *, ascii_only: bool) -> dict[str, Text]:
        return {
            "run": Text(self._place(one)),
            "state": Text(one.run.state.value, style=_COLOURS[one.run.state]),
            "steps": Text(steps(one.run)),
            "kl": Text(_kl(one.pulse)),
            "trend": Text(sparkline(one.pulse.kl, width=_TREND_COLUMNS, ascii_only=ascii_only), style="cyan"),
            "speed": Text(_speed(one)),
            "score": Text(score_in_words(one.run)),
            "aside": Text(self._aside(one), style="yellow" if _is_alarming(one) else "dim"),
        }

    def _place(self, one: Seen) -> str:
        """Where it lies, below the folder that was named if that was one."""
        path = one.run.folder.path
        if len(self._roots) == 1 and path != self._roots[0]:
            path = path.relative_to(self._roots[0])
        return shown(str(path), longest=400)

    def line(self, one: Seen) -> str:
        """A run on one line, for a pipe."""
        parts = [
            shown(str(one.run.folder.path), longest=200),
            one.run.state.value,
            f"steps {steps(one.run)}",
            *([f"KL {_kl(one.pulse)} nats/token"] if one.pulse.kl else []),
            *([f"score {score_in_words(one.run)}"] if one.run.mean is not None else []),
            self._aside(one),
        ]
        return "  ".join(parts)

    def _pulse(self, folder: Folder) -> Pulse:
        if folder.kind is not Kind.TRAIN:
            return Pulse()
        before = self._pulses.get(folder.path, Pulse())
        try:
            return before.after(news(folder.path / "metrics.jsonl", start=before.end))
        except OSError:  # said with the run; it must not hide the others
            return before

    def _aside(self, one: Seen) -> str:
        """What a person would ask next: how long it takes, what it warns of, or how it ended."""
        run = one.run
        if run.trouble is not None or run.state in {State.FAILED, State.LEFT, State.INTERRUPTED, State.WAITING}:
            return shown(run.trouble or run.said, longest=100)
        if run.state is not State.RUNNING:
            return "" if run.seconds is None else f"{clock(run.seconds)} used"
        if one.pulse.warnings:
            return shown(f"warning: {one.pulse.warnings[0]}", longest=100)
        silent = self._now() - run.changed
        each = one.pulse.step_seconds
        if each is None or run.asked is None or run.step is None:
            return shown(run.said)
        if silent > max(60.0, 5 * each):
            return f"silent for {clock(silent)}"
        return f"about {clock((run.asked - run.step) * each - silent)} left"


def values(one: Seen) -> dict[str, Any]:
    """The run as a JSON object: what `opd runs ls --json` says of it, and its pulse. KL in nats a token."""
    return run_values(one.run) | {
        "kl": one.pulse.kl[-1] if one.pulse.kl else None,
        "tokens_per_second": one.pulse.tokens_per_second if one.run.state is State.RUNNING else None,
        "warnings": list(one.pulse.warnings),
    }


def changes(before: Sequence[Seen], after: Sequence[Seen]) -> list[Seen]:
    """The runs that are not as they were."""
    known = {one.run.folder.path: one.run for one in before}
    return [one for one in after if _marks(one.run) != _marks(known.get(one.run.folder.path))]


def _taken(widths: Mapping[str, int], keys: Sequence[str]) -> int:
    """Columns of all but the place and the words at the end, and of the blanks between."""
    return sum(widths[key] for key in keys if key not in {"run", "aside"}) + _BETWEEN * len(keys)


def _marks(run: Summary | None) -> Any:
    return None if run is None else (run.state, run.step, run.mean, run.trouble)


def _timed(run: Summary, pulse: Pulse) -> Summary:
    timed = run.folder.kind is not Kind.TRAIN or run.seconds is not None
    return run if timed else replace(run, seconds=pulse.seconds)


def _kl(pulse: Pulse) -> str:
    return small(pulse.kl[-1]) if pulse.kl else _NONE


def _speed(one: Seen) -> str:
    speed = one.pulse.tokens_per_second
    return small(speed) if speed is not None and one.run.state is State.RUNNING else _NONE


def _is_alarming(one: Seen) -> bool:
    state = one.run.state
    return state in {State.FAILED, State.DAMAGED, State.LEFT} or (state is State.RUNNING and bool(one.pulse.warnings))


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
