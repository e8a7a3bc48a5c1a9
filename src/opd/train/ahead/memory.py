"""What a run holds in memory, counted before anything is loaded.

    always    weights, masters, AdamW's moments, the teacher, what the libraries take
    sample    KV cache (always, where the engine keeps it: on a GPU), one row of logits a sequence; vLLM's own
    score     the teacher's forward pass over a micro-batch, a chunk of its head
    update    gradients, what the backward pass needs of a micro-batch, a chunk of the heads
    save      layers that are otherwise shared out among ranks: whole, or a tensor at a time

The phases follow each other and free what they held, so the peak is what is always there and the largest of them,
with 3 % for fragmentation (15 % on a CPU). Every sequence counts as if it reached the limit. What a layer keeps for
its backward pass was counted from the tensors that autograd saved (`tests/train/ahead/test_memory.py` counts again).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import NonNegativeInt

from opd.models.adapters import LoraSettings
from opd.models.engine.persistent import fit
from opd.models.engine.persistent.cut import Cut, cut_with
from opd.models.load import find_model
from opd.models.vllm.memory import BLOCK_TOKENS, heads_here, workspace_bytes
from opd.models.vllm.scorer import ROWS as SCORED_ROWS
from opd.models.weights import parameters_in
from opd.records.errors import AskedWrongly
from opd.records.files import read_json
from opd.records.rollouts import Prompt
from opd.records.settings import Settings
from opd.train.model import ModelSettings
from opd.train.objective import Divergence
from opd.train.recipe import Recipe
from opd.train.teachers import TeacherName, role

GIB = 1 << 30
SLACK = {"cuda": 1.03, "cpu": 1.15}  # holes between blocks; a process gives less back than CUDA's pool
CONTEXT_BYTES = {"cuda": int(2.5 * GIB), "cpu": int(0.6 * GIB)}  # CUDA's context and workspace; the libraries' code
HEAD_MATRICES = {True: 10, False: 3}  # [chunk, vocabulary] at once, 4 bytes or more: divergence, token objective
LOGIT_BYTES = 24  # of sampling: log-probability and probability in float32, and its running sum twice in float64
WIDTHS = {"float32": 4, "bfloat16": 2, "float64": 8}  # bytes of a number

TENSORS_ON_THEIR_WAY = 4  # own rows, the rows of all, the tensor, and the one before it; counted in test_loading.py

Phase = Literal["always", "sample", "score", "update", "save"]
SENDING: tuple[Phase, ...] = ("sample", "save")
BETWEEN: tuple[Phase, ...] = ("sample", "score", "save")


class Part(Settings):
    """Something that takes memory or disk."""

    name: str
    """What it is, for people."""
    bytes: NonNegativeInt
    phase: Phase = "always"
    """When it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes in a model's `config.json`."""

    layers: int
    hidden: int
    inner: int  # of the MLP
    heads: int
    kv_heads: int
    head_size: int
    rows: int  # of the embedding
    context_tokens: int  # longest sequence that the positions allow


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much passes through the models in a step, at the most."""

    sequence_tokens: int  # the longest prompt and a rollout that reaches the limit
    sequences: int  # of a step
    sampled_at_once: int
    micro_batch_tokens: int  # positions of one forward and backward pass
    chunk_tokens: int  # whose logits exist at once


def load_of(recipe: Recipe, *, prompt_tokens: int) -> Load:
    """The most that a step of this recipe asks for, with prompts of at most so many tokens."""
    asked, machine = recipe.rollouts, recipe.machine
    sequences = asked.prompts_per_step * asked.per_prompt
    longest = prompt_tokens + asked.limit_tokens
    positions = max(longest, min(machine.micro_batch_tokens, sequences * longest))  # a longer one goes alone
    return Load(
        sequence_tokens=longest,
        sequences=sequences,
        sampled_at_once=min(asked.largest_batch, sequences),
        micro_batch_tokens=positions,
        chunk_tokens=min(machine.head_chunk_tokens, positions),
    )


def loads_of(recipe: Recipe, prompts: Sequence[Prompt]) -> tuple[Load, Load]:
    """The student's and, where the prompts may be longer ones, the teachers'; without prompts with the longest."""
    drawn = [len(one.token_ids) for one in prompts]
    scored = [len(one.teacher_ids or one.token_ids) for one in prompts]
    longest = (max(lengths, default=recipe.data.limit_prompt_tokens) for lengths in (drawn, scored))
    student, teachers = (load_of(recipe, prompt_tokens=tokens) for tokens in longest)
    return student, teachers


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is known of a model before it is loaded."""

    folder: Path | None
    fault: str | None  # why there is no folder
    parameters: int | None  # counted from the safetensors headers; as the recipe says where there is no folder
    shape: Shape | None

    @property
    def here(self) -> bool:
        """Whether its directory is."""
        return self.folder is not None


