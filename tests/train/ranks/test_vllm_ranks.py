"""Runs whose sampler and teacher are vLLMs of two ranks each, on the small one for the CPU (`vllm_double.py`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models import vllm_double
from tests.train.ranks.processes import together
from tests.train.ranks.runs import go, lines, tables, weights

from opd.models import samplers
from opd.models.vllm import server
from opd.records.files import read_lines
from opd.records.metrics import RunSummary
from opd.train.ahead import lacks
from opd.train.ahead.rehearsal import rehearse
from opd.train.ranks.joining import joined
from opd.train.recipe import Recipe

pytestmark = pytest.mark.patient

RANKS = 4
BOTH = ("machine.engine=vllm", "machine.scorer=vllm", "rollouts.prompts_per_step=5", "budget.steps=2")
RUNS = {"none": (), "full": ("machine.shard=full",)}
RESUMED = "full, resumed"


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[None]:
    """In this process and in those that it starts vLLM is found as if it were installed."""
    with pytest.MonkeyPatch.context() as patch:
        as_if_installed(patch)
        yield


def as_if_installed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(server, "find_vllm", lambda: vllm_double)
    for module in (samplers, lacks):
        patch.setattr(module, "vllm_version", lambda: "0.25.1")


def by_teams(recipe: Recipe, folder: Path) -> list[RunSummary]:
    as_if_installed(pytest.MonkeyPatch())
    recipes = {name: recipe.changed(["machine.tensor_parallel=2", *sets]) for name, sets in RUNS.items()}
    with joined(device="cpu") as ranks:
        rehearse(recipes["full"], place=folder, ranks=ranks)
        go(recipes["full"], folder / RESUMED, ranks=ranks, interrupt_at=1)
        return [go(recipes[name.partition(",")[0]], folder / name, ranks=ranks) for name in (*RUNS, RESUMED)]


def test_ranks_of_two_vllms_make_the_run_of_one_process(make_recipe, tmp_path: Path) -> None:
    """Tokens, metrics and weights; where each rank has rows of the layers alone, vLLM is sent what they make up.

    A rehearsal goes before them, and leaves nothing; the last is stopped after a step, and goes on.
    """
    recipe = make_recipe(*BOTH)
    go(recipe, tmp_path / "alone")
    summaries = together(RANKS, by_teams, recipe, tmp_path)
    assert [[one.steps for one in some] for some in summaries] == [[2, 2, 2]] * RANKS
    assert [[one.resumed_from for one in some] for some in summaries] == [[(), (), (1,)]] * RANKS
    for name in (*RUNS, RESUMED):
        check_same(tmp_path / name, tmp_path / "alone")
        check_seconds(tmp_path / name)


def check_seconds(run: Path) -> None:
    """While vLLM draws nobody counts as waiting: it is a rank's own work."""
    for line in read_lines(run / "metrics.jsonl"):
        assert all(spread["least"] >= 0 for spread in line["seconds_by_rank"].values())


def check_same(found: Path, expected: Path) -> None:
    drawn, alone = tables(found), tables(expected)
    assert drawn.keys() == alone.keys()
    for step, some in alone.items():
        assert [one.rollout.token_ids for one in drawn[step]] == [one.rollout.token_ids for one in some]
        for one, other in zip(drawn[step], some, strict=True):
            assert one.rollout.prompt == other.rollout.prompt
            assert one.teacher_logp == pytest.approx(other.teacher_logp, abs=1e-4)
    for line, other in zip(lines(found), lines(expected), strict=True):
        assert line["kl"] == pytest.approx(other["kl"], abs=1e-4)
        assert line["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
        assert line["gap"]["largest"] < 1e-3
    last = weights(found)["checkpoint-2"]
    for key, tensor in weights(expected)["checkpoint-2"].items():
        assert (last[key] - tensor).abs().max() < 1e-4, key
