"""Directories that are models, and every kind that is not: what is said of each."""

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from opd.models.load import (
    check_model_directory,
    find_model,
    load_model,
    load_tokenizer,
    model_digest,
    read_stop_ids,
)
from opd.records.errors import AskedWrongly
from opd.tasks.arith_tiny.tokenizer import make_tokenizer


@pytest.fixture
def copy(random_models, tmp_path) -> Path:
    """A model directory to spoil."""
    folder = tmp_path / "model"
    shutil.copytree(random_models / "student", folder)
    return folder


def refusal(path: Path | str) -> str:
    with pytest.raises(AskedWrongly) as caught:
        find_model(str(path))
    message = str(caught.value)
    assert "\n" not in message
    return message


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# --- finding --------------------------------------------------------------------------------------------


def test_a_whole_directory_is_found_as_it_was_named(copy, monkeypatch):
    assert find_model(str(copy)) == copy
    monkeypatch.chdir(copy.parent)
    assert find_model("model") == Path("model")


@pytest.mark.parametrize("reference", ["./none", "/none", "~/none", "none", "a/b/c"])
def test_what_can_only_be_a_directory_is_not_looked_for_elsewhere(reference):
    assert (
        refusal(reference)
        == f"model {reference!r}: no such directory; name a model directory, or owner/name on the hub"
    )


def test_a_hub_name_that_can_not_be_fetched_is_refused_with_what_to_do():
    message = refusal("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B")
    assert "model 'deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B': no such directory here" in message
    assert "`hf download deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B`" in message
    with pytest.raises(AskedWrongly, match="model 'owner/name@ad9f0ae0': no such directory here"):
        find_model("owner/name", "ad9f0ae0")


def test_a_task_that_does_not_ship_is_refused_as_such():
    assert "opd:arith_huge/student is not part of this install" in refusal("opd:arith_huge/student")


def test_a_directory_that_was_never_finished_is_refused(copy):
    partial = copy.rename(copy.with_name("checkpoint-20.partial"))
    assert refusal(partial) == f"{partial} is a checkpoint that was never finished; take a published one"


# --- what is no model directory -------------------------------------------------------------------------


def without(*names: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return spoil


def only_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def asking_for_code(folder: Path) -> None:
    edit(folder / "config.json", auto_map={"AutoModelForCausalLM": "modeling_x.XForCausalLM"})


def bringing_code(folder: Path) -> None:
    (folder / "modeling_x.py").write_text("raise SystemExit")


def softcapping(folder: Path) -> None:
    edit(folder / "config.json", final_logit_softcapping=30.0)


def scaling(folder: Path) -> None:
    edit(folder / "config.json", logits_scaling=8.0)


def without_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without("config.json"), "has no config.json: it is not a Hugging Face model directory"),
        (without("tokenizer.json"), "has no tokenizer (none of tokenizer.json, "),
        (without("model.safetensors"), "has no *.safetensors; other weight formats can run code and are not read"),
        (only_a_pickle, "has no *.safetensors; other weight formats can run code"),
        (asking_for_code, "asks for its own code (auto_map in config.json); opd never runs code from a model"),
        (bringing_code, "brings code (modeling_x.py); opd never runs code from a model directory"),
        (softcapping, "final_logit_softcapping in config.json reshapes the logits"),
        (scaling, "logits_scaling in config.json reshapes the logits"),
        (without_json, "config.json is not JSON"),
    ],
)
def test_a_directory_that_lacks_or_has_too_much_is_refused_for_what_it_is(copy, spoil, message):
    """H28 among them: no code and no pickle, whoever made the directory."""
    find_model(str(copy))
    spoil(copy)
    assert message in refusal(copy)
    assert str(copy) in refusal(copy)


@pytest.mark.parametrize("setting", [{"final_logit_softcapping": None}, {"logits_scaling": 1.0}, {"logit_scale": 1}])
def test_a_scale_that_scales_nothing_is_no_reason_to_refuse(copy, setting):
    edit(copy / "config.json", **setting)
    assert find_model(str(copy)) == copy


# --- damaged weights ------------------------------------------------------------------------------------


