"""What the page of an attempt reads beside its report: metrics, samples, outcomes, the audit and the patch.

What a candidate or an explorer wrote may be anything: a line that is no metric is passed over and counted, and
nothing in it can stop the page. What the protocol sealed has to be as its record says.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opd.records.attempts import Formal
from opd.records.errors import AskedWrongly
from opd.records.files import object_in, read_lines
from opd.records.reports import Curve, Report, Scored
from opd.records.settings import read

_MOST_BYTES = 256 << 20  # of a file that a candidate wrote
_LARGEST = 1e30  # of a metric: beyond it a picture has nothing to show
_MOST_STEPS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What a training run wrote about its steps, of whatever metrics it has; None in a step that hasn't one."""

    label: str
    claimed_by: str
    steps: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    passed_over: int  # lines that are no metrics
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """For each question of the finals how many of its samples are right, checkpoint by checkpoint."""

    checkpoints: tuple[str, ...]
    questions: tuple[str, ...]  # lowest share over all checkpoints first
    right: tuple[tuple[int, ...], ...]  # by checkpoint, then by question
    samples: tuple[tuple[int, ...], ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """What a bar of a formal try says beside its length."""

    given_seconds: float
    steps: tuple[int, ...]


def read_series(attempt: Path, curve: Curve, *, names: Sequence[str]) -> Series | None:
    """The metrics of these names, by step; None where the file is missing, too large or holds none of them."""
    path = attempt / curve.file
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return None
    rows: dict[int, dict[str, float]] = {}
    passed_over = 0
    for line in _objects(path):
        step = line.get("step") if line is not None else None
        if line is None or not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < _MOST_STEPS:
            passed_over += 1
            continue
        rows[step] = {name: value for name in names if (value := _finite(line.get(name))) is not None}
    steps = tuple(sorted(rows))
    values = {name: tuple(rows[step].get(name) for step in steps) for name in names}
    values = {name: column for name, column in values.items() if any(one is not None for one in column)}
    if not values:
        return None
    return Series(
        label=curve.label,
        claimed_by=curve.claimed_by,
        steps=steps,
        values=values,
        passed_over=passed_over,
        file=curve.file,
    )


def read_grid(attempt: Path, finals: Sequence[Scored]) -> Grid | None:
    """The finals that have samples, over the questions of all of them; None where none has any.

    Raises `AskedWrongly` when two finals have different questions: they are of one protocol, or the report is wrong.
    """
    counted = {
        final.label: _counted(attempt / final.evaluation / "samples.jsonl")
        for final in finals
        if final.evaluation is not None and final.mean is not None
    }
    if not counted:
        return None
    names = {label: set(found) for label, found in counted.items()}
    first, *others = names
    for other in others:
        if names[other] != names[first]:
            raise AskedWrongly(f"{first} and {other} were asked different questions; they can't be of one protocol")

    def key(question: str) -> tuple[float, str]:
        right, asked = (sum(found[question][at] for found in counted.values()) for at in (0, 1))
        return right / asked, question

    questions = tuple(sorted(names[first], key=key))
    return Grid(
        checkpoints=tuple(counted),
        questions=questions,
        right=tuple(tuple(found[one][0] for one in questions) for found in counted.values()),
        samples=tuple(tuple(found[one][1] for one in questions) for found in counted.values()),
        files=tuple(f"{final.evaluation}/samples.jsonl" for final in finals if final.label in counted),
    )


def read_stage_facts(attempt: Path, report: Report) -> dict[str, StageFacts]:
    """By the name of a formal try what it was given and which checkpoints it left, where it came to an outcome."""
    found = {}
    for stage in report.stages:
        path = attempt / stage.name / "outcome.json"
        if stage.name.startswith("formal/") and path.is_file():
            outcome = read(Formal, path)
            steps = tuple(artifact.step for artifact in outcome.artifacts)
            found[stage.name] = StageFacts(given_seconds=outcome.given_seconds, steps=steps)
    return found


def _counted(path: Path) -> dict[str, tuple[int, int]]:
    """How many samples of each question are right, and how many there are."""
    right: defaultdict[str, int] = defaultdict(int)
    asked: defaultdict[str, int] = defaultdict(int)
    for line in read_lines(path):  # not as `Sample`: a final's responses are a hundred megabytes
        try:
            question, verdict = line["question"], line["judgement"]["verdict"]
        except (KeyError, TypeError) as error:
            raise AskedWrongly(f"{path} has a line without question and verdict: {error}") from error
        asked[question] += 1
        right[question] += verdict == "correct"
    if not asked:
        raise AskedWrongly(f"{path} has no samples")
    return {question: (right[question], count) for question, count in asked.items()}


def _objects(path: Path) -> Iterator[dict[str, object] | None]:
    """Each line's object; None for a line that is none."""
    with path.open("rb") as file:
        yield from map(object_in, file)


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _LARGEST else None  # not so of NaN either
