"""LoRA: what is trained, what is exported, against the product written out.

Shapes: N response tokens.
"""

import json
import sys
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from opd.models.adapters import LoraSettings, attach, has_adapters, missing_library, plain_weights
from opd.models.export import export
from opd.models.load import LanguageModel, load_model
from opd.models.logprobs import token_logp
from opd.models.sequences import pack
from opd.records.errors import AskedWrongly

pytest.importorskip("peft", reason="peft is not installed: pip install 'opd[lora]'")

CPU = torch.device("cpu")
ROW = pack([((305, 308, 7), (21, 9, 33, 306)), ((305,), (44, 3))], device=CPU)
LAYERS = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


@pytest.fixture
def model(either) -> LanguageModel:
    return load_model(either, dtype="float64", device="cpu")


def moved(model: LanguageModel, **settings: object) -> LanguageModel:
    """The model with adapters that do something."""
    attach(model.module, LoraSettings(**settings), seed=5)
    numbers = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.module.named_parameters():
            if ".lora_B." in name:
                parameter.copy_(torch.randn(parameter.shape, generator=numbers, dtype=parameter.dtype) * 0.1)
    return model


def test_at_first_nothing_changes_and_only_the_adapters_are_trained(model):
    with torch.no_grad():
        before_N = token_logp(model, ROW)
        attach(model.module, LoraSettings(rank=3), seed=0)
        assert torch.equal(token_logp(model, ROW), before_N)
    trained = {name for name, one in model.module.named_parameters() if one.requires_grad}
    assert trained
    assert all(".lora_A." in name or ".lora_B." in name for name in trained)
    assert {name.split(".lora_")[0].rpartition(".")[2] for name in trained} == LAYERS
    token_logp(model, ROW).sum().backward()
    assert all((one.grad is not None) == one.requires_grad for one in model.module.parameters())


def test_what_is_exported_is_the_matrix_with_the_product_added(model, tmp_path):
    """By the definition, layer by layer: W + alpha / rank · B A; a plain load of it has the same outputs."""
    start = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    names = [name for name in start if name.rpartition(".weight")[0].rpartition(".")[2] in LAYERS]
    moved(model, rank=3, alpha=6)
    state = model.module.state_dict()
    found = plain_weights(model.module)
    assert found.keys() == start.keys()
    for name in start.keys() - set(names):
        assert torch.equal(found[name], start[name]), name
    for name in names:
        layer = name.removesuffix(".weight")
        product = state[f"{layer}.lora_B.default.weight"] @ state[f"{layer}.lora_A.default.weight"]
        torch.testing.assert_close(found[name], start[name] + 2.0 * product, rtol=0, atol=1e-14)
        assert not torch.equal(found[name], start[name])
    export(model, tmp_path)
    again = load_model(tmp_path, dtype="float64", device="cpu")
    assert not has_adapters(again.module)
    with torch.no_grad():
        torch.testing.assert_close(token_logp(again, ROW), token_logp(model, ROW), rtol=0, atol=1e-10)


def test_without_adapters_the_plain_weights_are_the_live_tensors(model):
    found = plain_weights(model.module)
    assert {name: one.data_ptr() for name, one in found.items()} == {
        name: one.data_ptr() for name, one in model.module.state_dict().items()
    }


def test_the_same_seed_draws_the_same_adapters_and_leaves_other_random_numbers_alone(either):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    drawn = []
    for seed in (0, 0, 1):
        model = load_model(either, dtype="float32", device="cpu")
        attach(model.module, LoraSettings(), seed=seed)
        drawn.append(
            torch.cat([one.flatten() for name, one in model.module.named_parameters() if ".lora_A." in name])
        )
    assert torch.equal(torch.rand(4), expected)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_only_the_layers_that_are_named_get_one(model):
    attach(model.module, LoraSettings(targets=("q_proj", "down_proj")), seed=0)
    trained = {name.split(".lora_")[0] for name, one in model.module.named_parameters() if one.requires_grad}
    assert {name.rpartition(".")[2] for name in trained} == {"q_proj", "down_proj"}


