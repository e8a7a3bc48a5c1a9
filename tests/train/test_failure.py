"""What a failure leaves: the earlier checkpoints, a record that says what it was, and a way on."""

import errno
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from opd.models.load import LanguageModel
from opd.records.errors import AnswerIsNo
from opd.records.failures import Failure, chain, errno_of, failure
from opd.records.files import is_complete, tree
from opd.records.rollouts import Rollout, ScoredRollout
from opd.records.settings import read
from opd.train.parts import Parts
from opd.train.recipe import Recipe
from opd.train.run import prepare, run
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.readback import check_readback
from opd.train.saved.resume import find_start
from opd.train.saved.retention import Retention
from opd.train.saved.retries import retried


def system_error(number: int, path: str = "weights") -> OSError:
    return OSError(number, "the system says no", path)


class Flaky:
    """A real module whose saving leaves half a file and fails so many times, by these numbers of the system."""

    def __init__(self, real: Any, numbers: Sequence[int]) -> None:
        self._real = real
        self._numbers = list(numbers)

    def save_pretrained(self, folder: Path, **options: Any) -> None:
        if self._numbers:
            (folder / "half.safetensors").write_bytes(b"half of it")
            raise system_error(self._numbers.pop(0), str(folder / "half.safetensors"))
        self._real.save_pretrained(folder, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def flaky(student: LanguageModel, *numbers: int) -> LanguageModel:
    return replace(student, module=Flaky(student.module, numbers))


def checkpoints(run: Path) -> Checkpoints:
    return Checkpoints(run, Retention(keep=3), pauses_seconds=(0.0, 0.0))


@pytest.mark.parametrize("number", [errno.EIO, errno.ECOMM, errno.ESTALE])
def test_a_save_that_fails_twice_by_a_transient_error_succeeds(load, tmp_path: Path, number: int) -> None:
    """E67: 5, 70 and 116; each try begins with an empty folder."""
    student = load(dtype="float32")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    folder = checkpoints(tmp_path / "a").save(flaky(student, number, number), step=5, recipe_digest="d")
    plain = checkpoints(tmp_path / "b").save(student, step=5, recipe_digest="d")
    assert is_complete(folder)
    assert tree(folder) == tree(plain)


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ([errno.EIO] * 3, "errno 5, EIO"),
        ([errno.ECOMM] * 3, "errno 70, ECOMM"),
        ([errno.ESTALE] * 3, "errno 116, ESTALE"),
        ([errno.ENOSPC], "errno 28, ENOSPC"),  # not tried again: waiting makes no disk larger
    ],
)
def test_a_save_that_goes_on_failing_says_which_error_it_was_and_leaves_the_earlier_whole(
    load, tmp_path: Path, numbers: list[int], name: str
) -> None:
    """E63, E67."""
    student = load(dtype="float32")
    kept = checkpoints(tmp_path).save(student, step=20, recipe_digest="d")
    before = tree(kept)
    with pytest.raises(AnswerIsNo, match=rf"checkpoint-40 could not be saved \({name}.*; checkpoint-20 is whole"):
        checkpoints(tmp_path).save(flaky(student, *numbers), step=40, recipe_digest="d")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-20"]
    assert tree(kept) == before


def test_pauses_come_between_the_tries_and_the_last_error_goes_through() -> None:
    slept: list[float] = []
    tries: list[int] = []

    def write() -> None:
        tries.append(1)
        raise system_error(errno.ESTALE)

    with pytest.raises(OSError, match="the system says no"):
        retried(write, pauses_seconds=(1.0, 5.0), sleep=slept.append)
    assert (len(tries), slept) == (3, [1.0, 5.0])


@pytest.mark.parametrize("error", [system_error(errno.ENOSPC), system_error(errno.EACCES), ValueError("a bug")])
def test_nothing_else_is_tried_again(error: Exception) -> None:
    tries: list[int] = []

    def write() -> None:
        tries.append(1)
        raise error

    with pytest.raises(type(error)):
        retried(write, pauses_seconds=(0.0, 0.0))
    assert len(tries) == 1


def test_the_writer_of_tensors_words_a_full_disk_and_it_is_still_known(tmp_path: Path, full_disk) -> None:
    """safetensors has an exception of its own, without an errno; the limit here is EFBIG, 27."""
    with full_disk(1_000), pytest.raises(Exception, match="error") as caught:
        save_file({"a": torch.zeros(4_096)}, tmp_path / "a.safetensors")
    assert not isinstance(caught.value, OSError)
    assert errno_of(caught.value) == errno.EFBIG


