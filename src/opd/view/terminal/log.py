"""What `opd train` and `opd evaluate` say to a program with `--log json`: one JSON object a line.

    {"event": "note", "message": "sampler: engine"}
    {"event": "step", "step": 1, "kl": 0.149, …}          a line of metrics.jsonl
    {"event": "samples", "done": 64, "asked": 2000, …}    counts so far
    {"event": "workers", "workers": 8}                    that draw on a Ray cluster from now on
    {"event": "end", "steps": 120, …}                     run.json, or score.json
    {"event": "failed", "kind": "AnswerIsNo", "message": "…"}

After `begin` the last line is `end` or `failed`; a command that was killed says neither, and one that was asked
wrongly, and so never began, says why on standard error alone. A reader that has gone away silences the log and ends
nothing.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from opd.records.metrics import RunSummary, StepMetrics
from opd.records.scores import Sample, Score
from opd.view.terminal.terminal import Unbreakable


class Log:
    """Lines on a stream, each passed on at once."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = Unbreakable(stream or sys.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What ended the work is said before it goes on its way."""
        if error is not None:
            self.write("failed", {"kind": type(error).__name__, "message": str(error)})

    def write(self, event: str, values: Mapping[str, Any]) -> None:
        """One line of ASCII, so that no reader takes a character for the end of it; its keys are sorted."""
        line = json.dumps({"event": event, **values}, sort_keys=True, separators=(",", ":"), allow_nan=False)
        self._stream.write(line + "\n")
        self._stream.flush()

    def say(self, message: str) -> None:
        """What is neither a step nor a sample."""
        self.write("note", {"message": message})

    tell = say


class TrainLog(Log):
    """In the place of a `TrainBoard`."""

    def __init__(self, *, out: Path, asked: int, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._about = {"out": str(out), "asked_steps": asked}
        self.write("begin", self._about)

    def step(self, metrics: StepMetrics) -> None:
        """The step that just ended."""
        self.write("step", metrics.resolved())

    def end(self, summary: RunSummary) -> None:
        """What the run came to."""
        self.write("end", {**self._about, **summary.resolved()})


class EvaluateLog(Log):
    """In the place of an `EvaluateBoard`."""

    def __init__(self, *, out: Path, asked: int, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._about = {"out": str(out), "asked": asked}
        self._counts = {"done": 0, "settled": 0, "correct": 0, "cut_short": 0, "tokens": 0}
        self.write("begin", self._about)

    def add(self, samples: Sequence[Sample], *, found: bool = False) -> None:
        """Graded samples; `found` on disk, from an earlier call."""
        if not samples:
            return
        added = {
            "done": len(samples),
            "settled": sum(sample.judgement.verdict.settled for sample in samples),
            "correct": sum(sample.correct for sample in samples),
            "cut_short": sum(sample.stop.cut_short for sample in samples),
            "tokens": sum(sample.tokens for sample in samples),
        }
        self._counts = {name: count + added[name] for name, count in self._counts.items()}
        self.write("samples", {**self._about, **self._counts, "found": found})

    def workers(self, count: int) -> None:
        """How many workers of a cluster draw from now on."""
        self.write("workers", {"workers": count})

    def end(self, score: Score) -> None:
        """What the evaluation came to."""
        self.write("end", {**self._about, **score.resolved()})
