"""The memory of a run, by part: against what was worked out by hand, and against what torch really holds."""

from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from opd.models.head import backward_in_chunks, head_logp
from opd.models.load import LanguageModel, load_model
from opd.train.ahead.lacks import look_at_teachers
from opd.train.ahead.memory import (
    GIB,
    Found,
    Load,
    Part,
    Shape,
    layer_bytes,
    load_of,
    look,
    memory_parts,
    peak,
    read_shape,
    state_bytes,
)
from opd.train.objectives.k2 import K2
from opd.train.recipe import ModelSettings
from opd.train.update.updater import OptimizerSettings, Updater

REFERENCE = 1_777_088_000  # parameters of the reference student and teacher, head untied
REFERENCE_SHAPE = Shape(
    layers=28, hidden=1536, inner=8960, heads=12, kv_heads=2, head_size=128, rows=151_936, context_tokens=131_072
)
REFERENCE_MODEL = Found(folder=None, fault=None, parameters=REFERENCE, shape=REFERENCE_SHAPE)
REFERENCE_LOAD = Load(
    sequence_tokens=8_192, sequences=8, sampled_at_once=8, micro_batch_tokens=8_192, chunk_tokens=128
)


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
    assert state_bytes(settings, REFERENCE, trained=REFERENCE if trained else 0) / GIB == pytest.approx(
        gib, abs=0.006
    )


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
    assert held == [
        state_bytes(ModelSettings(model="m", dtype=dtype), student.parameters, trained=student.parameters)
    ]


def test_parameters_are_counted_from_the_files_and_taken_from_the_recipe_where_there_are_none(
    load, untied_model: Path
) -> None:
    tied = load()
    assert look(ModelSettings(model=str(tied.path))).parameters == tied.parameters
    untied = load_model(untied_model, dtype="float32", device="cpu")
    assert look(ModelSettings(model=str(untied_model))).parameters == untied.parameters
    assert look(ModelSettings(model=str(untied_model), parameters=12)).parameters == untied.parameters
    assert look(ModelSettings(model="./not-fetched-yet", parameters=12)).parameters == 12
    assert look(ModelSettings(model="./not-fetched-yet")).parameters is None


def saved_bytes(config: Qwen2Config, dtype: torch.dtype, *, sequences: int, tokens: int) -> int:
    """Bytes of all the tensors that autograd keeps of the decoder's forward pass, weights left out."""
    module = Qwen2ForCausalLM._from_config(config, dtype=dtype, attn_implementation="sdpa").eval()
    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module.get_decoder()(input_ids=torch.zeros(sequences, tokens, dtype=torch.long), use_cache=False)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize(("dtype", "width"), [(torch.float32, 4), (torch.bfloat16, 2)])
@pytest.mark.parametrize(
    ("hidden", "inner", "heads", "kv_heads"), [(64, 128, 4, 2), (96, 256, 4, 4), (64, 320, 8, 1)]
)
def test_a_layer_keeps_what_autograd_saves_of_it(
    dtype: torch.dtype, width: int, hidden: int, inner: int, heads: int, kv_heads: int
) -> None:
    """Of three layers less that of two, so that what is kept once a pass drops out."""
    kept = []
    for layers in (2, 3):
        config = Qwen2Config(
            vocab_size=64,
            hidden_size=hidden,
            intermediate_size=inner,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
        )
        kept.append(saved_bytes(config, dtype, sequences=2, tokens=48))
    shape = read_shape(config.to_dict())
    assert shape is not None
    assert (kept[1] - kept[0]) / (2 * 48) == pytest.approx(layer_bytes(shape, width=width), rel=0.01)


