"""LoRA: what is trained, what is exported, against the product written out.

Shapes: N response tokens.
"""

import sys

import pytest
import torch

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


def test_without_peft_it_is_said_what_to_install(monkeypatch):
    assert missing_library() is None
    monkeypatch.setitem(sys.modules, "peft", None)
    assert missing_library() == "lora needs peft: pip install 'opd[lora]'"
