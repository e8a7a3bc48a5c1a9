"""The decoder's weights as a step reads them: q, k and v in one matrix, gate and up in another, not one byte twice.

    q_proj.weight ─┐
    k_proj.weight ─┼─ rows of one tensor ──► qkv.weight_EH     an update writes into the parameters, that is,
    v_proj.weight ─┘                                           into the tensor that the engine reads
    gate_proj.weight ┐
    up_proj.weight  ─┴─ rows of one tensor ──► gate_up_2IH

The parameters stay the module's own, under their names, with their values; only their memory is laid out anew, once.
Everything else (embedding, head, norms, biases of one matrix) is the parameter itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from opd.models.load import LanguageModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Qkv:
    """What makes queries, keys and values of a layer. E rows: all query heads, all key heads, all value heads."""

    weight_EH: torch.Tensor
    bias_E: torch.Tensor | None
    q_norm_D: torch.Tensor | None
    k_norm_D: torch.Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One decoder layer. A: columns of the output projection; I inner."""

    norm_H: torch.Tensor  # before attention
    qkv: Qkv
    out_HA: torch.Tensor
    mlp_norm_H: torch.Tensor  # between attention and MLP
    gate_up_2IH: torch.Tensor
    down_HI: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A decoder. V: the tokenizer's ids; R: rows of the embedding."""

    embedding_RH: torch.Tensor
    layers: tuple[Layer, ...]
    norm_H: torch.Tensor
    head_VH: torch.Tensor
    addresses: tuple[int, ...]  # of the model's parameters, once they share their memory

    @classmethod
    def of(cls, model: LanguageModel) -> Self:
        """The weights of a model that the engine can run; its parameters share their memory from here on."""
        decoder = model.module.model
        layers = tuple(map(_layer, decoder.layers))
        return cls(
            embedding_RH=decoder.embed_tokens.weight.detach(),
            layers=layers,
            norm_H=decoder.norm.weight.detach(),
            head_VH=model.module.get_output_embeddings().weight.detach()[: model.vocabulary],
            addresses=_addresses(model),
        )

    def follows(self, model: LanguageModel) -> bool:
        """Whether the model's parameters are still the memory that is read here: someone may have put others in."""
        return self.addresses == _addresses(model)


def rotation(rotary: Any, positions: int, *, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """(cos_LD, sin_LD) of the model's own frequencies, in float32, or in float64 with the same values."""
    frequency = rotary.inv_freq.float()
    angle = torch.arange(positions, dtype=torch.float32, device=frequency.device).unsqueeze(1) * frequency
    cos, sin = angle.cos() * rotary.attention_scaling, angle.sin() * rotary.attention_scaling
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return torch.cat([cos, cos], dim=-1).to(wide), torch.cat([-sin, sin], dim=-1).to(wide)


def joined(parameters: Sequence[torch.nn.Parameter]) -> torch.Tensor:
    """One tensor with the rows of all of them, whose memory they share; laid out anew where they lie apart."""
    first = parameters[0]
    rows = sum(len(parameter) for parameter in parameters)
    if not _lie_together(parameters):
        together = torch.cat([parameter.detach() for parameter in parameters])
        parts = together.split([len(parameter) for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.data = part
    return first.detach().as_strided((rows, *first.shape[1:]), first.stride(), first.storage_offset())


def _lie_together(parameters: Sequence[torch.nn.Parameter]) -> bool:
    storage, end = parameters[0].untyped_storage().data_ptr(), parameters[0].data_ptr()
    for parameter in parameters:
        if not parameter.is_contiguous() or parameter.data_ptr() != end:
            return False
        if parameter.untyped_storage().data_ptr() != storage:  # neighbours by chance can't be one tensor
            return False
        end += parameter.nbytes
    return True


def _addresses(model: LanguageModel) -> tuple[int, ...]:
    return tuple(parameter.data_ptr() for parameter in model.module.parameters())


def _layer(module: Any) -> Layer:
    attention, mlp = module.self_attn, module.mlp
    qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
    has_bias, has_norms = attention.q_proj.bias is not None, hasattr(attention, "q_norm")
    return Layer(
        norm_H=module.input_layernorm.weight.detach(),
        qkv=Qkv(
            weight_EH=joined([one.weight for one in qkv]),
            bias_E=joined([one.bias for one in qkv]) if has_bias else None,
            q_norm_D=attention.q_norm.weight.detach() if has_norms else None,
            k_norm_D=attention.k_norm.weight.detach() if has_norms else None,
        ),
        out_HA=attention.o_proj.weight.detach(),
        mlp_norm_H=module.post_attention_layernorm.weight.detach(),
        gate_up_2IH=joined([mlp.gate_proj.weight, mlp.up_proj.weight]),
        down_HI=mlp.down_proj.weight.detach(),
    )