def test_weights_cut_off_anywhere_are_refused_before_they_are_loaded(copy):
    """H25: in the length, in the header, behind it, in the middle of the tensors, and one byte from the end."""
    weights = copy / "model.safetensors"
    whole = weights.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    for size in (0, 7, 8, 9, header - 1, header, header + 1, (header + len(whole)) // 2, len(whole) - 1):
        weights.write_bytes(whole[:size])
        assert f"model.safetensors is damaged: {size} bytes" in refusal(copy)
    weights.write_bytes(whole + b"\x00")
    assert "is damaged" in refusal(copy)
    weights.write_bytes(whole)
    assert find_model(str(copy)) == copy


@pytest.mark.parametrize(
    "content",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 3554214752\n",
        b"<!doctype html><html><body>Access to this model is restricted</body></html>",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 19) + b'{"__metadata__":{}}',
    ],
)
def test_what_is_no_weights_at_all_is_refused_whatever_it_is(copy, content):
    """A pointer that was never replaced by its file says, read as a length, that 10^18 bytes follow."""
    (copy / "model.safetensors").write_bytes(content)
    assert f"is damaged: {len(content)} bytes" in refusal(copy)


def test_every_file_of_sharded_weights_is_looked_at(copy):
    shutil.copy(copy / "model.safetensors", copy / "model-00002-of-00002.safetensors")
    (copy / "model-00002-of-00002.safetensors").write_bytes(b"")
    assert "model-00002-of-00002.safetensors is damaged" in refusal(copy)


# --- loading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float64", torch.float64)]
)
def test_weights_come_in_the_dtype_that_was_asked_for_with_the_values_of_the_file(random_models, name, dtype):
    model = load_model(random_models / "student", dtype=name, device="cpu")
    stored = load_file(random_models / "student/model.safetensors")
    loaded = dict(model.module.named_parameters())
    assert {one.dtype for one in loaded.values()} == {dtype}
    assert loaded.keys() == stored.keys()
    for key, value in stored.items():
        assert loaded[key].equal(value.to(dtype))
    assert model.device == torch.device("cpu")
    assert not model.module.training  # dropout would make sampler and trainer differ


@pytest.mark.gpu
def test_weights_come_to_the_device_that_was_asked_for(random_models):
    model = load_model(random_models / "student", dtype="bfloat16", device="cuda")
    assert {one.device.type for one in model.module.parameters()} == {"cuda"}


def test_parameters_are_counted_with_a_tied_head_once(student64, untied64):
    """By hand, for the configurations in conftest.py: embedding, two layers, the last norm, and a head or none."""
    embedding, mlp, norms = 320 * 32, 3 * 32 * 64, 2 * 32
    qwen2_attention = (32 * 32 + 32) + 2 * (32 * 16 + 16) + 32 * 32  # q, k, v with biases, o
    qwen3_attention = 32 * 32 + 2 * (32 * 16) + 32 * 32 + 2 * 8  # norms of q and k, no biases
    assert student64.parameters == embedding + 2 * (qwen2_attention + mlp + norms) + 32
    assert untied64.parameters == 2 * embedding + 2 * (qwen3_attention + mlp + norms) + 32


def test_the_vocabulary_is_that_of_the_tokenizer_and_not_of_the_embedding(either64):
    """E33, E34."""
    assert either64.vocabulary == 312
    assert either64.module.config.vocab_size == 320


@pytest.mark.parametrize("named", ["PreTrainedTokenizerFast", "Qwen2Tokenizer", "LlamaTokenizerFast"])
def test_text_becomes_the_ids_that_tokenizer_json_says_whatever_class_is_named(copy, named):
    """E35: beside a Qwen2 model, AutoTokenizer takes Qwen2's own rules for those of the file, and adds a token."""
    edit(copy / "tokenizer.json", normalizer=None)
    edit(copy / "tokenizer_config.json", tokenizer_class=named)
    loaded = load_model(copy, dtype="float32", device="cpu").tokenizer
    oracle = Tokenizer.from_file(str(copy / "tokenizer.json"))
    text = "naïve is not nai\u0308ve:  73-9\n\n\n<User>\\boxed{}"
    assert AutoTokenizer.from_pretrained(copy)(text)["input_ids"] != oracle.encode(text).ids  # the bad condition
    assert loaded(text)["input_ids"] == oracle.encode(text).ids
    assert loaded.decode(loaded(text, add_special_tokens=False)["input_ids"]) == text
    assert loaded.get_vocab() == oracle.get_vocab()
    assert loaded.chat_template == make_tokenizer().chat_template


