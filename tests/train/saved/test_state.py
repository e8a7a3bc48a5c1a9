"""The trainer's state: what is in it, that it puts everything back bit for bit, and one that can't be used."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from opd.models.load import LanguageModel
from opd.records.errors import AnswerIsNo
from opd.records.files import is_complete
from opd.train import objective as objectives
from opd.train.clock import Spent
from opd.train.saved.state import States, TrainerState, check_there, read_state, read_tensors
from opd.train.update.updater import OptimizerSettings, Updater

LENGTHS = [3, 5, 2]


@pytest.fixture
def state(make_line) -> Callable[[int], TrainerState]:
    def make(step: int) -> TrainerState:
        spent = Spent(seconds=12.5, slowest_step_seconds=1.5, slowest_save_seconds=0.5)
        return TrainerState(step=step, recipe="r3cipe", data="d4ta", spent=spent, metrics=make_line(step))

    return make


def updater(student: LanguageModel) -> Updater:
    return Updater(student, objectives.find("k1_policy_gradient")(), OptimizerSettings(lr=1e-2, warmup_steps=3))


def weights(student: LanguageModel) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in student.module.state_dict().items()}


def same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_restored_updater_makes_the_steps_that_the_first_one_made(
    load, make_scored, state, tmp_path: Path, dtype: str
) -> None:
    """E66: weights, both moments and the optimizer's own step count, through the disk; with masters and without."""
    first = load(dtype=dtype)
    one = updater(first)
    for step in (1, 2):
        one.update(make_scored(LENGTHS, seed=step), step=step)
    folder = States(tmp_path).save(state(2), one.state())
    stats = [one.update(make_scored(LENGTHS, seed=step), step=step) for step in (3, 4)]

    second = load(dtype=dtype)
    another = updater(second)
    another.restore(read_tensors(folder))
    assert [another.update(make_scored(LENGTHS, seed=step), step=step) for step in (3, 4)] == stats
    assert same_bits(weights(second), weights(first))
    assert same_bits(another.state(), one.state())


def test_without_the_optimizers_memory_the_next_step_is_another_one(load, make_scored) -> None:
    """E66: the bad condition exists; weights alone are not a state."""
    first = load(dtype="float32")
    one = updater(first)
    for step in (1, 2):
        one.update(make_scored(LENGTHS, seed=step), step=step)
    kept = {name: value.clone() for name, value in one.state().items() if name.startswith("master/")}
    one.update(make_scored(LENGTHS, seed=3), step=3)
    second = load(dtype="float32")
    another = updater(second)
    another.restore(kept)
    another.update(make_scored(LENGTHS, seed=3), step=3)
    assert not same_bits(weights(second), weights(first))


def test_a_state_holds_masters_and_moments_of_every_parameter_once(load, make_scored, state, tmp_path: Path) -> None:
    """A bfloat16 student: its masters are float32, and its tied head is not there twice."""
    student = load(dtype="bfloat16")
    one = updater(student)
    one.update(make_scored(LENGTHS), step=1)
    folder = States(tmp_path).save(state(1), one.state())
    with safe_open(folder / "state.safetensors", framework="pt") as file:
        names = set(file.keys())
        dtypes = {str(file.get_tensor(name).dtype) for name in names}
        steps = {float(file.get_tensor(name)) for name in names if name.startswith("optimizer/step/")}
    parameters = {name for name, _ in student.module.named_parameters()}
    kinds = ("master", "optimizer/exp_avg", "optimizer/exp_avg_sq", "optimizer/step")
    assert names == {f"{kind}/{name}" for kind in kinds for name in parameters}
    assert "lm_head.weight" not in parameters
    assert dtypes == {"torch.float32"}
    assert steps == {1.0}


def test_only_the_newest_is_kept_and_the_one_before_until_it_is_whole(state, tmp_path: Path, full_disk) -> None:
    """E63, by number: as text, step-1000000 comes before step-999999."""
    states = States(tmp_path, pauses_seconds=())
    tensors = {"master/a": torch.arange(4_096, dtype=torch.float32)}
    states.save(state(999_999), tensors)
    with (
        full_disk(10_000),
        pytest.raises(AnswerIsNo, match=r"step-1000000 could not be saved .*; step-999999 is whole"),
    ):
        states.save(state(1_000_000), tensors)
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["step-999999"]
    states.save(state(1_000_000), tensors)
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["step-1000000"]
    assert is_complete(tmp_path / "state" / "step-1000000")


def test_a_run_that_has_gone_is_not_made_anew(tmp_path: Path) -> None:
    """Nor is one that somebody made anew taken for it: that has no lines."""
    run = tmp_path / "run"
    with pytest.raises(AnswerIsNo, match=rf"^{run} has gone since the step before"):
        States(run).begin(1)
    assert not run.exists()
    run.mkdir()
    check_there(run)
    with pytest.raises(AnswerIsNo, match=rf"^{run} has gone since the step before"):
        check_there(run, holds="metrics.jsonl")


def test_a_state_that_was_begun_and_is_not_published_can_be_dropped(state, tmp_path: Path) -> None:
    states = States(tmp_path)
    whole = states.save(state(1), {"master/a": torch.zeros(2)})
    (states.begin(2) / "shard").write_bytes(b"half")
    states.drop(2)
    states.drop(3)  # that nobody began
    assert list((tmp_path / "state").iterdir()) == [whole]


def test_what_a_state_says_is_read_back(state, tmp_path: Path) -> None:
    folder = States(tmp_path).save(state(40), {"master/a": torch.zeros(2)})
    assert folder == tmp_path / "state" / "step-000040"
    assert read_state(folder) == state(40)


def test_one_changed_bit_is_found(state, tmp_path: Path) -> None:
    folder = States(tmp_path).save(state(40), {"master/a": torch.zeros(64)})
    data = bytearray((folder / "state.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "state.safetensors").write_bytes(data)
    with pytest.raises(AnswerIsNo, match=r"state\.safetensors is damaged"):
        read_state(folder)


def changed(tensors: dict[str, torch.Tensor], kind: str) -> tuple[dict[str, torch.Tensor], str]:
    name = next(key for key in tensors if key.startswith("master/"))
    if kind == "lacking":
        return {key: value for key, value in tensors.items() if key != name}, "only the student has"
    if kind == "more":
        return tensors | {"master/other.weight": torch.zeros(2)}, "only the state has other.weight"
    if kind == "shape":
        return tensors | {name: torch.zeros(2, 2)}, r"is torch.float32 \[2, 2\] there"
    return tensors | {name: tensors[name].double()}, "is torch.float64"


@pytest.mark.parametrize("kind", ["lacking", "more", "shape", "dtype"])
def test_a_state_of_another_model_is_refused_and_nothing_is_changed(load: Callable[..., LanguageModel], kind) -> None:
    student = load(dtype="float32")
    one = updater(student)
    before = weights(student)
    tensors, message = changed({name: value + 1 for name, value in one.state().items()}, kind)
    with pytest.raises(AnswerIsNo, match=f"the state is of another model.*{message}"):
        one.restore(tensors)
    assert same_bits(weights(student), before)


def test_a_state_says_what_it_is_in_a_file_for_people(state, tmp_path: Path) -> None:
    folder = States(tmp_path).save(state(40), {"master/a": torch.zeros(2)})
    assert json.loads((folder / "state.json").read_text())["spent"]["seconds"] == 12.5
