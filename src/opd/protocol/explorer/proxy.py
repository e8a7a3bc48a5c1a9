"""`fast-eval`: a checkpoint of the explorer's, measured by the proxy benchmark as the task says, and kept.

    proxy/001/     a sealed folder each
        evaluation/score.json, samples.jsonl …     what `opd evaluate` of the install wrote
        workspace.patch                            how the source differed from the base when it began (snapshot.py)
        training/                                  what the explorer's run folder says made the checkpoint (claims.py)
        outcome.json                               which checkpoint, its digest, the score, or why there is none

The checkpoint is taken over first: what is evaluated is a copy that the explorer can't change any more. The copy is
not kept, its digest is.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from threading import Lock

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.protocol.attempts.attempt import OUTCOME
from opd.protocol.attempts.sealing import seal_record
from opd.protocol.clock import Stopwatch
from opd.protocol.explorer.aside import aside
from opd.protocol.explorer.claims import FOLDER, Claims, Training, claims
from opd.protocol.explorer.desk import Question, Say
from opd.protocol.explorer.lock import DeviceLock, DeviceTaken
from opd.protocol.explorer.snapshot import PATCH, Snapshot, Workspace, no_snapshot
from opd.protocol.explorer.taking import take_over
from opd.protocol.measures import read_score
from opd.protocol.words import one_line
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import digest, tree, write_json
from opd.records.receipts import Head, begin
from opd.records.settings import Settings
from opd.records.tasks import Measure

CONFLICT = 75  # EX_TEMPFAIL


class Proxy(Settings):
    """`outcome.json` of a proxy measurement."""

    number: NonNegativeInt
    checkpoint: str
    """As the explorer named it."""
    note: str | None
    sha256: str | None
    """Digest of the model's files, as in `Score.model_digest`; null where it could not be taken over."""
    benchmark: str
    protocol_sha256: str | None
    correct: NonNegativeInt | None
    samples: NonNegativeInt | None
    mean: float | None
    stderr: float | None
    cut_short: float | None
    seconds: NonNegativeFloat
    began_at_seconds: NonNegativeFloat
    """Of the exploration's active seconds."""
    ended_at_seconds: NonNegativeFloat
    missing: str | None
    """Why there is no score."""
    workspace: Workspace | None = None
    """The source as it stood when the measurement began; null in a record of before there was one."""
    training: Training | None = None
    """What the explorer's files say made the checkpoint; null where they say nothing."""


class Pipeline(Settings):
    """A training up to a checkpoint, with the measurement of that one, in active seconds of ours."""

    proxy: NonNegativeInt
    checkpoint: str
    step: NonNegativeInt | None
    """Of the checkpoint, as the explorer's files say; null where they don't."""
    seconds: NonNegativeFloat
    """Between the end of the measurement before it and the end of this one; see `pipelines`."""
    measurement_seconds: NonNegativeFloat
    claimed_training_seconds: NonNegativeFloat | None
    """As the explorer's files say, and at most what had gone by; null where they don't."""

    @property
    def cost_seconds(self) -> float:
        """What the same costs again: of a training that ran beside others, more than went by between two ends."""
        return max(self.seconds, (self.claimed_training_seconds or 0.0) + self.measurement_seconds)


def pipelines(done: Sequence[Proxy]) -> tuple[Pipeline, ...]:
    """One for each measurement with a score, in order.

    A further checkpoint of a training that was measured before (the same folder, the same recipe) is no training of
    its own: the seconds that the training had taken come to those since, without those of its other measurements.
    """
    found: list[Pipeline] = []
    trained: dict[tuple[str, str | None] | int, float] = {}  # seconds, by what tells one training from another
    before = 0.0
    for one in done:
        if one.mean is None:
            continue
        made_by = (one.training.folder, one.training.recipe_sha256) if one.training else one.number
        training = trained.get(made_by, 0.0) + max(0.0, one.ended_at_seconds - before - one.seconds)
        found.append(_pipeline(one, seconds=training + one.seconds))
        trained[made_by], before = training, one.ended_at_seconds
    return tuple(found)


def _pipeline(one: Proxy, *, seconds: float) -> Pipeline:
    claimed = one.training.seconds if one.training else None
    return Pipeline(
        proxy=one.number,
        checkpoint=one.checkpoint,
        step=one.training.step if one.training else None,
        seconds=round(seconds, 3),
        measurement_seconds=one.seconds,
        claimed_training_seconds=None if claimed is None else min(claimed, one.began_at_seconds),
    )


Evaluate = Callable[[Path, Path], None]
"""Evaluates the model of one folder into another, in the judge's own sandbox; raises `OpdError` when that fails."""


