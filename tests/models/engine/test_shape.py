"""Which decoders the engine runs, and what it says of the others."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, Qwen2Config

from opd.models.engine.shape import Shape, misfit
from opd.models.load import find_model


def test_every_kind_of_decoder_fits(kind, make_decoder):
    model = make_decoder(kind)
    assert misfit(model.module) is None
    shape, layer = Shape.of(model), model.module.model.layers[0]
    assert shape.heads * shape.head_size == layer.self_attn.q_proj.out_features
    assert shape.key_heads * shape.head_size == layer.self_attn.v_proj.out_features
    assert shape.inner == layer.mlp.down_proj.in_features
    assert (shape.layers, shape.hidden, shape.vocabulary, shape.context_tokens) == (2, 32, 312, 512)
    assert shape.scale == shape.head_size**-0.5


def with_output_bias(module):
    module.model.layers[1].self_attn.o_proj = nn.Linear(32, 32, bias=True)


def with_an_adapter(module):
    class Adapted(nn.Linear):
        pass

    module.model.layers[0].mlp.up_proj = Adapted(32, 64, bias=False)


def with_sliding_layers(module):
    module.config.layer_types = ["full_attention", "sliding_attention"]


def with_gelu(module):
    module.config.hidden_act = "gelu"


def with_moving_frequencies(module):
    module.model.rotary_emb.rope_type = "dynamic"


def with_eight_bits(module):
    module.to(torch.float8_e4m3fn)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_output_bias, "its o_proj has a bias"),
        (with_an_adapter, f"its up_proj is {__name__.partition('.')[0]}'s Adapted, not a plain matrix"),
        (with_sliding_layers, "it has layers with sliding_attention"),
        (with_gelu, "its MLP has gelu, not silu"),
        (with_moving_frequencies, "its positions are scaled by 'dynamic', not one of default, linear, llama3, yarn"),
        (with_eight_bits, "its weights are torch.float8_e4m3fn"),
    ],
)
def test_what_the_engine_would_compute_wrongly_is_a_misfit(change, reason, make_decoder):
    model = make_decoder("qwen2")
    change(model.module)
    assert misfit(model.module) == reason
    with pytest.raises(ValueError, match=reason.split(",")[0]):
        Shape.of(model)


def test_another_architecture_is_a_misfit_and_so_is_what_is_no_decoder():
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16)
    assert misfit(AutoModelForCausalLM.from_config(config)) == "it runs qwen2, qwen3, llama, not gpt2"
    assert misfit(nn.Linear(2, 2)) == "it runs qwen2, qwen3, llama, not Linear"


def test_qwen2s_sliding_windows_count_only_where_they_are_in_use():
    """Qwen2's configuration names a window that most of its models don't use."""
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
    for used, expected in ((False, None), (True, "it has layers with sliding_attention")):
        config = Qwen2Config(
            **sizes,
            vocab_size=16,
            num_hidden_layers=2,
            use_sliding_window=used,
            max_window_layers=1,
            sliding_window=4,
        )
        assert misfit(AutoModelForCausalLM.from_config(config)) == expected


def test_shipped_models_fit():
    for name in ("arith_tiny/student", "arith_tiny/teacher", "arith_gap/student"):
        config = AutoConfig.from_pretrained(find_model(f"opd:{name}"))
        with torch.device("meta"):
            assert misfit(AutoModelForCausalLM.from_config(config)) is None
