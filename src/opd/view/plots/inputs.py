"""What the pictures read: the runs that were named, the scores that belong to them, a metric over steps.

A picture for a paper takes nothing on trust that it can check: a score beside samples that it did not count is
refused, and so are scores of two protocols in one picture.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import digest, read_lines, sha256
from opd.records.scores import Score
from opd.records.settings import read
from opd.view.runs.differences import flat
from opd.view.runs.folders import Folder, Kind, find, read_object
from opd.view.runs.summaries import checkpoint_digests, name_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A score with the name that it has in the picture, and its folder."""

    name: str
    path: Path
    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """The scores of one training run by the step of the checkpoint; the start is step 0."""

    name: str
    points: tuple[tuple[int, Named], ...]
    teacher: Named | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A metric of one training run over its steps; None where a step has no value."""

    name: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]


def runs_of(paths: Sequence[Path], kind: Kind) -> list[Folder]:
    """The runs of a kind at and below the paths, in the order of the paths; `AskedWrongly` for none."""
    found = [one for path in paths for one in find([path]) if one.kind is kind]
    if not found:
        what = {Kind.TRAIN: "training run", Kind.SCORE: "score", Kind.ATTEMPT: "attempt"}[kind]
        raise AskedWrongly(f"no {what} at or below {', '.join(map(str, paths))}")
    return list({one.path.resolve(): one for one in found}.values())


def names_of(folders: Sequence[Folder]) -> list[str]:
    """The name of each folder, or its path where two have the same."""
    counts = Counter(map(name_of, folders))
    return [name if counts[name := name_of(one)] == 1 else str(one.path) for one in folders]


def scores_in(folders: Sequence[Folder]) -> list[Named]:
    """The finished scores of these folders; one without an end, or beside other samples, is refused."""
    found = [
        Named(name=name, path=one.path, score=read_score(one.path))
        for one, name in zip(folders, names_of(folders), strict=True)
    ]
    check_one_protocol(found)
    return found


def read_score(folder: Path) -> Score:
    """The score of a folder; raises `AskedWrongly` without one, and `AnswerIsNo` beside samples it did not count."""
    if not (folder / "score.json").is_file():
        raise AskedWrongly(f"{folder} has no score.json: that evaluation did not finish; run it again and it goes on")
    score = read(Score, folder / "score.json")
    samples = folder / "samples.jsonl"
    if score.samples_sha256 is not None and (not samples.is_file() or sha256(samples) != score.samples_sha256):
        raise AnswerIsNo(
            f"{folder}: samples.jsonl is not what score.json counted ({score.samples_sha256[:12]}…); one was changed"
        )
    return score


def check_one_protocol(scores: Sequence[Named]) -> None:
    """Nothing, when the scores may stand in one picture; else `AskedWrongly` that names two and what differs."""
    first, *others = scores
    for other in others:
        if other.score.protocol_digest != first.score.protocol_digest:
            one, two = flat(first.score.protocol.resolved()), flat(other.score.protocol.resolved())
            keys = [key for key in one if one[key] != two.get(key)]
            raise AskedWrongly(
                f"{first.path} and {other.path} follow different protocols (they differ in {', '.join(keys)}): they "
                "can't stand in one picture; name those of one protocol"
            )


def learning_of(runs: Sequence[Folder], scores: Sequence[Named]) -> list[Learning]:
    """For each run the scores of its checkpoints, of its start and of its teacher; runs without any are left out."""
    found = []
    for run, name in zip(runs, names_of(runs), strict=True):
        steps = checkpoint_digests(run.path)
        start, teacher = _models(run.path)
        if start is not None:
            steps = {start: 0} | steps
        points = {steps[one.score.model_digest]: one for one in scores if one.score.model_digest in steps}
        own = [one for one in scores if one.score.model_digest == teacher]
        if any(points):  # the start alone is no curve
            found.append(Learning(name=name, points=tuple(sorted(points.items())), teacher=own[0] if own else None))
    return found


def series_of(runs: Sequence[Folder], metric: str) -> list[Series]:
    """The metric of each run over its steps; raises `AskedWrongly` when no run has it, with those that there are."""
    lines = [_lines(run.path / "metrics.jsonl") for run in runs]
    known = dict.fromkeys(
        key for of_run in lines for line in of_run for key, value in line.items() if _is_number(value)
    )
    if metric not in known:
        raise AskedWrongly(f"no metric {metric!r}; there are: {', '.join(key for key in known if key != 'step')}")
    return [
        Series(
            name=name,
            steps=tuple(line["step"] for line in of_run),
            values=tuple(float(line[metric]) if _is_number(line.get(metric)) else None for line in of_run),
        )
        for name, of_run in zip(names_of(runs), lines, strict=True)
    ]


def shares(folder: Path) -> Mapping[str, tuple[int, int]]:
    """Of each question how many samples are right, and how many count: only settled ones, as in the score."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    path = folder / "samples.jsonl"
    latest: dict[tuple[str, int], str] = {}  # a row whose grader failed gives way to a later one
    for line in read_lines(path):
        try:
            latest[line["question"], line["sample"]] = line["judgement"]["verdict"]
        except (KeyError, TypeError) as error:
            raise AskedWrongly(f"{path} has a line without question, sample and verdict: {error}") from error
    for (question, _), verdict in latest.items():
        asked[question] += 1
        right[question] += verdict == "correct"
    return {question: (right[question], count) for question, count in asked.items()}


def _lines(path: Path) -> list[dict[str, Any]]:
    """The flat lines of a run's metrics; their steps rise, each once."""
    lines = [flat(line) for line in read_lines(path, torn_end=True)]
    steps = [line.get("step") for line in lines]
    if not lines:
        raise AskedWrongly(f"{path} has no step yet")
    if not all(isinstance(step, int) for step in steps) or steps != sorted(set(steps), key=lambda step: step or 0):
        raise AskedWrongly(f"{path}: its steps don't rise, each once; it is not a run's own file")
    return lines


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _models(run: Path) -> tuple[str | None, str | None]:
    """The digests of the start and of the teacher, as a score names them; None where they were not written down."""
    if not (run / "began.json").is_file():
        return None, None
    models = read_object(run / "began.json").get("models") or {}
    start, teacher = (digest(models[role]) if models.get(role) else None for role in ("student", "teacher"))
    return start, teacher