def test_the_kv_cache_of_the_reference_is_28_672_bytes_a_token(make_recipe) -> None:
    """Objectives, section 7: 1.75 GiB for 8 × 8,192. The plain sampler's grows by copies: one layer more."""
    known, load = REFERENCE_MODEL, REFERENCE_LOAD

    def cache(engine: str, device: str, *, tokens: int = 8_192) -> tuple[int, str]:
        recipe = make_recipe("student.dtype=bfloat16", f"machine.engine={engine}")
        asked = replace(load, sequence_tokens=tokens)
        parts = memory_parts(recipe, asked, device=device, student=known, teachers={None: known})
        return next((part.bytes, part.phase) for part in parts if part.name == "KV cache")

    size = 28_672 * 8 * 8_192
    assert size == 1.75 * GIB
    assert cache("plain", "cuda") == cache("auto", "cpu") == (size * 29 // 28, "sample")
    assert cache("auto", "cuda") == (size, "always")
    assert cache("auto", "cuda", tokens=8_192 - 127) == (size, "always")  # in whole pages of 128


def test_the_persistent_kernel_has_a_copy_of_the_weights_it_is_made_for(make_recipe) -> None:
    """28 layers and a head of 9,496 tiles, cut for 132 SMs, of which 128 share the layers: on a GPU alone."""

    def copied(*sets: str, device: str = "cuda", shape: Shape = REFERENCE_SHAPE) -> list[int]:
        known = replace(REFERENCE_MODEL, shape=shape)
        parts = memory_parts(make_recipe(*sets), REFERENCE_LOAD, device=device, student=known, teachers={None: known})
        return [part.bytes for part in parts if part.name == "persistent kernel's weights"]

    layer = 2 * 1_536 * (2_048 + 1_536 + 3 * 8_960)
    expected = [132 * (28 * layer // 128 + 72 * 16 * 1_536 * 2)]
    assert (
        copied("student.dtype=bfloat16") == copied("student.dtype=bfloat16", "machine.engine=persistent") == expected
    )
    assert copied("student.dtype=bfloat16", "machine.engine=graphs") == []
    assert copied("student.dtype=bfloat16", device="cpu") == copied("student.dtype=float32") == []
    assert copied("student.dtype=bfloat16", shape=replace(REFERENCE_SHAPE, kv_heads=4)) == []
    qwen3 = replace(REFERENCE_SHAPE, hidden=2_048, inner=6_144, heads=16, kv_heads=8)
    layer = 2 * 2_048 * (4_096 + 2_048 + 3 * 6_144)
    assert copied("student.dtype=bfloat16", shape=qwen3) == [132 * (28 * layer // 128 + 72 * 16 * 2_048 * 2)]


def test_vllm_has_weights_and_caches_of_its_own(make_recipe) -> None:
    """Keys and values in blocks of 16 and one more: 8 × 8,192 tokens for the student, 8 × 8,193 for the teacher."""
    known, load = REFERENCE_MODEL, REFERENCE_LOAD
    dtypes = (f"{role}.dtype=bfloat16" for role in ("student", "teacher"))
    recipe = make_recipe(*dtypes, "machine.engine=vllm", "machine.scorer=vllm")
    parts = memory_parts(recipe, load, device="cuda", student=known, teachers={None: known})
    caches = [(part.bytes, part.phase) for part in parts if part.name == "vLLM's KV cache"]
    sizes = (8 * 512 + 1) * 16 * 28_672, (8 * 513 + 1) * 16 * 28_672
    assert caches == [(size, "always") for size in sizes]
    weights = [
        (part.name, part.bytes) for part in parts if part.name.endswith("weights") and "master" not in part.name
    ]
    assert weights == [(name, 2 * REFERENCE) for name in ("student's weights", "teacher's weights", "vLLM's weights")]
    assert not {"KV cache", "logits of a position", "forward pass of a micro-batch"} & {part.name for part in parts}
    asleep = recipe.changed(["machine.vllm_sleeps=true", "machine.scorer=plain"])
    parts = memory_parts(asleep, load, device="cuda", student=known, teachers={None: known})
    assert {part.phase for part in parts if part.name.startswith("vLLM")} == {"sample"}


@pytest.mark.parametrize(("gpus", "kv_heads"), [(2, 1), (4, 1)])
def test_of_a_vllm_that_spans_several_gpus_each_has_a_part(make_recipe, gpus: int, kv_heads: int) -> None:
    """Of weights and of the heads of keys, the last of which is repeated; the cache is for the rollouts of all."""
    known, load = REFERENCE_MODEL, REFERENCE_LOAD
    dtypes = (f"{role}.dtype=bfloat16" for role in ("student", "teacher"))
    both = ("machine.engine=vllm", "machine.scorer=vllm", f"machine.tensor_parallel={gpus}")
    parts = memory_parts(make_recipe(*dtypes, *both), load, device="cuda", student=known, teachers={None: known})
    found = [(part.name, part.bytes) for part in parts]
    of_token = 28_672 // 2 * kv_heads
    assert [size for name, size in found if name == "vLLM's KV cache"] == [
        (gpus * 8 * 512 + 1) * 16 * of_token,
        (8 * 513 + 1) * 16 * of_token,
    ]
    assert dict(found)["teacher's weights"] == dict(found)["vLLM's weights"] == 2 * REFERENCE // gpus
    assert dict(found)["student's weights"] == 2 * REFERENCE


@pytest.mark.parametrize(
    ("sets", "at_once", "positions", "chunk"),
    [
        ([], 4, 72, 72),  # 4 sequences of 10 + 8
        (["machine.micro_batch_tokens=40"], 4, 40, 40),
        (["machine.micro_batch_tokens=4"], 4, 18, 18),  # a longer one goes alone
        (["rollouts.largest_batch=3", "machine.head_chunk_tokens=16"], 3, 72, 16),
        (["rollouts.largest_batch=1"], 1, 72, 72),
    ],
)
def test_a_step_is_as_large_as_the_settings_allow(
    make_recipe, sets: list[str], at_once: int, positions: int, chunk: int
) -> None:
    load = load_of(make_recipe(*sets), prompt_tokens=10)
    assert (load.sampled_at_once, load.micro_batch_tokens, load.chunk_tokens) == (at_once, positions, chunk)
    assert (load.sequence_tokens, load.sequences) == (18, 4)


def test_a_divergence_holds_more_of_a_chunk_than_an_objective_of_tokens(make_recipe) -> None:
    def chunk(objective: str) -> int:
        recipe = make_recipe(f"objective.name={objective}")
        load = load_of(recipe, prompt_tokens=10)
        parts = memory_parts(
            recipe, load, device="cpu", student=look(recipe.student), teachers=look_at_teachers(recipe)
        )
        return next(part.bytes for part in parts if (part.name, part.phase) == ("logits of a chunk", "update"))

    assert chunk("k2") == 3 * 4 * 72 * 320
    assert chunk("reverse_kl") == 10 * 4 * 72 * 320


def head_peak(device: str, dtype: torch.dtype, *, rows: int, hidden: int, chunk: int) -> int:
    """Bytes beyond what was there, at the worst moment of three chunks through the head and back."""
    head = torch.nn.Linear(hidden, rows, bias=False, dtype=dtype, device=device)
    module = SimpleNamespace(get_output_embeddings=lambda: head)
    model = LanguageModel(module=module, tokenizer=None, path=Path("head"), vocabulary=rows, stop_ids=frozenset())
    hidden_NH = torch.randn(3 * chunk, hidden, dtype=dtype, device=device).requires_grad_() * 1
    ids_N = torch.arange(3 * chunk, device=device)
    gradient_RH = torch.zeros(rows, hidden, dtype=torch.promote_types(dtype, torch.float32), device=device)

    def value_of(hidden_CH: torch.Tensor, at: slice) -> torch.Tensor:
        return head_logp(model, hidden_CH, ids_N[at], gradient_RH=gradient_RH).sum()

    if device == "cuda":
        value_of(hidden_NH.detach()[:chunk].requires_grad_(), slice(chunk)).backward()  # the library's own workspace
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        backward_in_chunks(value_of, hidden_NH, chunk_tokens=chunk)
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        backward_in_chunks(value_of, hidden_NH, chunk_tokens=chunk)
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
    return max(accumulate(one.nbytes() for one in events))


@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ("cpu", "float32"),
        ("cpu", "bfloat16"),
        ("cpu", "float64"),
        pytest.param("cuda", "float32", marks=pytest.mark.gpu),
        pytest.param("cuda", "bfloat16", marks=pytest.mark.gpu),
    ],
)
@pytest.mark.parametrize(("hidden", "chunk"), [(64, 64), (512, 16)])
def test_the_head_is_planned_as_its_chunks_allocate(
    make_recipe, device: str, dtype: str, hidden: int, chunk: int
) -> None:
    """No second matrix of its gradient stands beside the masters', but on a CPU in bfloat16."""
    shape = Shape(
        layers=1, hidden=hidden, inner=64, heads=4, kv_heads=4, head_size=16, rows=8_192, context_tokens=512
    )
    load = Load(sequence_tokens=64, sequences=3, sampled_at_once=3, micro_batch_tokens=192, chunk_tokens=chunk)
    known = Found(folder=None, fault=None, parameters=1, shape=shape)
    recipe = make_recipe(f"student.dtype={dtype}")
    parts = memory_parts(recipe, load, device=device, student=known, teachers={None: known})
    names = ("logits of a chunk", "head's gradient of a chunk")
    planned = sum(part.bytes for part in parts if part.phase == "update" and part.name in names)
    measured = head_peak(device, getattr(torch, dtype), rows=8_192, hidden=hidden, chunk=chunk)
    assert measured < planned < (2.5 if device == "cuda" else 1.6) * measured


def test_phases_follow_each_other_and_only_the_largest_counts() -> None:
    parts = [
        Part(name="a", bytes=100),
        Part(name="b", bytes=70, phase="sample"),
        Part(name="c", bytes=40, phase="update"),
        Part(name="d", bytes=50, phase="update"),
        Part(name="e", bytes=10, phase="score"),
    ]
    assert peak(parts, device="cuda") == 196  # 1.03 × (100 + 90), rounded up
    assert peak(parts, device="cpu") == 219


@pytest.mark.parametrize("config", [{}, {"hidden_size": 32, "num_attention_heads": 4}])
def test_a_configuration_with_other_names_has_no_shape(config: dict[str, int]) -> None:
    assert read_shape(config) is None


def test_the_shape_is_that_of_the_loaded_model(untied_model: Path) -> None:
    module = AutoModelForCausalLM.from_pretrained(untied_model)
    shape = look(ModelSettings(model=str(untied_model))).shape
    assert shape is not None
    assert shape.rows == module.get_input_embeddings().weight.shape[0]
    assert shape.layers == len(module.get_decoder().layers)
    assert shape.heads * shape.head_size == module.get_decoder().layers[0].self_attn.q_proj.out_features
    assert shape.kv_heads * shape.head_size == module.get_decoder().layers[0].self_attn.k_proj.out_features
    assert shape.inner == module.get_decoder().layers[0].mlp.up_proj.out_features
