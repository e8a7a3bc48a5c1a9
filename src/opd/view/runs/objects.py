"""Runs in Python: `opd.open("runs/train")` gives one, with its tables, and shows itself in a terminal and a notebook.

    run = opd.open("runs/train")               Run
    run.metrics()                              pyarrow.Table, a row a step: .to_pandas(), polars.from_arrow(…)
    score = opd.open("runs/scores/step-120")   ScoreFolder
    score.samples()                            pyarrow.Table, a row a sample
    score.comparison("runs/scores/start")      ScoreComparison, of the other and this, paired by question
    opd.open("runs/attempts/…")                AttemptFolder

Each call reads the files anew: an object follows a run that goes on.
"""

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from opd.records.errors import AskedWrongly
from opd.records.rollout_table import table_path
from opd.records.score_report import ScoreReport
from opd.records.scores import Comparison, Score
from opd.records.settings import read
from opd.view.programs import compared, report_of
from opd.view.runs.facts import Fact, in_html, in_text
from opd.view.runs.folders import Folder, Kind, State, opened, read_object
from opd.view.runs.runs import score_in_words, steps
from opd.view.runs.summaries import Summary, checkpoints, summary
from opd.view.tables import SAMPLES, metrics_table, samples_table, stages_table
from opd.view.words import chance, duration, interval, number, signed


class RunFolder:
    """What every run has: a path, a state, and a way to show itself."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def path(self) -> Path:
        """The folder, as it was named."""
        return self._folder.path

    @property
    def state(self) -> State:
        """What has become of it: running, finished, failed …"""
        return self.summary.state

    @property
    def summary(self) -> Summary:
        """It in a line."""
        return summary(self._folder)

    def facts(self) -> list[Fact]:
        """What is shown of it, name by name."""
        said = self.summary
        return [
            ("state", said.state.value),
            ("came to", said.said),
            *([("time", duration(said.seconds))] if said.seconds is not None else []),
            *([("can't be read", said.trouble)] if said.trouble is not None else []),
        ]

    def __repr__(self) -> str:
        return in_text(f"{type(self).__name__} {self.path}", self.facts())

    def _repr_html_(self) -> str:
        return in_html(f"{type(self).__name__} {self.path}", self.facts())


class Run(RunFolder):
    """A training run."""

    @property
    def recipe(self) -> dict[str, Any]:
        """The resolved recipe, section by section."""
        return read_object(self.path / "recipe.json")

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The published checkpoints by step."""
        return dict(checkpoints(self.path))

    @property
    def rollout_steps(self) -> list[int]:
        """The steps whose rollouts were kept."""
        names = [file.stem.removeprefix("step-") for file in (self.path / "rollouts").glob("step-*.parquet")]
        return sorted(int(name) for name in names if name.isdecimal())

    def metrics(self) -> pa.Table:
        """A row for each step that is done, with the keys of `metrics.jsonl`; `gap.mean` is the mean in `gap`.

        Log-probabilities and KL are in nats; what a step has no value for is null.
        """
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return pa.table({"step": pa.array([], type=pa.int64())})
        return metrics_table(path)

    def rollouts(self, step: int) -> pa.Table:
        """The rollouts of a step, token by token; raises `AskedWrongly` for a step whose rollouts were not kept."""
        file = table_path(self.path, step)
        if not file.is_file():
            kept = self.rollout_steps
            there = f"there are those of {len(kept)} steps, {kept[0]} to {kept[-1]}" if kept else "there are none"
            raise AskedWrongly(f"{self.path} holds no rollouts of step {step}; {there}")
        return pq.read_table(file)

    def facts(self) -> list[Fact]:
        """What is shown of it, name by name."""
        said = self.summary
        kept = [folder.name for _, folder in checkpoints(self.path)]
        return [
            *super().facts(),
            ("steps", steps(said)),
            ("objective", str(said.recipe.get("objective.name", "?"))),
            ("student", str(said.recipe.get("student.model", "?"))),
            ("teacher", said.teacher or "?"),
            ("checkpoints", ", ".join(kept) or "none yet"),
        ]