def caught(cause: Exception, outer: Exception, *, hidden: bool = False) -> Exception:
    """`outer` as it is when it was raised from `cause`, or from None while `cause` was being handled."""
    try:
        try:
            raise cause
        except type(cause) as inner:
            raise outer from (None if hidden else inner)
    except type(outer) as error:
        return error


def test_a_chain_is_written_from_the_last_exception_to_the_first_cause() -> None:
    error = caught(system_error(errno.ENOSPC, "/disk/model.safetensors"), AnswerIsNo("could not be saved"))
    record = failure(error, phase="save", step=41, seconds=9.5, checkpoint="checkpoint-20", state=None)
    assert [(one.kind, one.message) for one in record.exceptions] == [
        ("opd.records.errors.AnswerIsNo", "could not be saved"),
        ("OSError", "[Errno 28] the system says no: '/disk/model.safetensors'"),
    ]
    assert (record.errno, record.errno_name, record.path) == (28, "ENOSPC", "/disk/model.safetensors")
    assert (record.phase, record.step, record.checkpoint, record.signal) == ("save", 41, "checkpoint-20", None)


def test_a_chain_that_is_a_ring_ends() -> None:
    a, b = ValueError("a"), KeyError("b")
    a.__cause__, b.__cause__ = b, a
    assert [one.kind for one in chain(a)] == ["ValueError", "KeyError"]


def test_a_cause_that_was_hidden_on_purpose_stays_hidden() -> None:
    error = caught(KeyError("inner"), ValueError("outer"), hidden=True)
    assert [one.kind for one in chain(error)] == ["ValueError"]


@pytest.mark.parametrize(
    ("error", "signal"), [(KeyboardInterrupt("SIGTERM"), "SIGTERM"), (KeyboardInterrupt(), "SIGINT")]
)
def test_a_signal_that_ends_a_run_at_once_is_named(error: KeyboardInterrupt, signal: str) -> None:
    record = failure(error, phase="sample", step=1, seconds=1.0, checkpoint=None, state=None)
    assert (record.signal, record.errno) == (signal, None)


