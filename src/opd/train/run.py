"""A recipe and a folder → a run.

DIR/recipe.json       the resolved recipe: `opd train DIR/recipe.json` makes the same run
    metrics.jsonl     a line for each step
    rollouts/         every token with both log-probabilities, and the tokenizer that reads them
    checkpoint-*/     complete model directories
    run.json          written last: what the run came to
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import check_writable, write_json
from opd.records.metrics import RunSummary, StepMetrics
from opd.train.loop import train
from opd.train.plan import lacks
from opd.train.recipe import Parts, Recipe, build


def prepare(recipe: Recipe, out: Path) -> Parts:
    """The parts of the run, loaded and checked; nothing is created on the disk.

    Raises `AskedWrongly` for everything at once that this machine lacks, or for a folder in use.
    """
    check_free(out)
    missing = lacks(recipe)
    if missing:
        raise AskedWrongly("\n  - ".join(["the recipe is fine, but this machine lacks what it needs:", *missing]))
    return build(recipe)


def run(
    recipe: Recipe,
    parts: Parts,
    out: Path,
    *,
    report: Callable[[StepMetrics], object] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> RunSummary:
    """The summary of the finished run, which also stands in `out/run.json`.

    Raises `AnswerIsNo` when the run could not go on; what was published before is whole.
    """
    (out / "rollouts").mkdir(parents=True)
    write_json(out / "recipe.json", recipe.resolved())
    parts.student.tokenizer.backend_tokenizer.save(str(out / "rollouts" / "tokenizer.json"))
    try:
        summary = train(recipe, parts, out=out, report=report, interrupted=interrupted)
    except torch.OutOfMemoryError as error:
        raise AnswerIsNo(
            f"out of device memory ({error}); lower machine.micro_batch_tokens, machine.head_chunk_tokens, "
            "rollouts.largest_batch or rollouts.limit_tokens"
        ) from error
    write_json(out / "run.json", summary.resolved())
    return summary


def check_free(out: Path) -> None:
    """Nothing, when the folder can take a new run: a run never writes over another."""
    check_writable(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AskedWrongly(f"{out} exists and is not empty; a run never writes over another: name a new folder")
    free = shutil.disk_usage(next(parent for parent in (out, *out.absolute().parents) if parent.exists())).free
    if free < 1 << 20:
        raise AskedWrongly(f"{out}: the disk has {free} bytes left")
