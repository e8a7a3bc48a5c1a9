"""Directories that load as the model they should be, and those that load as another, or not."""

import errno
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from opd.models import validation
from opd.models.validation import validate
from opd.records.errors import AskedWrongly


@pytest.fixture
def copy(random_models: Path, tmp_path: Path) -> Path:
    """A model directory to spoil."""
    folder = tmp_path / "model"
    shutil.copytree(random_models / "student", folder)
    return folder


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Tensors put in, by name with `__` for a dot, or taken out."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name, tensor in changes.items():
        weights.pop(name.replace("__", "."), None)
        if tensor is not None:
            weights[name.replace("__", ".")] = tensor
    save_file(weights, path, metadata={"format": "pt"})


def fault(folder: Path, like: Path | None = None) -> str:
    found = validate(folder, like=like)
    assert not found.valid
    return "; ".join(found.faults)


def test_a_model_loads_as_transformers_loads_it(random_models: Path, untied_model: Path) -> None:
    for folder, like in ((random_models / "student", random_models / "teacher"), (untied_model, untied_model)):
        found = validate(folder, like=like)
        module = AutoModelForCausalLM.from_pretrained(folder)
        count = sum(one.numel() for one in module.parameters())
        assert found.faults == ()
        assert (found.parameters, found.expected_parameters) == (count, count)
        assert (found.dtype, found.vocabulary, found.infinite_parameters) == ("float32", 320, 0)
        assert found.finite_logits is True
        assert found.tokens == len(PreTrainedTokenizerFast.from_pretrained(folder).tokenize(validation.PROBE))
        assert found.machine["transformers"]


def test_it_is_loaded_in_the_dtype_that_it_is_stored_in(copy: Path, random_models: Path) -> None:
    path = copy / "model.safetensors"
    save_file({name: one.bfloat16() for name, one in load_file(path).items()}, path, metadata={"format": "pt"})
    edit(copy / "config.json", dtype="bfloat16")
    found = validate(copy, like=random_models / "teacher")
    assert (found.faults, found.dtype) == ((), "bfloat16")


def test_a_tensor_that_is_missing_unused_or_of_another_shape_is_named(copy: Path, random_models: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    key = name.replace(".", "__")
    start = random_models / "student"
    change_weights(copy, **{key: None})
    assert f"1 tensors are missing, {name} first" in fault(copy, start)
    shutil.copy(start / "model.safetensors", copy)
    change_weights(copy, model__layers__7__mlp__up_proj__weight=torch.zeros(64, 32))
    assert "1 tensors are unexpected, model.layers.7.mlp.up_proj.weight first" in fault(copy, start)
    shutil.copy(start / "model.safetensors", copy)
    change_weights(copy, **{key: torch.zeros(64, 31)})
    assert f"1 tensors are mismatched, {name} first" in fault(copy, start)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_parameter_that_is_no_number_is_found(copy: Path, random_models: Path, value: float) -> None:
    tensor = load_file(copy / "model.safetensors")["model.norm.weight"]
    tensor[5] = value
    change_weights(copy, model__norm__weight=tensor)
    found = validate(copy, like=random_models / "teacher")
    assert (found.infinite_parameters, found.finite_logits) == (1, False)
    assert "1 parameters are infinite or no number" in found.faults


def test_finite_weights_whose_logits_overflow_are_found(copy: Path) -> None:
    change_weights(copy, model__norm__weight=torch.full((32,), 3e38))
    found = validate(copy)
    assert (found.infinite_parameters, found.finite_logits) == (0, False)
    assert "logits of a forward pass are infinite" in found.faults[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [("rms_norm_eps", 1e-3), ("max_position_embeddings", 1024), ("hidden_act", "gelu"), ("eos_token_id", 7)],
)
def test_a_configuration_that_computes_something_else_is_found(
    copy: Path, random_models: Path, key: str, value: object
) -> None:
    """Shapes and weights fit: it would load without a word."""
    edit(copy / "config.json", **{key: value})
    assert validate(copy).valid
    assert f"config.json: {key} is {value!r}" in fault(copy, random_models / "student")


def test_another_rotary_base_is_found_in_the_older_spelling_too(copy: Path, random_models: Path) -> None:
    """Checkpoints of other versions of transformers say `rope_theta`: the same base is the same model."""
    config = json.loads((copy / "config.json").read_text())
    base = config.pop("rope_parameters")["rope_theta"]
    (copy / "config.json").write_text(json.dumps(config | {"rope_theta": base, "torch_dtype": "float32"}))
    assert validate(copy, like=random_models / "student").faults == ()
    edit(copy / "config.json", rope_theta=base * 10)
    assert "rope_parameters" in fault(copy, random_models / "student")


def test_what_an_older_library_says_of_itself_is_no_difference(copy: Path, random_models: Path) -> None:
    edit(copy / "config.json", transformers_version="4.0", use_cache=False, _name_or_path="somewhere")
    assert validate(copy, like=random_models / "student").valid


def test_a_tokenizer_with_more_ids_than_the_model_has_rows_is_found(copy: Path) -> None:
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first = min(vocabulary, key=lambda word: (word not in "0123456789", word))
    vocabulary[first] += 1_000
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    found = validate(copy)
    assert not found.valid
    assert found.finite_logits is None
    assert "the model has 320 rows" in "; ".join(found.faults)


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_directory_that_lacks_a_file_is_no_model_and_says_which(copy: Path, lost: str) -> None:
    (copy / lost).unlink()
    found = validate(copy)
    assert (found.parameters, found.dtype, found.vocabulary) == (None, None, None)
    assert not found.valid


def test_code_in_a_directory_is_not_run(copy: Path, tmp_path: Path) -> None:
    (copy / "modeling_x.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    edit(copy / "config.json", auto_map={"AutoModelForCausalLM": "modeling_x.X"})
    assert "never runs code" in fault(copy)
    assert not (tmp_path / "ran").exists()


def test_a_pickle_beside_or_in_place_of_weights_is_not_opened(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    assert "no *.safetensors" in fault(copy)


def test_a_machine_that_cannot_read_is_not_the_directorys_fault(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Path) -> None:
        try:
            raise OSError(errno.EIO, "Input/output error", "model.safetensors")
        except OSError as error:
            raise AskedWrongly("its model can't be read") from error

    monkeypatch.setattr(validation, "load_as_stored", broken)
    with pytest.raises(OSError, match="could not be read") as caught:
        validate(copy)
    assert caught.value.errno == errno.EIO


def test_a_place_without_a_directory_was_asked_for_wrongly(copy: Path, tmp_path: Path) -> None:
    for folder, like in ((tmp_path / "nowhere", None), (copy, tmp_path / "nowhere"), (copy / "config.json", None)):
        with pytest.raises(AskedWrongly, match="is not a directory"):
            validate(folder, like=like)
