"""What is said before step one: everything that is missing, at once, and what the run will see."""

from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from opd.models.load import load_model
from opd.models.machine import memory_bytes
from opd.train.objectives.k2 import K2
from opd.train.plan import GIB, _parameters, lacks, notes, state_bytes
from opd.train.recipe import ModelSettings
from opd.train.update import OptimizerSettings, Updater

REFERENCE = 1_777_088_000  # parameters of the reference student and teacher, head untied


def test_a_recipe_whose_parts_are_here_lacks_nothing(make_recipe) -> None:
    assert lacks(make_recipe()) == []


def test_all_that_is_missing_is_said_at_once(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe(
        f"student.model={tmp_path}/no-student",
        "student.parameters=1000000000000",
        f"teacher.model={tmp_path}",
        "teacher.parameters=1000000000000",
        f"data.path={tmp_path}/none.jsonl",
    )
    memory = f"{20e12 / GIB:.1f} GiB, cpu has {memory_bytes('cpu') / GIB:.1f} GiB"
    where_else = "name a model directory, or owner/name on the hub"
    assert lacks(recipe) == [
        f"student: model '{tmp_path}/no-student': no such directory; {where_else}",
        f"teacher: {tmp_path} has no config.json: it is not a Hugging Face model directory",
        f"training data: data '{tmp_path}/none.jsonl': no such file",
        f"memory: weights, optimizer state and gradients take {memory}",
    ]


def test_data_that_is_another_file_is_said_before_anything_is_loaded(make_recipe) -> None:
    """E59."""
    (fault,) = lacks(make_recipe("data.sha256=0123"))
    assert fault.startswith("training data: ")
    assert fault.endswith("the recipe asks for 0123")


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is missing where there is no CUDA device")
def test_a_gpu_that_is_asked_for_and_not_there_is_said_with_the_memory_it_needs(make_recipe) -> None:
    student, teacher = (
        [f"{role}.model=./not-fetched-yet", f"{role}.parameters={REFERENCE}"] for role in ("student", "teacher")
    )
    recipe = make_recipe("machine.device=cuda", *student, *teacher, "teacher.dtype=bfloat16")
    assert lacks(recipe)[2:] == [
        "device: the recipe asks for a CUDA device with at least 30 GiB; this machine has none"
    ]


@pytest.mark.parametrize(
    ("dtype", "trained", "gib"),
    [
        ("float32", True, 26.48),  # weights 6.62, gradients 6.62, AdamW 13.24
        ("bfloat16", True, 29.79),  # and 3.31 for the weights that compute, beside float32 masters
        ("bfloat16", False, 3.31),
        ("float32", False, 6.62),
        ("float64", True, 52.96),
    ],
)
def test_the_memory_of_the_reference_pair_is_what_it_was_worked_out_to_be(
    dtype: str, trained: bool, gib: float
) -> None:
    """Objectives, section 7: 6.62 GiB for each float32 copy of 1,777,088,000 parameters."""
    settings = ModelSettings(model="m", dtype=dtype)
    assert state_bytes(settings, REFERENCE, trained=trained) / GIB == pytest.approx(gib, abs=0.006)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_memory_is_what_a_step_really_holds(load, make_scored, dtype: str) -> None:
    """E48: counted after a step on the random student: weights, masters, gradients and AdamW's two moments."""
    student = load(dtype=dtype)
    held: list[int] = []

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        masters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        weights = list(student.module.parameters())
        moments = [value for state in optimizer.state.values() for value in state.values() if value.dim() > 0]
        tensors = {id(tensor): tensor for tensor in [*masters, *weights, *moments]}
        gradients = [parameter.grad for parameter in [*masters, *weights] if parameter.grad is not None]
        by_id = tensors | {id(gradient): gradient for gradient in gradients}
        held.append(sum(tensor.numel() * tensor.element_size() for tensor in by_id.values()))

    hook = register_optimizer_step_post_hook(note)
    try:
        Updater(student, K2(), OptimizerSettings(lr=1e-3)).update(make_scored([3, 4]), step=1)
    finally:
        hook.remove()
    assert held == [state_bytes(ModelSettings(model="m", dtype=dtype), student.parameters, trained=True)]


def test_parameters_are_counted_from_the_files_and_taken_from_the_recipe_where_there_are_none(
    load, untied_model: Path
) -> None:
    tied = load()
    assert _parameters(ModelSettings(model=str(tied.path))) == tied.parameters
    untied = load_model(untied_model, dtype="float32", device="cpu")
    assert _parameters(ModelSettings(model=str(untied_model))) == untied.parameters
    assert _parameters(ModelSettings(model=str(untied_model), parameters=12)) == untied.parameters
    assert _parameters(ModelSettings(model="./not-fetched-yet", parameters=12)) == 12
    assert _parameters(ModelSettings(model="./not-fetched-yet")) is None


@pytest.mark.parametrize(
    ("prompts_per_step", "sets", "rows", "note"),
    [
        (
            2,
            ["budget.steps=2057"],
            15_285,
            "at most 2,057 steps × 2 prompts: 4,114 of 15,285 rows (26.9%) will be seen",
        ),
        (
            16,
            ["budget.steps=500"],
            2_000,
            "at most 500 steps × 16 prompts: 2,000 of 2,000 rows (100.0%) will be seen",
        ),
        (
            16,
            ["budget.steps=500", "budget.epochs=1"],
            2_000,
            "at most 125 steps × 16 prompts: 2,000 of 2,000 rows (100.0%) will be seen",
        ),
    ],
)
def test_coverage_is_said_before_step_one(
    make_recipe, prompts_per_step: int, sets: list[str], rows: int, note: str
) -> None:
    """E61: the whole diagnosis of a run that only ever saw a prefix, in one line."""
    sets = [f"rollouts.prompts_per_step={prompts_per_step}", *sets]
    assert notes(make_recipe(*sets), rows=rows) == [note]
    in_order = note if "100.0%" in note else f"{note}, always the same first ones (data.shuffle = false)"
    assert notes(make_recipe(*sets, "data.shuffle=false"), rows=rows) == [in_order]


def test_a_bfloat16_student_is_said_to_have_float32_masters(make_recipe) -> None:
    assert any("float32 master weights" in note for note in notes(make_recipe("student.dtype=bfloat16"), rows=7))
