"""Whole runs on several ranks, for the tests beside this file."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from tests.train.ranks.processes import together

from opd.records.files import read_lines
from opd.records.metrics import RunSummary
from opd.records.rollout_table import read_table
from opd.records.rollouts import ScoredRollout
from opd.train.ranks.joining import joined
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.recipe import Recipe
from opd.train.resume import find_start
from opd.train.run import prepare, run

CLOCKS = {"seconds", "seconds_by_rank", "peak_bytes"}


def go(recipe: Recipe, out: Path, *, ranks: Ranks = ALONE, interrupt_at: int | None = None) -> RunSummary:
    """A new run, or the rest of the one that is there; interrupted after so many steps of this try."""
    made = 0

    def interrupted() -> bool:
        nonlocal made
        made += 1
        return made == interrupt_at

    start = ranks.first(lambda: find_start(recipe, out) if (out / "recipe.json").exists() else None)
    parts = prepare(recipe, out, start=start, ranks=ranks)
    return run(recipe, parts, out, start=start, interrupted=interrupted)


def on_ranks(recipe: Recipe, out: Path, *, count: int, interrupt_at: int | None = None) -> list[RunSummary]:
    """The same by so many processes; what each of them says that the run came to."""
    if count == 1:
        return [go(recipe, out, interrupt_at=interrupt_at)]
    return together(count, _go, recipe, out, interrupt_at)


def _go(recipe: Recipe, out: Path, interrupt_at: int | None) -> RunSummary:
    with joined(device="cpu") as ranks:
        # the last rank alone is interrupted: one is enough
        mine = interrupt_at if ranks.rank == ranks.count - 1 else None
        return go(recipe, out, ranks=ranks, interrupt_at=mine)


def lines(out: Path) -> list[dict[str, Any]]:
    """The lines of the metrics without what a clock or the operating system says."""
    return [
        {key: value for key, value in line.items() if key not in CLOCKS} for line in read_lines(out / "metrics.jsonl")
    ]


def tables(out: Path) -> dict[str, list[ScoredRollout]]:
    """The rollouts of each step."""
    return {path.name: read_table(path) for path in sorted((out / "rollouts").glob("*.parquet"))}


def weights(out: Path) -> dict[str, dict[str, Any]]:
    """The tensors of each checkpoint, and of the trainer's state."""
    found = {path.name: load_file(path / "model.safetensors") for path in out.glob("checkpoint-*")}
    return found | {path.name: load_file(path / "state.safetensors") for path in out.glob("state/step-*")}