def look(settings: ModelSettings, *, fetch: bool = False, weights: bool = True) -> Found:
    """What there is of a model: on this machine, or with `fetch` on the hub, which may take long.

    Without `weights` it is complete with its configuration and tokenizer.
    """
    try:
        folder = find_model(settings.model, settings.revision, fetch=fetch, weights=weights)
    except AskedWrongly as error:
        return Found(folder=None, fault=str(error), parameters=settings.parameters, shape=None)
    return Found(
        folder=folder,
        fault=None,
        parameters=parameters_in(folder) or settings.parameters,
        shape=read_shape(read_json(folder / "config.json")),
    )


def memory_parts(
    recipe: Recipe,
    load: Load,
    *,
    device: str,
    student: Found,
    teachers: Mapping[TeacherName, Found],
    scored: Load | None = None,
    ranks: int = 1,
) -> list[Part]:
    """What the run holds, by part, on each of so many ranks.

    `scored` is the teachers' load where it is not the student's. What depends on a model's shape is left out where
    its directory is not here.
    """
    parts = [Part(name="libraries and workspace", bytes=CONTEXT_BYTES[device])]
    width = WIDTHS[recipe.student.dtype]
    if student.parameters is not None:
        parts += _students(recipe, student, ranks=ranks)
    parts += teachers_weights(recipe, teachers, device=device)
    if student.shape is not None:
        matrices = HEAD_MATRICES[isinstance(recipe.objective, Divergence)]
        if recipe.machine.engine == "vllm":
            together = load.sequences * recipe.machine.tensor_parallel  # of all the ranks that it spans
            rows, tokens = min(recipe.rollouts.largest_batch, together), load.sequence_tokens
            parts += _in_vllm(recipe, recipe.student, student, rows=rows, tokens=tokens, phase="sample")
        else:
            keeps = device == "cuda" and recipe.machine.engine != "plain"
            parts += _sampling(student.shape, load, width=width, keeps=keeps)
            if keeps and recipe.machine.engine != "graphs" and (cut := _cut(recipe.student, student.shape)):
                copied = cut.weight_bytes(layers=student.shape.layers, vocabulary=student.shape.rows)
                parts.append(Part(name="persistent kernel's weights", bytes=copied))
        parts += _updating(recipe, student.shape, load, matrices=matrices, device=device)
    return parts + _teachers_scoring(recipe, scored or load, teachers, device=device)


def teachers_weights(recipe: Recipe, teachers: Mapping[TeacherName, Found], *, device: str) -> list[Part]:
    """Those that are on the device all along, and the largest of those that come in turn, while it scores."""
    always: list[Part] = []
    visiting: list[Part] = []
    for name, found in teachers.items():
        settings = recipe.all_teachers[name]
        if found.parameters is None or settings.scorer == "served" or not _uses(settings.device, device):
            continue
        in_turn = settings.device == "in_turn" and device == "cuda"  # elsewhere the host's memory is the device's
        cut = recipe.machine.tensor_parallel if settings.scorer == "vllm" else 1
        weights = Part(
            name=f"{role(name)}'s weights",
            bytes=WIDTHS[settings.dtype] * found.parameters // cut,
            phase="score" if in_turn else "always",
        )
        (visiting if in_turn else always).append(weights)
    return always + sorted(visiting, key=lambda part: part.bytes)[-1:]