def test_a_tokenizer_with_more_ids_than_the_model_has_rows_is_refused(copy):
    weights = load_file(copy / "model.safetensors")
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"][:300].contiguous()
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    edit(copy / "config.json", vocab_size=300, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    with pytest.raises(AskedWrongly, match=r"the tokenizer has ids up to 311, the model only 300 rows"):
        load_model(find_model(str(copy)), dtype="float32", device="cpu")


@pytest.mark.parametrize(
    ("in_config", "in_generation_config", "stops"),
    [(306, 306, {306}), (306, [306, 307], {306, 307}), ([4, 5], None, {4, 5, 306}), (None, None, {306})],
)
def test_a_response_may_end_with_any_of_the_ids_that_the_directory_names(
    copy, in_config, in_generation_config, stops
):
    """The tokenizer's own (306), those of config.json, and the list that chat models keep beside it."""
    edit(copy / "config.json", eos_token_id=in_config)
    edit(copy / "generation_config.json", eos_token_id=in_generation_config)
    assert load_model(copy, dtype="float32", device="cpu").stop_ids == stops
    assert read_stop_ids(copy, load_tokenizer(copy)) == stops  # without the weights


def test_without_generation_settings_a_response_ends_as_the_configuration_says(copy):
    (copy / "generation_config.json").unlink()
    edit(copy / "config.json", eos_token_id=[4, 5])
    assert load_model(copy, dtype="float32", device="cpu").stop_ids == {4, 5, 306}
    assert read_stop_ids(copy, load_tokenizer(copy)) == {4, 5, 306}


# --- identity -------------------------------------------------------------------------------------------


def test_the_digest_of_a_model_moves_with_any_byte_of_any_file(copy, random_models):
    digest = model_digest(copy)
    assert digest == model_digest(random_models / "student")
    assert digest != model_digest(random_models / "teacher")
    template = copy / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    assert model_digest(copy) != digest


def test_checking_a_directory_asks_nothing_of_its_name(copy):
    """A checkpoint is checked while it is still under its partial name."""
    check_model_directory(copy.rename(copy.with_name("checkpoint-20.partial")))


def test_a_shard_that_the_index_names_and_the_folder_lacks_is_refused(random_models, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(random_models / "student", folder)
    weights = {"model.norm.weight": "model.safetensors", "lm_head.weight": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    with pytest.raises(AskedWrongly, match=r"lacks model-00002-of-00002.safetensors"):
        find_model(str(folder))


def test_a_tensor_that_is_missing_is_refused_and_not_made_up(random_models, tmp_path):
    """E69: transformers would fill it with random numbers, and every score would be another one."""
    folder = tmp_path / "model"
    shutil.copytree(random_models / "student", folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.0.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AskedWrongly, match=r"1 tensors .* missing .*model.layers.0.mlp.up_proj.weight"):
        load_model(find_model(str(folder)), dtype="float32", device="cpu")


STRANGE = [
    ("config.json", {"model_type": "no_such_architecture"}),
    ("config.json", {"model_type": "bert"}),
    ("config.json", {"model_type": None}),
    ("config.json", {"hidden_size": "big"}),
    ("config.json", {"hidden_size": 48}),
    ("config.json", {"vocab_size": 100}),
    ("config.json", {"eos_token_id": "x"}),
    ("config.json", {"num_hidden_layers": 7}),
    ("config.json", {"logit_scale": [1]}),
    ("tokenizer.json", {"model": 1}),
    ("tokenizer_config.json", {"model_max_length": "long"}),
]


@pytest.mark.parametrize(("name", "change"), STRANGE)
def test_a_directory_whose_parts_do_not_fit_is_a_line(random_models, tmp_path, name, change):
    """Whatever transformers, tokenizers or safetensors raise: a line with the directory, or it loads."""
    folder = tmp_path / "model"
    shutil.copytree(random_models / "student", folder)
    values = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(values | change))
    if name == "tokenizer_config.json":  # a length that nothing here reads
        load_model(find_model(str(folder)), dtype="float32", device="cpu")
        return
    with pytest.raises(AskedWrongly) as refused:
        load_model(find_model(str(folder)), dtype="float32", device="cpu")
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "header", [{"a": 5}, {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, "q"]}}, [1], {}]
)
def test_a_header_that_is_no_header_is_damage(random_models, tmp_path, header):
    folder = tmp_path / "model"
    shutil.copytree(random_models / "student", folder)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(AskedWrongly, match="is damaged"):
        find_model(str(folder))


@pytest.mark.parametrize("name", ["a b/c", "é/ü", "owner/name/more", "name"])
def test_what_can_be_no_hub_name_is_no_directory(name):
    with pytest.raises(AskedWrongly, match="no such directory"):
        find_model(name)


@pytest.mark.parametrize(
    ("place", "text", "named"),
    [
        ("inner/modeling.py", "print('never')", "brings code (inner/modeling.py)"),
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": "x.Y"}}', "auto_map in tokenizer_config.json"),
    ],
)
def test_code_in_any_corner_of_a_model_directory_is_refused(random_models, tmp_path, place, text, named):
    """H28: nothing would run it here, but a program that trusts the directory would."""
    folder = tmp_path / "model"
    shutil.copytree(random_models / "student", folder)
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_text(text)
    with pytest.raises(AskedWrongly, match=re.escape(named)):
        find_model(str(folder))
