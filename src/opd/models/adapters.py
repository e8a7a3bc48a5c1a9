"""Low-rank adapters (LoRA): a few trained numbers beside each matrix, which stays as it was.

    y = W x + alpha / rank · B A x        A [rank, in] drawn at random, B [out, rank] zero at first

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021). peft puts the adapters into the model's own
layers, so sampler, update and packing run as they do without them; what is exported is W with the product added.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated, Any

import torch
from pydantic import Field

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings

EVERY = "all-linear"


class LoraSettings(Settings):
    """Trains adapters in place of the student's weights; the section as a whole may be left out."""

    rank: Annotated[int, Field(gt=0, le=4_096)] = 16
    """Of the product that is added to each matrix; beyond the matrix's own it adds nothing."""
    alpha: Annotated[int, Field(gt=0, le=65_536)] = 32
    """The product counts alpha / rank times."""
    targets: tuple[str, ...] = ()
    """Ends of the names of the linear layers that get one, such as `q_proj`; empty: all but the head."""


def missing_library() -> str | None:
    """What to install, or None when it is there."""
    return None if find_spec("peft") else "lora needs peft: pip install 'opd[lora]'"


def attach(module: Any, settings: LoraSettings, *, seed: int) -> None:
    """The module's linear layers have adapters, which alone are trained; its outputs are what they were.

    Raises `AskedWrongly` as `check_targets` does.
    """
    from peft import LoraConfig, inject_adapter_in_model

    check_targets(module, settings)
    config = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules=list(settings.targets) or EVERY, lora_dropout=0.0
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, module)


def check_targets(module: Any, settings: LoraSettings) -> None:
    """Nothing, when each target is a linear layer that can have an adapter; else `AskedWrongly`."""
    linear = {name: one for name, one in module.named_modules() if isinstance(one, torch.nn.Linear)}
    names = {name.rpartition(".")[2] for name in linear}
    if unknown := sorted(set(settings.targets) - names):
        raise AskedWrongly(f"lora: no linear layer is called {unknown[0]}; there are: {', '.join(sorted(names))}")
    embedding = module.get_input_embeddings().weight
    for name, one in linear.items():
        end = name.rpartition(".")[2]
        if end in settings.targets and one.weight is embedding:
            raise AskedWrongly(
                f"lora.targets names {end}, which is the embedding too (tie_word_embeddings): an adapter would move "
                "the one and not the other, and no checkpoint can hold both; leave it out"
            )


def plain_weights(module: Any) -> dict[str, torch.Tensor]:
    """The state of the model as it would be without adapters, by the names that it would have.

    Without adapters they are the live tensors. With them each matrix has its product added, and all are float32 or
    wider: beside a bfloat16 matrix most of a small product is below half a unit in the last place, and rounding the
    sum would lose it. A narrower tensor is widened on the CPU. A tied weight is one tensor under two names.
    """
    if not has_adapters(module):
        return dict(module.state_dict())
    deltas = dict(_deltas(module))
    weights: dict[str, torch.Tensor] = {}
    widened: dict[tuple[int, torch.Size], torch.Tensor] = {}
    for name, tensor in module.state_dict().items():
        if ".lora_" in name:
            continue
        layer, inside, rest = name.rpartition(".base_layer.")
        if inside and rest == "weight":
            delta = deltas[layer]
            weights[f"{layer}.weight"] = _wide(tensor.to(delta.dtype) + delta, narrow=tensor.dtype)
        else:
            place = (tensor.data_ptr(), tensor.shape)
            wide = widened.setdefault(place, _wide(tensor, narrow=tensor.dtype))
            weights[f"{layer}.{rest}" if inside else name] = wide
    return weights


def has_adapters(module: Any) -> bool:
    """Whether `attach` has been here."""
    return any(".lora_" in name for name, _ in module.named_parameters())


@torch.no_grad()
def _deltas(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The product of each layer that has one, scaled, in float32 or wider, by the name of the layer.

    peft's own `get_delta_weight` rounds it to the dtype of the adapters.
    """
    for name, layer in module.named_modules():
        if hasattr(layer, "get_delta_weight"):
            (adapter,) = layer.active_adapters
            up, down = (_floating(one[adapter].weight) for one in (layer.lora_B, layer.lora_A))
            delta = layer.scaling[adapter] * (up @ down)
            yield name, delta.t() if layer.fan_in_fan_out else delta


def _wide(tensor: torch.Tensor, *, narrow: torch.dtype) -> torch.Tensor:
    """The tensor as it is stored: on the CPU where the model has it in a narrower dtype."""
    wide = _floating(tensor.detach())
    return wide if wide.dtype == narrow else wide.cpu()


def _floating(tensor: torch.Tensor) -> torch.Tensor:
    """In float32 or wider; what holds no floating point numbers as it is."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32)) if tensor.is_floating_point() else tensor