def peak(parts: list[Part], *, device: str) -> int:
    """Bytes at the worst moment: what is always there and the largest phase, with slack."""
    phases = ("sample", "score", "update", "save")
    resident = sum(part.bytes for part in parts if part.phase == "always")
    largest = max(sum(part.bytes for part in parts if part.phase == phase) for phase in phases)
    return math.ceil(SLACK[device] * (resident + largest))


def state_bytes(settings: ModelSettings, parameters: int, *, trained: int) -> int:
    """Bytes of a model's weights and, for as many numbers as are trained, of masters, gradients and AdamW's moments.

    All of them are float32 when the model computes in bfloat16; otherwise the weights are their own masters.
    """
    return sum(part.bytes for part in _trained(settings.dtype, parameters, trained))


def least_bytes(recipe: Recipe, student: Found, *, ranks: int = 1) -> int:
    """Bytes of the same that each of so many ranks can't do without, at the worst moment."""
    parts = _students(recipe, student, ranks=ranks)
    return max(sum(part.bytes for part in parts if part.phase in ("always", phase)) for phase in ("update", "sample"))


def further_sharing(recipe: Recipe, *, ranks: int) -> list[str]:
    """What to set, or to do, where a rank can't hold its part of the student; for one process nothing."""
    how, splits = recipe.machine.shard, recipe.lora is None and not recipe.machine.exact
    if ranks == 1 or (how == "optimizer" and not splits):
        return []
    if how != "full":
        return [f'share more of it: machine.shard = "{"optimizer" if how == "none" else "full"}"']
    if recipe.machine.engine == "vllm":
        return ["start more ranks"]
    own = "opd's own engine reads the layers whole on each rank"
    return [f'{own}: with machine.engine = "vllm" and machine.tensor_parallel = N they are whole nowhere']


def trained_parameters(recipe: Recipe, student: Found) -> int:
    """How many numbers the optimizer moves: all of the student's, or those of its adapters.

    Adapters of layers that are not named as in Llama and Qwen aren't counted.
    """
    assert student.parameters is not None, "asked only where it is known"
    if recipe.lora is None or student.shape is None:
        return student.parameters
    return adapter_parameters(recipe.lora, student.shape)


