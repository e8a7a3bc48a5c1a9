"""Low-rank adapters (LoRA): a few trained numbers beside each matrix, which stays as it was.

    y = W x + alpha / rank · B A x        A [rank, in] drawn at random, B [out, rank] zero at first

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021). peft puts the adapters into the model's own
layers, so sampler, update and packing run as they do without them; what is exported is W with the product added.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from pydantic import PositiveInt

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings

EVERY = "all-linear"


class LoraSettings(Settings):
    """Trains adapters in place of the student's weights; the section as a whole may be left out."""

    rank: PositiveInt = 16
    """Of the product that is added to each matrix."""
    alpha: PositiveInt = 32
    """The product counts alpha / rank times."""
    targets: tuple[str, ...] = ()
    """Ends of the names of the linear layers that get one, such as `q_proj`; empty: all but the head."""


def missing_library() -> str | None:
    """What to install, or None when it is there."""
    return None if find_spec("peft") else "lora needs peft: pip install 'opd[lora]'"


def attach(module: Any, settings: LoraSettings, *, seed: int) -> None:
    """The module's linear layers have adapters, which alone are trained; its outputs are what they were.

    Raises `AskedWrongly` for a target that no layer's name ends in.
    """
    from peft import LoraConfig, inject_adapter_in_model

    names = {name.rpartition(".")[2] for name, one in module.named_modules() if isinstance(one, torch.nn.Linear)}
    if unknown := sorted(set(settings.targets) - names):
        raise AskedWrongly(f"lora: no linear layer is called {unknown[0]}; there are: {', '.join(sorted(names))}")
    config = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules=list(settings.targets) or EVERY, lora_dropout=0.0
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, module)


def plain_weights(module: Any) -> dict[str, torch.Tensor]:
    """The state of the model as it would be without adapters, their products added in float32 or wider.

    The live tensors where there is no adapter, so that a tied weight is one tensor under two names.
    """
    deltas = dict(_deltas(module))
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in module.state_dict().items():
        if ".lora_" in name:
            continue
        layer, inside, rest = name.rpartition(".base_layer.")
        plain = f"{layer}.{rest}" if inside else name
        if inside and rest == "weight":
            wide = torch.promote_types(tensor.dtype, torch.float32)
            tensor = (tensor.to(wide) + deltas[layer].to(wide)).to(tensor.dtype)  # noqa: PLW2901
        weights[plain] = tensor
    return weights


def has_adapters(module: Any) -> bool:
    """Whether `attach` has been here."""
    return any(".lora_" in name for name, _ in module.named_parameters())


@torch.no_grad()
def _deltas(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The product of each layer that has one, scaled, by the name of the layer."""
    for name, layer in module.named_modules():
        if hasattr(layer, "get_delta_weight"):
            (adapter,) = layer.active_adapters
            yield name, layer.get_delta_weight(adapter)
