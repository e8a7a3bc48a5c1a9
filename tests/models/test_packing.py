"""Sequences end to end in one row, against each of them alone; over architectures that take it and that don't.

Shapes: P positions of the row, H hidden.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from opd.models import packing
from opd.models.packing import LONGEST_OVER_SHORTEST, NAME, hidden_states, learn_packing, rectangles
from opd.models.sequences import pack

CPU = torch.device("cpu")
SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
TAKE_ROWS = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "mistral": {"sliding_window": None},
    "gpt_neox": {},
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2},
}
DO_NOT = {  # and why
    "mistral": ({"sliding_window": 3}, "NotImplementedError: attention with sliding_window"),
    "qwen2": (
        {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
        "NotImplementedError: attention with sliding_window",
    ),
    "falcon": ({"alibi": True, "new_decoder_architecture": False}, "its attention can't be replaced"),
    "mamba": ({"state_size": 4}, "its attention can't be replaced"),
}
EXPERTS = {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
PAIRS = [([3, 1, 4], [1, 5, 9, 2]), ([6], [5]), ([2, 7, 1, 8, 2, 8], [1, 8, 2, 8, 4, 5, 9, 0]), ([4, 9], [3])]


def model_of(kind: str, changes: dict[str, object], *, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**SIZES, **changes})
    module = AutoModelForCausalLM.from_config(config, dtype=dtype)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # far from zero, so that attention is not even
    return module.eval()


def alone(module: torch.nn.Module, pairs=PAIRS) -> torch.Tensor:
    """hidden_PH by transformers' own attention, each sequence by itself."""
    states = [module.get_decoder()(input_ids=torch.tensor([a + b]), use_cache=False)[0][0] for a, b in pairs]
    return torch.cat(states)


@pytest.mark.parametrize("kind", TAKE_ROWS)
def test_in_a_row_each_sequence_is_as_if_alone(kind):
    """E26, E27: no token feels another sequence, and each has its own position."""
    module = model_of(kind, TAKE_ROWS[kind])
    with torch.no_grad():
        expected_PH = alone(module)
        assert learn_packing(module) is None
        assert module.config._attn_implementation == NAME
        found_PH = hidden_states(module, pack(PAIRS, device=CPU), packs=True)
    torch.testing.assert_close(found_PH, expected_PH, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_mixture_of_experts_takes_rows(dtype):
    """Its experts see another number of tokens in a row than alone, so the last bits differ, and nothing else."""
    module = model_of("qwen3_moe", EXPERTS, dtype=dtype)
    with torch.no_grad():
        expected_PH = alone(module)
        assert learn_packing(module) is None
        found_PH = hidden_states(module, pack(PAIRS, device=CPU), packs=True)
    largest = float(expected_PH.abs().max())
    torch.testing.assert_close(found_PH, expected_PH, rtol=0, atol=32 * torch.finfo(dtype).eps * largest)


def test_a_model_that_gives_the_same_whatever_it_reads_is_not_trusted_with_a_row():
    """Nothing could be told of whether its sequences feel each other; as a teacher, it may be meant."""
    module = model_of("qwen2", {})
    torch.nn.init.zeros_(module.get_input_embeddings().weight)
    assert learn_packing(module) == "its hidden states don't depend on its tokens"


@pytest.mark.parametrize("kind", DO_NOT)
def test_what_can_not_keep_sequences_apart_is_found_out_and_runs_as_a_rectangle(kind):
    changes, fault = DO_NOT[kind]
    module = model_of(kind, changes)
    before = module.config._attn_implementation
    with torch.no_grad():
        expected_PH = alone(module)
        assert fault in learn_packing(module)
        assert module.config._attn_implementation == before
        found_PH = hidden_states(module, pack(PAIRS, device=CPU), packs=False)
    torch.testing.assert_close(found_PH, expected_PH, rtol=0, atol=1e-10)


def test_attention_over_the_whole_row_would_be_noticed(monkeypatch):
    """The bad condition: sequences that see those before them, with every position right."""

    def across(query_PAD, key_PAD, value_PAD, _, scaling):
        heads = (one_PAD.transpose(0, 1)[None] for one_PAD in (query_PAD, key_PAD, value_PAD))
        attended = torch.nn.functional.scaled_dot_product_attention(
            *heads, is_causal=True, scale=scaling, enable_gqa=True
        )
        return attended[0].transpose(0, 1)

    monkeypatch.setattr(packing, "_by_rectangles", across)
    assert "from those alone" in learn_packing(model_of("llama", {}))


def test_with_a_cache_and_a_mask_the_model_is_what_it_was():
    """The sampler's calls: prompts padded on the left, then a token at a time."""
    ids_BT = torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 5]])
    real_BT = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    asked = {"attention_mask": real_BT, "max_new_tokens": 6, "do_sample": False}
    module = model_of("qwen2", {})
    expected = module.generate(ids_BT, **asked)
    single = module.generate(ids_BT[1:], max_new_tokens=6, do_sample=False)
    assert learn_packing(module) is None
    assert torch.equal(module.generate(ids_BT, **asked), expected)
    assert torch.equal(module.generate(ids_BT[1:], max_new_tokens=6, do_sample=False), single)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_gradients_are_those_of_the_sequences_alone(kind):
    module = model_of(kind, TAKE_ROWS[kind])
    pull_PH = torch.randn(sum(len(a + b) for a, b in PAIRS), 32, dtype=torch.float64)
    expected = torch.autograd.grad((alone(module) * pull_PH).sum(), list(module.get_decoder().parameters()))
    assert learn_packing(module) is None
    found_PH = hidden_states(module, pack(PAIRS, device=CPU), packs=True)
    found = torch.autograd.grad((found_PH * pull_PH).sum(), list(module.get_decoder().parameters()))
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one, right, rtol=1e-8, atol=1e-10)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12).map(tuple))
def test_rectangles_part_the_row_into_neighbours_of_like_length(lengths):
    found = list(rectangles(lengths))
    assert [index for first, last in found for index in range(first, last)] == list(range(len(lengths)))
    for first, last in found:
        together = lengths[first:last]
        assert max(together) <= LONGEST_OVER_SHORTEST * min(together)


