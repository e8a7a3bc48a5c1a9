"""A run with the engine is the run with transformers' own forward: the same tokens, and nearly the same weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from opd.cli.main import run as command
from opd.records.files import read_json, read_lines
from opd.records.places import recipe_path
from opd.records.rollout_table import read_table
from opd.records.settings import read
from opd.train.recipe import Recipe
from opd.train.run import prepare, run


def go(recipe: Recipe, out: Path) -> Path:
    run(recipe, prepare(recipe, out), out, report=lambda _: None, interrupted=lambda: False)
    return out


def tokens(run: Path) -> list[tuple[int, ...]]:
    tables = sorted((run / "rollouts").glob("*.parquet"))
    return [one.rollout.token_ids for table in tables for one in read_table(table)]


@pytest.mark.patient
def test_the_embedded_default_draws_the_same_tokens_with_either_sampler(tmp_path: Path) -> None:
    """Four updates of arith_tiny: what the fifth step draws depends on all of them. Exports are alike too."""
    sets = ["budget.steps=5", "save.every=5", "rollouts.prompts_per_step=16"]
    recipe = read(Recipe, recipe_path("arith_tiny"), sets=sets)
    engine, plain = (go(recipe.changed([f"machine.engine={name}"]), tmp_path / name) for name in ("engine", "plain"))
    assert tokens(engine) == tokens(plain)
    assert len(tokens(engine)) == 5 * 16 * recipe.rollouts.per_prompt
    assert read_json(engine / "run.json")["machine"]["sampler"] == "engine"
    assert read_json(plain / "run.json")["machine"]["sampler"] == "plain"
    weights = [load_file(one / "checkpoint-5" / "model.safetensors") for one in (engine, plain)]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, weights[1][name], rtol=0, atol=2e-5)


def test_a_run_goes_on_with_the_engine_where_one_without_it_stopped(make_recipe, tmp_path: Path) -> None:
    """What is computed does not depend on the sampler, so it is none of the recipe that a resume compares."""
    from opd.train.saved.resume import find_start

    whole = make_recipe("budget.steps=3", "save.every=1", "machine.engine=plain")
    run(whole, prepare(whole, tmp_path / "whole"), tmp_path / "whole")
    out = tmp_path / "split"
    first = make_recipe("budget.steps=1", "save.every=1", "machine.engine=plain")
    run(first, prepare(first, out), out)
    second = make_recipe("budget.steps=3", "save.every=1", "machine.engine=engine")
    start = find_start(second, out)
    run(second, prepare(second, out, start=start), out, start=start)
    assert tokens(out) == tokens(tmp_path / "whole")
    losses = [[line["loss"] for line in read_lines(one / "metrics.jsonl")] for one in (out, tmp_path / "whole")]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.parametrize(("asked", "said"), [("auto", "sampler: engine"), ("plain", "sampler: plain")])
def test_the_command_says_which_sampler_it_takes(
    asked: str, said: str, make_recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recipe()
    sets = ["--set", f"machine.engine={asked}", "--set", "budget.steps=1"]
    assert command(["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run"), *sets]) == 0
    assert said in capsys.readouterr().err.splitlines()
