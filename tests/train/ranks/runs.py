"""Whole runs on several ranks, for the tests beside this file, and what two of them have in common."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.train.ranks.processes import together

from opd.records.files import read_lines
from opd.records.metrics import RunSummary
from opd.records.rollout_table import read_table
from opd.records.rollouts import ScoredRollout
from opd.train.ranks.joining import joined
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.recipe import Recipe
from opd.train.run import prepare, run
from opd.train.saved.resume import find_start
from opd.train.saved.state import read_tensors

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
    """The tensors of each checkpoint, and of the trainer's state, whoever wrote it."""
    found = {path.name: load_file(path / "model.safetensors") for path in out.glob("checkpoint-*")}
    return found | {path.name: read_tensors(path) for path in out.glob("state/step-*")}


def check_same(out: Path, alone: Path) -> None:
    """The run is the other one but for rounding: lines, tokens, checkpoints, masters and moments."""
    check_lines(lines(out), lines(alone))
    check_tokens(out, alone)
    check_weights(out, alone)


def check_lines(found: list[dict], expected: list[dict]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        check_values(one, other)


def check_values(found: object, expected: object, place: str = "line") -> None:
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        assert found.keys() == expected.keys(), place
        for key in expected:
            check_values(found[key], expected[key], f"{place}.{key}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), place
    else:
        assert found == expected, place


def check_tokens(out: Path, alone: Path) -> None:
    """Token by token and in the same order; log-probabilities as closely as the file keeps them, in float32."""
    found, expected = tables(out), tables(alone)
    assert found.keys() == expected.keys()
    for name in expected:
        for one, other in zip(found[name], expected[name], strict=True):
            assert one.rollout.prompt == other.rollout.prompt
            assert (one.rollout.sample, one.rollout.stop) == (other.rollout.sample, other.rollout.stop)
            assert one.rollout.token_ids == other.rollout.token_ids
            assert one.rollout.logp == pytest.approx(other.rollout.logp, rel=1e-6, abs=1e-9)
            assert one.teacher_logp == pytest.approx(other.teacher_logp, rel=1e-6, abs=1e-9)
            assert (one.alternatives is None) == (other.alternatives is None)
            if one.alternatives is not None and other.alternatives is not None:
                assert one.alternatives.ids == other.alternatives.ids


def check_weights(out: Path, alone: Path) -> None:
    """Of every checkpoint, and masters and moments of the state."""
    found, expected = weights(out), weights(alone)
    assert found.keys() == expected.keys()
    for name, tensors in expected.items():
        assert found[name].keys() == tensors.keys()
        for key, tensor in tensors.items():
            torch.testing.assert_close(found[name][key], tensor, rtol=1e-9, atol=1e-11, msg=f"{name}, {key}")
