"""A model that was written is, for everybody else, a plain Hugging Face directory with the same model in it."""

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from opd.models.export import export
from opd.models.load import find_model, load_model
from opd.records.errors import AnswerIsNo

IDS = torch.tensor([[305, 308, 7, 21, 309, 310, 0, 44, 306]])


def stored_dtypes(folder):
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return {str(file.get_slice(key).get_dtype()) for key in file.keys()}  # noqa: SIM118  # no mapping


@pytest.mark.parametrize("tied", [True, False])
def test_a_plain_reload_gives_the_same_parameters_logits_tokens_and_template(
    random_models, untied_model, tmp_path, tied
):
    """E69, for a model that was changed after loading: with a head of its own, or without."""
    source = random_models / "student" if tied else untied_model
    model = load_model(source, dtype="float32", device="cpu")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.01)
    export(model, tmp_path / "out")

    module = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert sum(one.numel() for one in module.parameters()) == model.parameters
    tied_now = module.get_output_embeddings().weight is module.get_input_embeddings().weight
    assert tied_now == tied == module.config.tie_word_embeddings
    with torch.no_grad():
        assert module(input_ids=IDS).logits.equal(model.module(input_ids=IDS).logits)
    assert tokenizer.get_vocab() == model.tokenizer.get_vocab()
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<bos>", "<eos>", "<pad>")
    assert tokenizer.chat_template == model.tokenizer.chat_template
    assert module.generation_config.eos_token_id == module.config.eos_token_id == 306
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        path.name for path in source.iterdir()
    )


def test_what_was_exported_loads_as_what_it_was(random_models, tmp_path):
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    export(model, tmp_path / "out")
    again = load_model(find_model(str(tmp_path / "out")), dtype="float32", device="cpu")
    assert again.tokenizer.get_vocab() == model.tokenizer.get_vocab()
    assert (again.vocabulary, again.stop_ids, again.parameters) == (
        model.vocabulary,
        model.stop_ids,
        model.parameters,
    )
    for (name, one), (_, other) in zip(again.module.named_parameters(), model.module.named_parameters(), strict=True):
        assert one.equal(other), name


@pytest.mark.parametrize(("dtype", "stored"), [("bfloat16", {"BF16"}), ("float32", {"F32"})])
def test_weights_are_written_in_the_dtype_that_the_model_runs_in(random_models, tmp_path, dtype, stored):
    export(load_model(random_models / "student", dtype=dtype, device="cpu"), tmp_path / "out")
    assert stored_dtypes(tmp_path / "out") == stored
    assert json.loads((tmp_path / "out/config.json").read_text())["dtype"] == dtype
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype is getattr(torch, dtype)


@pytest.mark.parametrize("named", ["Qwen2Tokenizer", "Qwen2TokenizerFast", "PreTrainedTokenizerFast"])
def test_tokenizer_and_generation_settings_are_handed_on_byte_for_byte(random_models, tmp_path, named):
    """E35: one template and one tokenizer for student, teacher and evaluator, whatever version reads them next."""
    source = tmp_path / "model"
    shutil.copytree(random_models / "student", source)
    config = json.loads((source / "tokenizer_config.json").read_text())
    (source / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": named}))
    export(load_model(source, dtype="float32", device="cpu"), tmp_path / "out")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes()


def test_every_file_can_be_read_by_whoever_evaluates_it(random_models, tmp_path):
    export(load_model(random_models / "student", dtype="float32", device="cpu"), tmp_path / "out")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {0o644}


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "repetition_penalty": 1.1},
        {"do_sample": False, "temperature": 0.6, "top_p": 0.95},
    ],
)
def test_a_models_own_generation_settings_do_not_stand_in_the_way(random_models, tmp_path, settings):
    """E42: found at the first checkpoint, it would cost the steps before it."""
    source = tmp_path / "model"
    shutil.copytree(random_models / "student", source)
    path = source / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    export(load_model(source, dtype="float32", device="cpu"), tmp_path / "out")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").generation_config.eos_token_id == 306


@pytest.mark.parametrize("largest_bytes", [20, 40_000])
def test_a_full_disk_is_a_no_with_its_cause(random_models, tmp_path, full_disk, largest_bytes):
    """E67: in the middle of the configuration, or of the weights."""
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    with full_disk(largest_bytes), pytest.raises(AnswerIsNo, match=r"^checkpoint-20 could not be written: .*large"):
        export(model, tmp_path / "checkpoint-20")