class Proxies:
    """All measurements of one exploration, one at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        measure: Measure,
        evaluate: Evaluate,
        lock: DeviceLock,
        on_host: Callable[[PurePosixPath], tuple[Path, PurePosixPath]],
        largest_bytes: int,
        watch: Stopwatch,
        events: Callable[[], Head],
        made_from: dict[str, str],
        look: Callable[[], Snapshot],
        measured: Callable[[Sequence[Proxy]], None],
    ) -> None:
        self._folder = folder
        self._measure = measure
        self._evaluate = evaluate
        self._lock = lock
        self._on_host = on_host  # the explorer's own folder that a path lies in, and where; else `AskedWrongly`
        self._largest_bytes = largest_bytes
        self._watch = watch
        self._events = events
        self._made_from = made_from
        self._look = look  # at the workspace
        self._measured = measured  # is told when there is one more
        self._at_work = Lock()
        self._closed = False
        self.done: list[Proxy] = []
        self.evaluating = False

    def close(self) -> None:
        """Nothing more is measured; a measurement that is under way is waited for, and is told to end elsewhere."""
        self._closed = True
        with self._at_work:
            pass

    @property
    def shortest_pipeline_seconds(self) -> float | None:
        """The least that a training with its measurement has taken so far."""
        return min((one.seconds for one in pipelines(self.done)), default=None)

    def fast_eval(self, question: Question, say: Say) -> int:
        """0 with the score said; 75 while somebody trains on the device; else why it could not be measured."""
        named = question.arguments.get("checkpoint")
        if not isinstance(named, str) or not named:
            raise AskedWrongly("name the folder of a checkpoint")
        note = question.arguments.get("note")
        inside = PurePosixPath(question.folder) / named
        try:
            with self._at_work, self._lock.alone("fast-eval"):
                if self._closed:
                    raise AskedWrongly("the exploration is over")
                return self._scored(inside, *self._on_host(inside), note if isinstance(note, str) else None, say)
        except DeviceTaken as taken:
            say(f"fast-eval: {taken} has the device; wait for it, or end it")
            return CONFLICT

    def _scored(self, named: PurePosixPath, root: Path, inside: PurePosixPath, note: str | None, say: Say) -> int:
        watch, began_at = Stopwatch(), self._watch.active_seconds
        number = 1 + sum(1 for _ in self._folder.glob("*"))
        place = self._folder / f"{number:03d}"
        partial = begin(place)
        model = partial / "model"
        sha256, score, missing = None, None, None
        source = aside(self._look, name="snapshot", missing=no_snapshot)
        said = aside(lambda: claims(root, inside, named=named), name="claims", missing=lambda _: None)
        self.evaluating = True
        try:
            take_over(root, inside, model, largest_bytes=self._largest_bytes)
            sha256 = digest(tree(model))
            self._evaluate(model, partial / "evaluation")
            score = read_score(partial / "evaluation", self._measure)
        except AnswerIsNo as error:
            missing = str(error)
        finally:
            self.evaluating = False
            shutil.rmtree(model, ignore_errors=True)
        stood, made_by = source(), said()
        outcome = Proxy(
            number=number,
            checkpoint=one_line(str(named), most=1_000),
            note=one_line(note, most=2_000) if note else None,
            sha256=sha256,
            benchmark=self._measure.benchmark,
            protocol_sha256=score.protocol_digest if score else None,
            correct=score.correct if score else None,
            samples=score.samples if score else None,
            mean=score.mean if score else None,
            stderr=score.stderr if score else None,
            cut_short=score.cut_short if score else None,
            seconds=round(watch.active_seconds, 3),
            began_at_seconds=round(began_at, 3),
            ended_at_seconds=round(self._watch.active_seconds, 3),
            missing=missing,
            workspace=stood.workspace,
            training=made_by.training if made_by else None,
        )
        _keep(partial, stood, made_by)
        write_json(partial / OUTCOME, outcome.resolved())
        seal_record(
            place,
            kind="proxy",
            outcome="failed" if missing else "scored",
            because=missing,
            made_from=self._made_from | ({"checkpoint": sha256} if sha256 else {}),
            events=self._events(),
            watch=watch,
        )
        self.done.append(outcome)
        say(_sentence(outcome, self._measure))
        if missing is None:
            self._measured(tuple(self.done))
        return 0 if missing is None else 1


def _keep(folder: Path, stood: Snapshot, made_by: Claims | None) -> None:
    """What is copied of the explorer's, beside the measurement."""
    if stood.workspace.patch:
        (folder / PATCH).write_bytes(stood.patch)
    if made_by:
        (folder / FOLDER).mkdir()
        for name, held in made_by.files.items():
            (folder / FOLDER / name).write_bytes(held)


def _sentence(outcome: Proxy, measure: Measure) -> str:
    if outcome.missing is not None:
        return f"proxy {outcome.number:03d}: no score: {outcome.missing}"
    error = "" if outcome.stderr is None else f" ± {outcome.stderr:.4f}"
    counted = f"{outcome.mean:.4f}{error} ({outcome.correct}/{outcome.samples})"
    return (
        f"proxy {outcome.number:03d}: {measure.metric} {counted}, cut short {outcome.cut_short:.4f}, "
        f"in {outcome.seconds:.0f} s"
    )