def adapter_parameters(lora: LoraSettings, shape: Shape) -> int:
    """Numbers of the adapters: rank × (in + out) for each matrix that has one."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    sizes = {
        "q_proj": shape.hidden + queries,
        "k_proj": shape.hidden + keys,
        "v_proj": shape.hidden + keys,
        "o_proj": queries + shape.hidden,
        "gate_proj": shape.hidden + shape.inner,
        "up_proj": shape.hidden + shape.inner,
        "down_proj": shape.inner + shape.hidden,
    }
    return shape.layers * lora.rank * sum(size for name, size in sizes.items() if name in (lora.targets or sizes))


def layer_bytes(shape: Shape, *, width: int) -> int:
    """Bytes a token that one layer keeps for its backward pass, computing in numbers of `width` bytes.

    Norms keep their input in float32; the MLP keeps gate, up, the activation and the product; attention keeps
    queries and output, keys and values, and a float32 a head.
    """
    attention = 2 * width * (shape.heads + shape.kv_heads) * shape.head_size + 4 * shape.heads
    return (4 * width + 8) * shape.hidden + 4 * width * shape.inner + attention + 8


def read_shape(config: Mapping[str, Any]) -> Shape | None:
    """The shape that a `config.json` describes, or None when a size is missing."""
    sizes = config.get("text_config") or config
    try:
        heads, hidden = int(sizes["num_attention_heads"]), int(sizes["hidden_size"])
        return Shape(
            layers=int(sizes["num_hidden_layers"]),
            hidden=hidden,
            inner=int(sizes["intermediate_size"]),
            heads=heads,
            kv_heads=int(sizes.get("num_key_value_heads") or heads),
            head_size=int(sizes.get("head_dim") or hidden // heads),
            rows=int(sizes["vocab_size"]),
            context_tokens=int(sizes.get("max_position_embeddings") or 0) or 1 << 30,
        )
    except KeyError:
        return None


def _trained(dtype: str, parameters: int, trained: int) -> list[Part]:
    width = WIDTHS[dtype]
    state = max(width, 4)
    parts = [
        Part(name="student's weights", bytes=width * parameters),
        Part(name="AdamW's two moments", bytes=2 * state * trained),
        Part(name="gradients", bytes=state * trained, phase="update"),
    ]
    if width < 4:
        parts.insert(1, Part(name="float32 master weights", bytes=state * trained))
    return parts


def _students(recipe: Recipe, student: Found, *, ranks: int) -> list[Part]:
    """What is always there of the student, and its gradients; of ranks that share, on each of them."""
    assert student.parameters is not None, "asked only where it is known"
    dtype, trained = recipe.student.dtype, trained_parameters(recipe, student)
    shard = recipe.machine.shard
    if ranks == 1 or shard == "none":
        return _trained(dtype, student.parameters, trained)
    width, state = WIDTHS[dtype], max(WIDTHS[dtype], 4)
    layers = layers_parameters(student.shape) if shard == "full" and student.shape else 0
    own = -(-state * trained // ranks)
    parts = [
        Part(name="student's weights", bytes=width * (student.parameters - layers)),
        Part(name="master weights, a share", bytes=own),
        Part(name="AdamW's two moments, a share", bytes=2 * own),
        Part(name="gradients", bytes=state * (trained - layers) + -(-state * layers // ranks), phase="update"),
    ]
    if layers and student.shape:
        parts += _whole_between(recipe, student.shape, width=width, layers=layers)
        at_hand = (5 * width + 2 * state) * layers // student.shape.layers
        parts.append(Part(name="layers at hand, whole", bytes=at_hand, phase="update"))
    return parts


def _whole_between(recipe: Recipe, shape: Shape, *, width: int, layers: int) -> list[Part]:
    """Of the layers that ranks share, what each has whole between two updates."""
    if recipe.machine.engine == "vllm":  # is sent a tensor at a time, as the disk is
        on_its_way = TENSORS_ON_THEIR_WAY * width * shape.hidden * max(shape.inner, shape.heads * shape.head_size)
        name, size, phases = "a tensor on its way", on_its_way, SENDING
    else:  # an engine reads them where they are
        name, size, phases = "student's layers, whole", width * layers, BETWEEN
    return [Part(name=name, bytes=size, phase=phase) for phase in phases]


def layers_parameters(shape: Shape) -> int:
    """Numbers of the layers' matrices and norms; biases, which are few, aren't counted."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    return shape.layers * shape.hidden * (2 * queries + 2 * keys + 3 * shape.inner + 2)


def _cut(settings: ModelSettings, shape: Shape) -> Cut | None:
    """How the persistent kernel cuts the model, where it may run it; on what card is not known here."""
    if settings.dtype != "bfloat16":
        return None
    return cut_with(
        hidden=shape.hidden,
        inner=shape.inner,
        heads=shape.heads,
        key_heads=shape.kv_heads,
        head=shape.head_size,
    )