class ScoreFolder(RunFolder):
    """The folder of an evaluation."""

    @property
    def score(self) -> Score:
        """`score.json`; raises `AskedWrongly` while the evaluation has not finished."""
        if not (self.path / "score.json").is_file():
            raise AskedWrongly(f"{self.path} has no score.json yet: {self.summary.said}")
        return read(Score, self.path / "score.json")

    def samples(self) -> pa.Table:
        """A row for each graded sample, `correct` as the score counts it; of an unfinished one those that stand.

        A sample whose grader failed and that was graded again later stands there once, as it was settled.
        """
        path = self.path / "samples.jsonl"
        return samples_table(path) if path.is_file() else SAMPLES.empty_table()

    def report(self) -> ScoreReport:
        """The score taken apart, by `opd score`: each question, lengths, pass@k, what was cut short."""
        return report_of(self.path)

    def comparison(self, other: "ScoreFolder | str | os.PathLike[str]") -> "ScoreComparison":
        """This score against the other, paired by question, by `opd compare OTHER THIS`: positive, this is better."""
        place = other.path if isinstance(other, ScoreFolder) else Path(other).expanduser()
        return ScoreComparison(compared(place, self.path))

    def facts(self) -> list[Fact]:
        """What is shown of it, name by name."""
        said = self.summary
        if said.mean is None:
            return super().facts()
        score = self.score
        return [
            ("benchmark", score.benchmark),
            ("model", score.model),
            ("mean", f"{score_in_words(said)} (standard error, clustered by question)"),
            ("95 % interval", interval(said.ci95)),
            ("samples", f"{score.questions:,} questions × {score.protocol.samples_per_question}, {said.said}"),
            ("cut short", f"{score.cut_short:.1%}".replace("%", " %")),
        ]


class AttemptFolder(RunFolder):
    """An attempt on a task. `opd attempt status` says what is due, `opd attempt verify` whether it is whole."""

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """`run.json`: the case, the task, who attempts, and by which install it is judged."""
        return read_object(self.path / "run.json")

    def stages(self) -> pa.Table:
        """A row for each try of each stage; what has not ended has no outcome."""
        return stages_table(self.path)

    def facts(self) -> list[Fact]:
        """What is shown of it, name by name."""
        said = self.summary
        score = [] if said.mean is None else [("score", f"{score_in_words(said)}, {said.scored}")]
        return [("case", str(self.identity.get("case", "?"))), *super().facts(), *score]


class ScoreComparison:
    """Two scores of one protocol, paired by question; `record` has everything that `opd compare --json` says."""

    def __init__(self, record: Comparison) -> None:
        self.record = record

    @property
    def difference(self) -> float:
        """The mean of B less the mean of A."""
        return self.record.difference

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % interval of the difference, for questions like these; None where it is undefined."""
        return self.record.ci95

    @property
    def distinguishable(self) -> bool | None:
        """Whether the two can be told apart on questions like these; None where that is undefined."""
        return self.record.distinguishable

    def facts(self) -> list[Fact]:
        """What is shown of it, name by name."""
        said = self.record
        return [
            ("A", f"{number(said.mean_a)}  {said.a}"),
            ("B", f"{number(said.mean_b)}  {said.b}"),
            ("B − A", f"{signed(said.difference)}, standard error {number(said.stderr, 4)}"),
            ("95 % interval", interval(said.ci95, difference=True)),
            ("p", f"{chance(said.p)} by t, {chance(said.p_permutation)} by sign flips"),
            ("questions", f"{said.questions:,}"),
            ("verdict", said.verdict),
        ]

    def __repr__(self) -> str:
        return in_text("ScoreComparison", self.facts())

    def _repr_html_(self) -> str:
        return in_html("ScoreComparison", self.facts())


def open(path: str | os.PathLike[str]) -> Run | ScoreFolder | AttemptFolder:  # noqa: A001  # it is `opd.open`
    """The run in a folder, by what the folder holds.

    Raises `AskedWrongly`, which is a ValueError, with what is there instead, where there is no run.
    """
    folder = opened(Path(path).expanduser())
    match folder.kind:
        case Kind.TRAIN:
            return Run(folder)
        case Kind.SCORE:
            return ScoreFolder(folder)
        case Kind.ATTEMPT:
            return AttemptFolder(folder)
