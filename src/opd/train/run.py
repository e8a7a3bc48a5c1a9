"""A recipe and a folder → a run.

DIR/recipe.json       the resolved recipe: `opd train DIR/recipe.json` makes the same run
    began.json        digests of the training file and of both models, which a run that is taken up must find again
    metrics.jsonl     a line for each step
    events.jsonl      what happened beside the steps, if anything did: a sink that was dropped
    sinks/            what the sinks print, and what they keep here, where any is asked for
    rollouts/         every token with both log-probabilities, and the tokenizer that reads them
    checkpoint-*/     complete model directories
    state/            the trainer's state, from which a stopped run goes on
    run.json          written last: what the run came to
    failure.json      instead of it: what ended the run
"""

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import torch

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.failures import failure
from opd.records.files import PARTIAL, alone, check_writable, existing_parent, write_json
from opd.records.metrics import RunSummary, StepMetrics
from opd.train.ahead.lacks import lacks
from opd.train.ahead.rehearsal import Rehearsal, rehearse
from opd.train.ahead.relief import relief
from opd.train.clock import Progress
from opd.train.followers import Followers
from opd.train.loop import train
from opd.train.parts import Parts, build
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.ranks.sameness import check_enough, check_same_inputs
from opd.train.recipe import Recipe
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.origins import Beginning
from opd.train.saved.resume import BEGAN, Start, go_back, put_back
from opd.train.saved.shares import check_seen
from opd.train.saved.state import States

_TORN = f"recipe.json{PARTIAL}"  # a run that was killed before its first file was whole left nothing to go on with


def prepare(
    recipe: Recipe,
    out: Path,
    *,
    start: Start | None = None,
    began: float | None = None,
    ranks: Ranks = ALONE,
    rehearsed: Callable[[Rehearsal], object] | None = None,
) -> Parts:
    """The parts of the run, of this rank, loaded and checked; nothing is created on the disk.

    Raises `AskedWrongly` for everything at once that this machine lacks, or for a folder in use. A run that goes on
    from `start` finds its own files there, and must find the models that it began with. `began` is when the process
    was started, by `time.monotonic`, and None for now: what is done here is part of the run's time. `rehearsed` gets
    the measurements of two steps at the greatest length, of parts of their own; None: there is no rehearsal.
    """
    began = time.monotonic() if began is None else began
    check_enough(recipe.rollouts.prompts_per_step, ranks)
    ranks.first(lambda: _check_place(out, start))
    ranks.first(lambda: _check_machine(recipe, ranks.count))  # what has to be fetched is fetched once
    if not ranks.writes:
        _check_machine(recipe, ranks.count)
    if rehearsed is not None:
        rehearsed(rehearse(recipe, place=existing_parent(out), ranks=ranks))
    parts = build(recipe, began_with=start.origins if start else None, began=began, ranks=ranks)
    check_same_inputs(recipe, data=parts.data_sha256, origins=parts.origins, ranks=ranks)
    return parts


def run(
    recipe: Recipe,
    parts: Parts,
    out: Path,
    *,
    start: Start | None = None,
    notes: Sequence[str] = (),
    report: Callable[[StepMetrics], object] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    warn: Callable[[str], object] = lambda _: None,
) -> RunSummary:
    """The summary of the finished run, which also stands in `out/run.json`.

    `start`, from `find_start`, is where a run that was taken up again goes on; `notes` is what was said before step
    one, and is kept; `warn` gets a line on what goes wrong beside the run and doesn't end it. Raises `AnswerIsNo`
    when the run could not go on; what was published before is whole, and `out/failure.json` says what it was.
    """
    ranks = parts.ranks
    with ExitStack() as stack:
        ranks.first(lambda: _claim(out, start, stack))
        if parts.shares is not None:
            _check_seen(out, start, ranks)
        progress = Progress()
        followers = Followers(recipe.sinks, out, warn=warn)

        def shown(metrics: StepMetrics) -> None:
            report(metrics)
            followers.look(step=metrics.step)

        try:
            _open(recipe, parts, out, start)
            if ranks.writes:
                followers.start(step=start.step if start else 0)
            summary = train(
                recipe, parts, out=out, report=shown, interrupted=interrupted, start=start, progress=progress
            )
            summary = summary.model_copy(update={"notes": tuple(notes)})
            if ranks.writes:
                write_json(out / "run.json", summary.resolved())
        except BaseException as error:
            if ranks.writes:
                _record(error, out, progress, seconds=parts.budget.seconds)
            if isinstance(error, torch.OutOfMemoryError):
                advice = relief(
                    recipe, prompts=parts.prompts, phase=progress.phase, device=parts.device, ranks=ranks.count
                )
                raise AnswerIsNo(f"out of device memory ({error}); {advice}") from error
            raise
        finally:
            if parts.reward is not None:
                parts.reward.close()
            followers.finish(limit_seconds=_left(recipe, parts))
    return summary


