"""What a report shows, each value with the file that it was read from: none can be given without."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any, Generic, TypeVar

from opd.records.errors import AskedWrongly
from opd.records.files import read_json, read_lines
from opd.records.metrics import StepMetrics
from opd.records.rollout_table import read_table
from opd.records.rollouts import ScoredRollout
from opd.records.scores import Comparison, Score
from opd.records.settings import Settings, read, validated

T = TypeVar("T")
S = TypeVar("S", bound=Settings)

_DISPUTED = 1.0  # nats: the teacher finds the token e times less likely

EMBEDDED_CAVEATS = (
    (
        "The student is an artificially degraded sibling of the teacher: both come from one training run, "
        "and the student was then taught sloppy arithmetic. Decoded greedily it already answers 0.96 of the "
        "questions, so most of the gain is the removal of sampling noise that it could avoid."
    ),
    (
        "This shows that the pipeline distils: rollouts, teacher scores, update and evaluation fit together. "
        "It is no evidence about models of 1.5 billion parameters, about other data, or about other recipes."
    ),
    (
        "One run with one seed. The intervals cover the noise of questions and of sampled answers, "
        "not the spread between training runs."
    ),
)
"""What the embedded task `arith_tiny` can and can't show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited(Generic[T]):
    """A value and the file that holds it, relative to the folder of the report."""

    value: T
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommand:
    """A command to try, and what it does."""

    command: str
    does: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The score of the student after a number of updates."""

    step: int
    score: Cited[Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One distillation, from start to result; scores of different protocols are refused."""

    title: str
    start: Cited[Score]
    result: Cited[Score]
    teacher: Cited[Score]
    curve: tuple[CurvePoint, ...]  # by step; the start is step 0
    comparison: Cited[Comparison]  # a is the start, b the result
    metrics: Cited[tuple[StepMetrics, ...]]
    rollout: Cited[ScoredRollout]
    rollout_step: int  # the update that the rollout was sampled for
    tokenizer: Path  # a tokenizer.json
    recipe: Cited[Mapping[str, Any]]
    recipe_digest: str
    seconds: Cited[Mapping[str, float]]  # wall clock by phase, in order
    next_commands: tuple[NextCommand, ...]
    caveats: tuple[str, ...]

    def __post_init__(self) -> None:
        for cited in (self.result, self.teacher, *(point.score for point in self.curve)):
            if cited.value.protocol_digest != self.start.value.protocol_digest:
                raise AskedWrongly(
                    f"{cited.file} follows protocol {cited.value.protocol_digest[:12]} and {self.start.file} "
                    f"follows {self.start.value.protocol_digest[:12]}: they can't stand in one picture; "
                    "evaluate both in the same way"
                )
        found = self.comparison.value
        for said, score in ((found.mean_a, self.start), (found.mean_b, self.result)):
            if not isclose(said, score.value.mean, abs_tol=1e-9):
                raise AskedWrongly(
                    f"{self.comparison.file} says {said} where {score.file} says {score.value.mean}: "
                    "compare these two scores again"
                )
        if not self.curve or not self.metrics.value:
            raise AskedWrongly("a story needs a point of its learning curve and a step of its metrics")
        if [point.step for point in self.curve] != sorted({point.step for point in self.curve}):
            raise AskedWrongly("the steps of the learning curve must rise, each once")


def cite(kind: type[S], path: Path, *, root: Path) -> Cited[S]:
    """One record read from a JSON file, with its name relative to the report's folder."""
    return Cited(value=read(kind, path), file=name_in(root, path))


def cite_json(path: Path, *, root: Path) -> Cited[Any]:
    """Any JSON value, such as a resolved recipe."""
    return Cited(value=read_json(path), file=name_in(root, path))


def cite_metrics(path: Path, *, root: Path) -> Cited[tuple[StepMetrics, ...]]:
    """Every step of a run's `metrics.jsonl`."""
    steps = tuple(validated(StepMetrics, line, source=str(path)) for line in read_lines(path))
    return Cited(value=steps, file=name_in(root, path))


def cite_telling_rollout(path: Path, *, root: Path) -> Cited[ScoredRollout]:
    """The rollout of a step's table that has the most to show; see `telling`."""
    return Cited(value=telling(read_table(path)), file=name_in(root, path))


def telling(scored: Sequence[ScoredRollout]) -> ScoredRollout:
    """A typical dispute: of the rollouts with a disputed token, the middle one by its most disputed token.

    A token is disputed where the teacher finds it at least `_DISPUTED` nats less likely than the student did:
    most often a wrong digit. The strangest rollout of a step would show a freak. Rollouts that were cut short,
    and those without a dispute, are taken only where there are no others. Raises `AskedWrongly` for none.
    """
    if not scored:
        raise AskedWrongly("there are no rollouts to show; name the table of a step that was trained on")
    whole = [one for one in scored if not one.rollout.stop.cut_short] or list(scored)
    disputed = sorted((one for one in whole if lowest_gap(one) <= -_DISPUTED), key=lowest_gap)
    return disputed[len(disputed) // 2] if disputed else min(whole, key=lowest_gap)


def lowest_gap(scored: ScoredRollout) -> float:
    """The smallest log teacher - log student among the tokens, nats."""
    return min(t - s for t, s in zip(scored.teacher_logp, scored.rollout.logp, strict=True))


def name_in(root: Path, path: Path) -> str:
    """How a report in `root` names the file: relative where it lies below, or else by its name alone."""
    where, folder = path.resolve(), root.resolve()
    return where.relative_to(folder).as_posix() if where.is_relative_to(folder) else path.name