def test_the_config_that_is_saved_says_nothing_of_it(tmp_path):
    module = model_of("llama", {})
    assert learn_packing(module) is None
    module.save_pretrained(tmp_path)
    assert NAME not in (tmp_path / "config.json").read_text()


@pytest.mark.patient
def test_compiled_layers_are_compiled_once_for_any_number_of_sequences():
    """A compiler that looked into the packing would compile for each, and give up at the eighth."""
    from torch._dynamo.utils import counters

    module = model_of("qwen2", {})
    assert learn_packing(module) is None
    for layer in module.get_decoder().layers:
        layer.forward = torch.compile(layer.forward, dynamic=True, backend="eager")
    graphs = []
    with torch.no_grad():
        for count in (2, 3, 1, 5, 4):
            row = pack([([1], [2] * (3 + count + n)) for n in range(count)], device=CPU)
            hidden_states(module, row, packs=True)
            graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] > 0
    assert graphs[-1] == graphs[0]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_a_gpu_each_sequence_is_as_if_alone(dtype):
    """bf16 goes through flash attention over the row; the tolerance is that of the dtype."""
    module = model_of("qwen2", {"hidden_size": 128, "head_dim": 32}).to("cuda", dtype)
    pairs = [(list(range(1, 40)), [7] * length) for length in (300, 1, 120, 119)]
    with torch.no_grad():
        expected_PH = torch.cat(
            [module.get_decoder()(input_ids=torch.tensor([a + b], device="cuda"))[0][0] for a, b in pairs]
        )
        assert learn_packing(module) is None
        found_PH = hidden_states(module, pack(pairs, device=torch.device("cuda")), packs=True)
    scale = float(expected_PH.abs().max())
    assert float((found_PH - expected_PH).abs().max()) < 64 * torch.finfo(dtype).eps * scale
