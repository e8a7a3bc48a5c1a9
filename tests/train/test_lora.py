"""A run that trains adapters: what moves, what is published, and that it goes on after a stop."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from opd.records.files import read_lines, tree
from opd.records.metrics import StopCause
from opd.train.ahead.memory import adapter_parameters, load_of, look, memory_parts, read_shape, trained_parameters
from opd.train.ahead.plan import make_plan
from opd.train.parts import build
from opd.train.recipe import Recipe
from opd.train.run import prepare, run
from opd.train.saved.resume import find_start
from opd.train.saved.state import States

pytest.importorskip("peft", reason="peft is not installed: pip install 'opd[lora]'")

LORA = ("lora.rank=2", "optimizer.lr=1e-2", "save.every=2", "budget.steps=4")


def go(recipe: Recipe, out: Path, **how) -> None:
    start = find_start(recipe, out) if (out / "recipe.json").exists() else None
    run(recipe, prepare(recipe, out, start=start), out, start=start, **how)


@pytest.fixture
def finished(make_recipe, tmp_path: Path) -> Path:
    go(make_recipe(*LORA), tmp_path / "whole")
    return tmp_path / "whole"


def test_a_checkpoint_is_the_start_plus_a_product_of_the_rank(finished: Path, random_models: Path) -> None:
    """Layer by layer, by singular values; what has no adapter is the start's, bit for bit."""
    start = load_file(random_models / "student" / "model.safetensors")
    found = load_file(finished / "checkpoint-4" / "model.safetensors")
    assert found.keys() == start.keys()
    moved = {name for name in start if not torch.equal(found[name], start[name])}
    assert {name.removesuffix(".weight").rpartition(".")[2] for name in moved} == {
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    }
    for name in moved:
        values = torch.linalg.svdvals(found[name].double() - start[name].double())
        assert values[1] > 0
        assert values[2] < 1e-5 * values[0]  # float32 rounding of the sum


def test_the_state_holds_the_adapters_alone(finished: Path) -> None:
    (state,) = States(finished).whole()
    names = [name for name in load_file(state / "state.safetensors") if name.startswith("master/")]
    assert names
    assert all(".lora_" in name for name in names)


def test_a_stopped_run_goes_on_to_the_same_bits(finished: Path, make_recipe, tmp_path: Path) -> None:
    asked = iter([False, True, False, False, False])
    recipe = make_recipe(*LORA)
    go(recipe, tmp_path / "stopped", interrupted=lambda: next(asked))
    go(recipe, tmp_path / "stopped")
    for name in ("checkpoint-4", "rollouts"):
        assert tree(tmp_path / "stopped" / name) == tree(finished / name)


def test_sampler_and_update_both_see_the_adapters(finished: Path) -> None:
    """A sampler of the bare start would lie further from the trainer with every step."""
    gaps = [line["gap"]["largest"] for line in read_lines(finished / "metrics.jsonl")]
    kls = [line["kl"] for line in read_lines(finished / "metrics.jsonl")]
    assert max(gaps) < 1e-4
    assert kls[0] != kls[-1]


def test_a_run_on_bfloat16_publishes_what_sampled_and_goes_on_to_the_same_bits(
    make_recipe, random_models: Path, tmp_path: Path
) -> None:
    """At a rate of 1e-5 the matrices of the checkpoint have moved, each by a product of the rank."""
    sets = (*LORA, "optimizer.lr=1e-5", "student.dtype=bfloat16")
    go(make_recipe(*sets), tmp_path / "whole")
    asked = iter([False, True, False, False, False])
    go(make_recipe(*sets), tmp_path / "stopped", interrupted=lambda: next(asked))
    go(make_recipe(*sets), tmp_path / "stopped")
    assert tree(tmp_path / "stopped" / "checkpoint-4") == tree(tmp_path / "whole" / "checkpoint-4")
    start = load_file(random_models / "student" / "model.safetensors")
    found = load_file(tmp_path / "whole" / "checkpoint-4" / "model.safetensors")
    before = {name: tensor.bfloat16().double() for name, tensor in start.items()}
    moved, kept = 0, 0  # numbers that differ from the start's, as published and rounded to bfloat16
    for name, was in before.items():
        changed = found[name].double() != was
        assert changed.any() == name.endswith("_proj.weight"), name
        moved += int(changed.sum())
        kept += int((found[name].bfloat16().double() != was).sum())
    assert moved > 0.5 * sum(was.numel() for name, was in before.items() if name.endswith("_proj.weight"))
    assert kept < 0.1 * moved  # what rounding would have left of it


def test_the_plan_has_room_for_float32_checkpoints_and_for_the_state_of_the_adapters_alone(
    make_recipe, tmp_path: Path
) -> None:
    recipe = make_recipe(*LORA, "student.dtype=bfloat16", "save.keep=1")
    go(recipe, tmp_path / "run")
    plan = make_plan(recipe, out=tmp_path)
    parts = {part.name.partition(",")[0]: part.bytes for part in plan.disk.parts}
    checkpoint = (tmp_path / "run" / "checkpoint-4" / "model.safetensors").stat().st_size
    (state,) = States(tmp_path / "run").whole()
    assert parts["checkpoints"] / 2 == pytest.approx(checkpoint, rel=0.05)
    tensors = load_file(state / "state.safetensors").values()
    assert parts["trainer states"] / 2 == pytest.approx(sum(one.nbytes for one in tensors), rel=0.01)
    assert any("checkpoints are float32" in note for note in plan.notes)


def test_the_plan_counts_the_adapters_as_they_are(make_recipe) -> None:
    for sets in ((), ('lora.targets=["q_proj","down_proj"]',)):
        recipe = make_recipe("lora.rank=3", *sets)
        parts = build(recipe)
        trained = sum(one.numel() for one in parts.student.module.parameters() if one.requires_grad)
        shape = read_shape(parts.student.module.config.to_dict())
        assert adapter_parameters(recipe.lora, shape) == trained == trained_parameters(recipe, look(recipe.student))


def test_gradients_and_moments_are_planned_for_what_is_trained(make_recipe) -> None:
    parts = {}
    for name, sets in (("all", ()), ("lora", ("lora.rank=1",))):
        recipe = make_recipe("student.dtype=bfloat16", *sets)
        student = look(recipe.student)
        found = memory_parts(
            recipe, load_of(recipe, prompt_tokens=8), device="cpu", student=student, teachers={None: student}
        )
        parts[name] = {part.name: part.bytes for part in found}
    for name in ("gradients", "AdamW's two moments"):
        assert parts["lora"][name] < parts["all"][name] / 10
    assert "head's gradient of a chunk" in parts["all"]
    assert "head's gradient of a chunk" not in parts["lora"]


def test_layers_that_are_computed_again_change_no_bit_of_a_run(make_recipe, tmp_path: Path) -> None:
    for recompute in ("true", "false"):
        go(make_recipe("budget.steps=2", f"machine.recompute_layers={recompute}"), tmp_path / recompute)
    weights = [tree(tmp_path / name / "checkpoint-2")["model.safetensors"] for name in ("true", "false")]
    assert weights[0] == weights[1]


def test_an_interrupted_adapter_run_ends_with_a_checkpoint(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe(*LORA)
    summary = run(recipe, prepare(recipe, tmp_path / "run"), tmp_path / "run", interrupted=lambda: True)
    assert summary.stop is StopCause.INTERRUPTED
    assert summary.checkpoints == ("checkpoint-1",)