class Broken:
    """A part that works so many times and then raises."""

    def __init__(self, real: Any, error: BaseException, *, after: int) -> None:
        self._real, self._error, self._left = real, error, after

    def _once(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._error

    def sample(self, prompts: Any, *, seeds: Any) -> list[Rollout]:
        self._once()
        return self._real.sample(prompts, seeds=seeds)

    def score(self, rollouts: Any) -> list[ScoredRollout]:
        self._once()
        return self._real.score(rollouts)

    def update(self, scored: Any, *, step: int, places: Any) -> Any:
        self._once()
        return self._real.update(scored, step=step, places=places)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def breaking(parts: Parts, phase: str, error: BaseException) -> Parts:
    name = {"sample": "sampler", "score": "scorer", "update": "updater"}[phase]
    return replace(parts, **{name: Broken(getattr(parts, name), error, after=3)})


@pytest.mark.parametrize("phase", ["sample", "score", "update"])
def test_a_run_that_breaks_says_where_and_goes_on_when_it_is_mended(
    make_recipe: Callable[..., Recipe], tmp_path: Path, phase: str
) -> None:
    recipe, out = make_recipe("budget.steps=5", "save.every=2"), tmp_path / "run"
    parts = prepare(recipe, out)
    with pytest.raises(OSError, match="the system says no"):
        run(recipe, breaking(parts, phase, system_error(errno.ESTALE)), out)
    record = read(Failure, out / "failure.json")
    assert (record.phase, record.step, record.errno_name) == (phase, 4, "ESTALE")
    assert (record.checkpoint, record.state) == ("checkpoint-2", "step-000002")
    assert record.seconds > 0
    assert not (out / "run.json").exists()
    start = find_start(recipe, out)
    assert run(recipe, prepare(recipe, out, start=start), out, start=start).steps == 5
    assert read(Failure, out / "failure-1.json") == record
    assert not (out / "failure.json").exists()


def test_failures_of_several_tries_are_numbered(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe, out = make_recipe("budget.steps=12", "save.every=1"), tmp_path / "run"
    for number in (errno.EIO, errno.ENOSPC, errno.ESTALE):
        start = find_start(recipe, out) if out.exists() else None
        parts = prepare(recipe, out, start=start)
        with pytest.raises(OSError, match="the system says no"):
            run(recipe, breaking(parts, "score", system_error(number)), out, start=start)
    found = [read(Failure, out / f"{name}.json").errno_name for name in ("failure-1", "failure-2", "failure")]
    assert found == ["EIO", "ENOSPC", "ESTALE"]


def test_a_full_disk_while_saving_is_recorded_as_that(
    make_recipe: Callable[..., Recipe], tmp_path: Path, full_disk: Any
) -> None:
    """The weights don't fit, the record does."""
    recipe, out = make_recipe("budget.steps=2", "save.rollouts=false"), tmp_path / "run"
    parts = prepare(recipe, out)
    with full_disk(60_000), pytest.raises(AnswerIsNo, match=r"errno 27, EFBIG.*no checkpoint was written before"):
        run(recipe, parts, out)
    record = read(Failure, out / "failure.json")
    assert (record.phase, record.step, record.errno, record.checkpoint) == ("save", 2, 27, None)
    assert record.path is not None
    assert Path(record.path).name.startswith("checkpoint-2")


def test_a_state_that_can_not_be_saved_says_which_error_and_which_folder(
    make_recipe: Callable[..., Recipe], tmp_path: Path, full_disk: Any
) -> None:
    """E63, E67: the checkpoint fits, twice its size does not."""
    recipe, out = make_recipe("budget.steps=1", "save.rollouts=false"), tmp_path / "run"
    parts = prepare(recipe, out)
    size = (parts.student.path / "model.safetensors").stat().st_size
    with (
        full_disk(2 * size),
        pytest.raises(AnswerIsNo, match=r"state .* could not be saved \(errno 27, EFBIG: .*none"),
    ):
        run(recipe, parts, out)
    record = read(Failure, out / "failure.json")
    assert (record.phase, record.errno_name, record.checkpoint) == ("save", "EFBIG", "checkpoint-1")
    assert record.path is not None
    assert Path(record.path).name.startswith("step-000001")


@pytest.mark.parametrize("call", [1, 2])
def test_a_flush_that_fails_is_tried_again(load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """E67: the error of a network file system may come as late as in fsync."""
    real, calls = os.fsync, []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) in {call, call + 1}:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    folder = checkpoints(tmp_path).save(load(dtype="float32"), step=5, recipe_digest="d")
    assert is_complete(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]


def test_a_run_that_cannot_even_write_its_failure_still_says_what_it_was(
    make_recipe: Callable[..., Recipe], tmp_path: Path, full_disk: Any
) -> None:
    recipe, out = make_recipe(), tmp_path / "run"
    parts = breaking(prepare(recipe, out), "score", RuntimeError("the first error"))

    def in_the_way(_: object) -> None:
        (out / "failure.json").mkdir(exist_ok=True)  # nothing can be renamed onto a folder

    with pytest.raises(RuntimeError, match="the first error"):
        run(make_recipe("budget.steps=9"), parts, out, report=in_the_way)


# --- what was written is read back ---------------------------------------------------------------------


def exported(student: LanguageModel, folder: Path) -> Path:
    student.module.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_an_export_is_read_back_bit_by_bit(load, tmp_path: Path, dtype: str) -> None:
    """E69: a tied head stands in the file once, and that is all of it."""
    student = load(dtype=dtype)
    check_readback(student, exported(student, tmp_path / "model"))


def test_an_export_with_a_head_of_its_own_is_read_back(untied_model: Path, tmp_path: Path) -> None:
    from opd.models.load import load_model

    student = load_model(untied_model, dtype="float32", device="cpu")
    folder = exported(student, tmp_path / "model")
    check_readback(student, folder)
    damage(folder, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(AnswerIsNo, match=r"model lacks lm_head\.weight"):
        check_readback(student, folder)


class Lying(Flaky):
    """A module whose file is whole and holds one other bit than it does."""

    def save_pretrained(self, folder: Path, **options: Any) -> None:
        super().save_pretrained(folder, **options)
        damage(folder, lambda tensors: tensors[NORM].view(torch.int32)[0].add_(1))


def test_a_checkpoint_that_does_not_read_back_is_never_published(load, tmp_path: Path) -> None:
    student = load(dtype="float32")
    kept = checkpoints(tmp_path).save(student, step=20, recipe_digest="d")
    with pytest.raises(AnswerIsNo, match=rf"could not be saved .*{NORM} was read back.*; checkpoint-20 is whole"):
        checkpoints(tmp_path).save(replace(student, module=Lying(student.module, [])), step=40, recipe_digest="d")
    assert list(tmp_path.iterdir()) == [kept]


def test_nan_weights_are_the_same_as_themselves(load, tmp_path: Path) -> None:
    student = load(dtype="float32")
    student.module.get_decoder().norm.weight.data[0] = float("nan")
    check_readback(student, exported(student, tmp_path / "model"))


def damage(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


NORM = "model.norm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors[NORM].view(torch.int32)[3].add_(1), rf"{NORM} was read back with other values"),
        (lambda tensors: tensors.update({NORM: tensors[NORM].bfloat16()}), rf"has {NORM} as torch.bfloat16"),
        (lambda tensors: tensors.update({NORM: tensors[NORM][:8].clone()}), rf"has {NORM} as torch.float32 \[8\]"),
        (lambda tensors: tensors.pop(NORM), rf"lacks {NORM}"),
    ],
)
def test_one_bit_a_dtype_a_shape_or_a_missing_tensor_is_found(
    load, tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], object], message: str
) -> None:
    student = load(dtype="float32")
    folder = exported(student, tmp_path / "model")
    damage(folder, change)
    with pytest.raises(AnswerIsNo, match=message):
        check_readback(student, folder)