def test_an_unknown_layer_is_answered_with_those_there_are(model):
    with pytest.raises(AskedWrongly, match=r"no linear layer is called query; there are: down_proj, .*v_proj"):
        attach(model.module, LoraSettings(targets=("q_proj", "query")), seed=0)
    assert not has_adapters(model.module)


def test_an_adapter_of_a_head_that_is_the_embedding_is_refused(random_models, untied_model):
    """E69: it would move the head and not the embedding, and a checkpoint holds one matrix for both."""
    tied, untied = (
        load_model(one, dtype="float32", device="cpu") for one in (random_models / "student", untied_model)
    )
    with pytest.raises(AskedWrongly, match=r"lora\.targets names lm_head, which is the embedding too"):
        attach(tied.module, LoraSettings(targets=("q_proj", "lm_head")), seed=0)
    assert not has_adapters(tied.module)
    attach(untied.module, LoraSettings(targets=("lm_head",)), seed=0)
    assert has_adapters(untied.module)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_on_a_tied_head_adapters_are_exported_without_a_head_beside_the_embedding(random_models, tmp_path, dtype):
    """E69: no second matrix in the file, the flag as it was, and the same logits after a plain load."""
    model = moved(load_model(random_models / "student", dtype=dtype, device="cpu"), rank=2)
    export(model, tmp_path)
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        assert "lm_head.weight" not in list(file.keys())
    assert json.loads((tmp_path / "config.json").read_text())["tie_word_embeddings"] is True
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert again.get_output_embeddings().weight is again.get_input_embeddings().weight
    model.module.float()
    ids_BT = torch.tensor([[305, 308, 7, 21, 9]])
    with torch.no_grad():
        torch.testing.assert_close(again(ids_BT).logits, model.module(ids_BT).logits, rtol=0, atol=1e-4)


def test_beside_bfloat16_a_small_product_is_exported_whole(either, tmp_path):
    """The bad condition first: the sum in bfloat16 has lost most of it."""
    model = load_model(either, dtype="bfloat16", device="cpu")
    attach(model.module, LoraSettings(rank=2, alpha=4), seed=5)
    numbers = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.module.named_parameters():
            if ".lora_B." in name:
                drawn = torch.randn(parameter.shape, generator=numbers) * 1e-4  # ten steps at a rate of 1e-5
                parameter.copy_(drawn.to(parameter.dtype))
    state = {name: tensor.double() for name, tensor in model.module.state_dict().items()}
    export(model, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float32"
    found = load_file(tmp_path / "model.safetensors")
    assert {one.dtype for one in found.values()} == {torch.float32}
    lost = []
    for name in [name for name in state if name.endswith(".base_layer.weight")]:
        layer = name.removesuffix(".base_layer.weight")
        product = 2.0 * state[f"{layer}.lora_B.default.weight"] @ state[f"{layer}.lora_A.default.weight"]
        exact = state[name] + product
        lost.append(float(((exact.bfloat16().double() - state[name]) - product).norm() / product.norm()))
        torch.testing.assert_close(found[f"{layer}.weight"].double(), exact, rtol=1e-6, atol=0)
    assert min(lost) > 0.5
    with torch.no_grad():
        again_N = token_logp(load_model(tmp_path, dtype="float32", device="cpu"), ROW)
        expected_N = token_logp(replace(model, module=model.module.float()), ROW)
    torch.testing.assert_close(again_N, expected_N, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rank", [0, 4_097, 10**12])
def test_a_rank_beyond_all_matrices_is_refused_where_it_is_read(rank):
    with pytest.raises(ValueError, match="rank"):
        LoraSettings(rank=rank)


def test_without_peft_it_is_said_what_to_install(monkeypatch):
    assert missing_library() is None
    monkeypatch.setitem(sys.modules, "peft", None)
    assert missing_library() == "lora needs peft: pip install 'opd[lora]'"
