"""What is known of the rows that a model was trained on: reports of `opd data decontaminate`, read as files.

    opd data decontaminate train.jsonl --against math500.jsonl --json > overlap.json
    opd score SCORE --trained-on overlap.json

A report names the training file and the evaluation file by their SHA-256, every evaluation problem that was
compared, and each pair that is alike. A report that `--out` left beside a cleaned file serves as well: then the
model may have been trained on the file before or after the cleaning. Which of the two it was is read from the run
that made the model, where that run is there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from opd.records.errors import AskedWrongly
from opd.records.files import read_json, sha256
from opd.records.metrics import RunSummary
from opd.records.settings import read

_HOW = "make it with `opd data decontaminate TRAIN --against BENCHMARK --json > FILE`"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPair:
    """A training row and a question that are alike."""

    question: str
    row: str
    found: str
    verdict: str
    same: bool
    """Whether they are the same problem; else they are alike, and two."""
    jaccard: float
    longest_run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """One report."""

    file: str
    sha256: str
    training_file: str
    training_sha256: str
    cleaned_sha256: str | None
    """Of the training file without the rows that are evaluation problems; None where none was written."""
    compared: frozenset[str]
    """The evaluation problems that were looked for."""
    pairs: tuple[TrainingPair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """All that is known of a model's training rows."""

    reports: tuple[TrainingReport, ...]


def read_trained(paths: Sequence[Path]) -> Trained | None:
    """The reports, or None for no path; `AskedWrongly` for a file that is no such report."""
    return Trained(reports=tuple(map(_report, paths))) if paths else None


def training_data(model: str | None) -> str | None:
    """The SHA-256 of the training file that a checkpoint was made from, as its run recorded it; None where unknown.

    `checkpoint-20/opd.json` names the recipe, and `run.json` beside it has to name the same one.
    """
    if model is None:
        return None
    checkpoint = Path(model)
    own, run = checkpoint / "opd.json", checkpoint.parent / "run.json"
    if not own.is_file() or not run.is_file():
        return None
    summary, of = read(RunSummary, run), read_json(own)
    return summary.data if isinstance(of, dict) and of.get("recipe") == summary.recipe else None


def same_problems(report: TrainingReport, data: str | None) -> tuple[TrainingPair, ...]:
    """The pairs that are in the file with this digest (None: the file that the report is of).

    Raises `AskedWrongly` when the report is of another file.
    """
    if data is not None and data == report.cleaned_sha256:
        return ()
    if data is not None and data != report.training_sha256:
        raise AskedWrongly(
            f"{report.file} is about {report.training_file} (SHA-256 {report.training_sha256[:12]}…), and the model "
            f"was trained on another file (SHA-256 {data[:12]}…); {_HOW} for that one"
        )
    return tuple(pair for pair in report.pairs if pair.same)


def trust(data: str | None) -> Literal["confirmed", "taken on trust"]:
    """How sure it is that the model was trained on the files of the reports."""
    return "taken on trust" if data is None else "confirmed"


def overlapping(trained: Trained, questions: Iterable[str], *, models: Sequence[str | None]) -> frozenset[str]:
    """The questions among these that stand in what any of the models was trained on.

    A report is of the models whose run names its file; where no run is known it is taken to be of all.
    """
    each = [training_data(model) for model in models]
    known = {data for data in each if data is not None}
    found: set[str] = set()
    for report in trained.reports:
        of_report = known & {report.training_sha256, report.cleaned_sha256}
        unrelated = None if None in each else next(iter(sorted(known)), None)  # which is then refused
        found |= {pair.question for pair in same_problems(report, next(iter(sorted(of_report)), unrelated))}
    return frozenset(found & set(questions))


def _report(path: Path) -> TrainingReport:
    values = read_json(path)
    try:
        overlaps = values["overlaps"]
        return TrainingReport(
            file=path.name,
            sha256=sha256(path),
            training_file=str(values["source"]["file"]),
            training_sha256=str(values["source"]["sha256"]),
            cleaned_sha256=values["out"]["sha256"] if "out" in values else None,
            compared=frozenset(str(name) for one in overlaps for name in one["names"]),
            pairs=tuple(_pair(pair) for one in overlaps for pair in one["pairs"]),
        )
    except (KeyError, TypeError) as error:
        raise AskedWrongly(f"{path} is no report of training rows against a benchmark; {_HOW}") from error


def _pair(pair: Mapping[str, Any]) -> TrainingPair:
    return TrainingPair(
        question=str(pair["against_id"]),
        row=str(pair["id"]),
        found=str(pair["found"]),
        verdict=str(pair["verdict"]),
        same=bool(pair["removed"]),
        jaccard=float(pair["jaccard"]),
        longest_run=str(pair["longest_run"]),
    )