def _check_place(out: Path, start: Start | None) -> None:
    if start is None:
        check_free(out)
    else:
        check_writable(out)
    check_space(out)


def _check_machine(recipe: Recipe, ranks: int) -> None:
    missing = lacks(recipe, ranks=ranks)
    if missing:
        raise AskedWrongly("\n  - ".join(["the recipe is fine, but this machine lacks what it needs:", *missing]))


def _claim(out: Path, start: Start | None, stack: ExitStack) -> None:
    """The folder is this run's alone until `stack` is closed, and still as it was looked at."""
    out.mkdir(parents=True, exist_ok=True)
    stack.enter_context(alone(out))
    if start is None:
        check_free(out)
    else:
        check_unmoved(out, start)


def _check_seen(out: Path, start: Start | None, ranks: Ranks) -> None:
    """Nothing, when all ranks see the folder; else `AskedWrongly`, and one that would be of a new run is gone."""
    try:
        check_seen(out, ranks)
    except AskedWrongly:
        if ranks.writes and start is None:
            out.rmdir()
        raise


def _open(recipe: Recipe, parts: Parts, out: Path, start: Start | None) -> None:
    """The folder is ready for the next step, and so are the parts."""
    ranks = parts.ranks
    if start is None:
        ranks.first(lambda: write_json(out / "recipe.json", recipe.resolved()))
    else:
        going_on = start
        ranks.first(lambda: go_back(out, going_on, recipe))
    if start is not None:
        put_back(parts, start)
    ranks.first(lambda: _note_beginning(parts, out))


def _note_beginning(parts: Parts, out: Path) -> None:
    if not (out / BEGAN).is_file():
        write_json(out / BEGAN, Beginning(data=parts.data_sha256, models=parts.origins).resolved())
    (out / "rollouts").mkdir(exist_ok=True)
    parts.student.tokenizer.backend_tokenizer.save(str(out / "rollouts" / "tokenizer.json"))


def _left(recipe: Recipe, parts: Parts) -> float | None:
    """Seconds of the wall clock that are not used; None without one."""
    limit = recipe.budget.max_wall_seconds
    return None if limit is None else limit - parts.budget.seconds


def _record(error: BaseException, out: Path, progress: Progress, *, seconds: float) -> None:
    """`failure.json` is written, where the disk still takes it: what broke may be the disk."""
    with suppress(OSError):
        checkpoint, states = Checkpoints(out).newest(), States(out).whole()
        record = failure(
            error,
            phase=progress.phase,
            step=progress.step,
            seconds=seconds,
            checkpoint=checkpoint.name if checkpoint else None,
            state=states[-1].name if states else None,
        )
        write_json(out / "failure.json", record.resolved())


def check_unmoved(out: Path, start: Start) -> None:
    """Nothing, when the newest state is still the one that `start` found: another process may have gone on."""
    newest = States(out).whole()[-1:]
    if newest != ([start.folder] if start.folder else []):
        raise AskedWrongly(f"{out} has gone on since it was looked at, by another process; resume it again")


def check_free(out: Path) -> None:
    """Nothing, when the folder can take a new run: a run never writes over another."""
    check_writable(out)
    if (out / "recipe.json").is_file():
        raise AskedWrongly(
            f"{out} exists and is not empty; a run never writes over another: name a new folder, or go on with the "
            "run that it holds: --resume"
        )
    if out.exists() and (not out.is_dir() or any(path.name != _TORN for path in out.iterdir())):
        raise AskedWrongly(f"{out} exists and is not empty; a run never writes over another: name a new folder")


def check_space(out: Path) -> None:
    """Nothing, when the disk can take anything at all."""
    free = shutil.disk_usage(existing_parent(out)).free
    if free < 1 << 20:
        raise AskedWrongly(f"{out}: the disk has {free} bytes left")