def _sampling(shape: Shape, load: Load, *, width: int, keeps: bool) -> list[Part]:
    """The engine keeps its cache, in whole pages; in the plain sampler's a layer is copied when it grows."""
    tokens, layers = load.sequence_tokens, shape.layers + 1
    if keeps:
        tokens, layers = -(-tokens // fit.PAGE_TOKENS) * fit.PAGE_TOKENS, shape.layers
    of_layer = load.sampled_at_once * tokens * 2 * shape.kv_heads * shape.head_size * width
    return [
        Part(name="KV cache", bytes=layers * of_layer, phase="always" if keeps else "sample"),
        Part(name="logits of a position", bytes=load.sampled_at_once * shape.rows * LOGIT_BYTES, phase="sample"),
    ]


def _teachers_scoring(
    recipe: Recipe, load: Load, teachers: Mapping[TeacherName, Found], *, device: str
) -> list[Part]:
    """What scoring takes: of teachers one after the other, the most that one of them does; vLLM's is its own."""
    plain: list[list[Part]] = []
    own: list[Part] = []
    for name, found in teachers.items():
        settings = recipe.all_teachers[name]
        if found.shape is None:
            continue
        if settings.scorer == "plain" and _uses(settings.device, device):
            plain.append(_scoring(found.shape, load, width=WIDTHS[settings.dtype]))
        if settings.scorer == "vllm":  # its weights are counted: they are nowhere else
            tokens = load.sequence_tokens + 1
            own += _in_vllm(recipe, settings, found, rows=SCORED_ROWS, tokens=tokens, phase="score")[1:]
    return max(plain, key=lambda parts: sum(part.bytes for part in parts), default=[]) + own


def _uses(teachers_device: str, device: str) -> bool:
    """Whether a teacher with this `device` takes of the run's device's memory."""
    return not (teachers_device == "cpu" and device == "cuda")


def _in_vllm(
    recipe: Recipe,
    settings: ModelSettings,
    model: Found,
    *,
    rows: int,
    tokens: int,
    phase: Literal["sample", "score"],
) -> list[Part]:
    """What vLLM holds on each GPU that it spans: always, or in this phase alone where it sleeps."""
    assert model.shape is not None, "asked only where it is known"
    width, when = WIDTHS[settings.dtype], phase if recipe.machine.vllm_sleeps else "always"
    blocks = rows * -(-tokens // BLOCK_TOKENS) + 1
    cut = recipe.machine.tensor_parallel
    of_token = 2 * model.shape.layers * heads_here(model.shape.kv_heads, cut) * model.shape.head_size * width
    return [
        Part(name="vLLM's weights", bytes=width * (model.parameters or 0) // cut, phase=when),
        Part(name="vLLM's KV cache", bytes=blocks * BLOCK_TOKENS * of_token, phase=when),
        Part(name="vLLM's workspace", bytes=workspace_bytes(cut), phase=when),
    ]


def _scoring(shape: Shape, load: Load, *, width: int) -> list[Part]:
    passing = load.micro_batch_tokens * (3 * shape.inner + 6 * shape.hidden) * width
    head = load.chunk_tokens * shape.rows * max(4, width) * HEAD_MATRICES[False]
    return [
        Part(name="forward pass of a micro-batch", bytes=passing, phase="score"),
        Part(name="logits of a chunk", bytes=head, phase="score"),
    ]


def _updating(recipe: Recipe, shape: Shape, load: Load, *, matrices: int, device: str) -> list[Part]:
    width = WIDTHS[recipe.student.dtype]
    layer = layer_bytes(shape, width=width)
    # computed again: the input of each layer, and one layer whole
    layers = shape.layers * width * shape.hidden + layer if recipe.machine.recompute_layers else shape.layers * layer
    kept = load.micro_batch_tokens * (layers + 3 * width * shape.hidden)
    passing = load.micro_batch_tokens * 4 * (shape.inner + shape.hidden) * width  # gradients of the layer at hand
    logits = load.chunk_tokens * shape.rows * max(4, width) * matrices
    parts = [
        Part(name="activations of a micro-batch", bytes=kept + passing, phase="update"),
        Part(name="logits of a chunk", bytes=logits, phase="update"),
    ]
    if recipe.lora is None and device == "cpu" and width < 4:
        # a chunk's product, and its float32 copy on the way; elsewhere it is added in place (`models/head.py`)
        size = shape.rows * shape.hidden * (width + 4)
        parts.append(Part(name="head's gradient of a chunk", bytes=size, phase="update"))
    return parts
