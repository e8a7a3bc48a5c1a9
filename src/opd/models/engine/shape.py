"""A decoder's sizes, and whether the engine can run it.

It runs decoders that are built like Qwen2, Qwen3 and Llama: grouped heads, rotary positions, a gated MLP with SiLU,
norms by the root of the mean square, no bias but that of q, k and v. What is looked at are the modules, not only
the configuration: an adapter, a quantised matrix or a bias where none should be shows there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from opd.models.load import LanguageModel

FAMILIES = ("qwen2", "qwen3", "llama")
ROPE_TYPES = ("default", "linear", "llama3", "yarn")  # frequencies that do not change with a sequence's length
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a decoder that the engine can run."""

    layers: int
    hidden: int
    inner: int  # of the MLP
    heads: int  # of queries
    key_heads: int
    head_size: int
    epsilon: float  # of the norms
    scale: float  # of the attention's scores
    vocabulary: int  # ids that can be drawn: the tokenizer's; rows of the head beyond them are never read
    context_tokens: int  # longest sequence that the positions allow

    @classmethod
    def of(cls, model: LanguageModel) -> Self:
        """The shape of a model; `ValueError` for one that is a misfit."""
        if reason := misfit(model.module):
            raise ValueError(reason)
        config, attention = model.module.config, model.module.model.layers[0].self_attn
        return cls(
            layers=len(model.module.model.layers),
            hidden=config.hidden_size,
            inner=config.intermediate_size,
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_size=attention.head_dim,
            epsilon=config.rms_norm_eps,
            scale=float(attention.scaling),
            vocabulary=model.vocabulary,
            context_tokens=model.context_tokens,
        )

    @property
    def token_numbers(self) -> int:
        """Numbers that the cache keeps of one token."""
        return 2 * self.layers * self.key_heads * self.head_size


def misfit(module: Any) -> str | None:
    """Why the engine can't run transformers' model; None when it can."""
    return next(_faults(module), None)


def _faults(module: Any) -> Iterator[str]:
    config = getattr(module, "config", None)
    family = getattr(config, "model_type", type(module).__name__)
    if family not in FAMILIES or not hasattr(getattr(module, "model", None), "layers"):
        yield f"it runs {', '.join(FAMILIES)}, not {family}"
        return
    if module.dtype not in DTYPES:
        yield f"its weights are {module.dtype}"
    yield from _faults_of_config(config)
    rope = getattr(module.model.rotary_emb, "rope_type", None)
    if rope not in ROPE_TYPES:
        yield f"its positions are scaled by {rope!r}, not one of {', '.join(ROPE_TYPES)}"
    for name, matrix in _matrices(module):
        if type(matrix) is not nn.Linear:
            library = type(matrix).__module__.partition(".")[0]
            yield f"its {name} is {library}'s {type(matrix).__name__}, not a plain matrix"
        elif "bias" in dict(matrix.named_parameters()) and not name.startswith(("q_", "k_", "v_")):
            yield f"its {name} has a bias"


def _faults_of_config(config: Any) -> Iterator[str]:
    if config.hidden_act != "silu":
        yield f"its MLP has {config.hidden_act}, not silu"
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        yield f"it has layers with {', '.join(sorted(kinds))}"


def _matrices(module: Any) -> Iterator[tuple[str, Any]]:
    yield "head", module.get_output_embeddings()
    for layer in module.model.layers:
        for part, names in ((layer.self_attn, "qkvo"), (layer.mlp, ("gate", "up", "down"))):
            for name in names:
                yield f"{name}_proj", getattr(part, f"{name}_proj")