def test_experts_that_are_fused_in_memory_are_read_back_as_a_whole(tmp_path: Path) -> None:
    """Their file names each expert's weights, and the module has one tensor for all of them."""
    from types import SimpleNamespace

    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        vocab_size=40, hidden_size=16, intermediate_size=16, moe_intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, num_experts=4, num_experts_per_tok=2,
        initializer_range=0.3,
    )  # fmt: skip
    module = Qwen3MoeForCausalLM(config)
    student: Any = SimpleNamespace(module=module, gathered=None)
    folder = exported(student, tmp_path / "model")
    names = set(load_file(folder / "model.safetensors"))
    assert names - set(module.state_dict())  # the condition that is meant
    check_readback(student, folder)
    expert = next(name for name in sorted(names) if ".experts." in name)
    damage(folder, lambda tensors: tensors[expert].view(torch.int32)[0, 0].add_(1))
    with pytest.raises(AnswerIsNo, match="was read back with other values"):
        check_readback(student, folder)


# --- which checkpoints stay ----------------------------------------------------------------------------


def kept(run: Path, student: LanguageModel, *steps: int, resumed: bool = False, **settings: Any) -> list[str]:
    archive = Checkpoints(run, Retention(**settings), resumed=resumed, pauses_seconds=())
    for step in steps:
        archive.save(student, step=step, recipe_digest="d")
    return [path.name.removeprefix("checkpoint-") for path in archive.complete()]


@pytest.fixture
def small(load) -> LanguageModel:
    return load(dtype="bfloat16")


def test_milestones_stay_beside_the_newest(small: LanguageModel, tmp_path: Path) -> None:
    assert kept(tmp_path, small, 10, 20, 30, 40, 50, 60, 70, keep=2, keep_every=30) == ["30", "60", "70"]


def test_the_end_of_an_earlier_try_makes_room_for_the_next_regular_one(small: LanguageModel, tmp_path: Path) -> None:
    """E64: 47 was where the run was interrupted; with it counted, 20 would be missing at 60."""
    assert kept(tmp_path, small, 20, 40, 47, keep=3, every=20) == ["20", "40", "47"]
    assert kept(tmp_path, small, 60, keep=3, every=20, resumed=True) == ["20", "40", "60"]


def test_what_an_earlier_try_left_beyond_goes_when_the_next_one_is_whole(
    small: LanguageModel, tmp_path: Path
) -> None:
    """E63, H26: and is neither counted nor taken for the newest after that."""
    assert kept(tmp_path, small, 20, 40, 60, keep=1) == ["60"]
    assert kept(tmp_path, small, 40, keep=1, resumed=True) == ["40"]


def test_an_equal_checkpoint_stays_and_another_one_is_replaced(load, tmp_path: Path) -> None:
    student = load(dtype="float32")
    (folder,) = [Checkpoints(tmp_path).save(student, step=5, recipe_digest="d")]
    inode = (folder / "model.safetensors").stat().st_ino
    again = Checkpoints(tmp_path, resumed=True)
    again.save(student, step=5, recipe_digest="d")
    assert (folder / "model.safetensors").stat().st_ino == inode
    student.module.get_decoder().norm.weight.data.add_(1.0)
    again.save(student, step=5, recipe_digest="d")
    assert torch.equal(load_file(folder / "model.safetensors")[NORM], student.module.state_dict()[NORM])
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]


def test_a_checkpoint_whose_replacement_a_crash_cut_short_is_there_after_tidying(
    small: LanguageModel, tmp_path: Path
) -> None:
    archive = Checkpoints(tmp_path)
    archive.save(small, step=5, recipe_digest="d").rename(tmp_path / "again-checkpoint-5")
    archive.tidy()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]


def test_a_record_is_json_that_anyone_reads(tmp_path: Path) -> None:
    record = failure(ValueError("x"), phase=None, step=0, seconds=0.0, checkpoint=None, state=None)
    assert json.loads(json.dumps(record.resolved()))["exceptions"][0] == {
        "kind": "ValueError",
        "message": "x",
        "errno": None,
        "errno_name": None,
        "path": None,
    }
