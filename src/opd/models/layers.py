"""How a decoder's layers are run: compiled, or computed again in the backward pass.

Both act on the layers that stand in a row in transformers' decoders (`decoder.layers`), one at a time, so that one
compilation serves them all, and a layer that is computed again keeps only what it was given.
"""

import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from opd.records.errors import AskedWrongly


def missing_compiler(device: str) -> str | None:
    """What `torch.compile` lacks on this machine, and what to do; None when it has all that it needs.

    For a CPU it writes C++, for a GPU Triton, which compiles its launchers as C.
    """
    if device == "cuda" and find_spec("triton") is None:
        return "machine.compile needs triton: pip install triton, or set machine.compile = false"
    variable, names = ("CC", ("gcc", "clang")) if device == "cuda" else ("CXX", ("g++", "clang++"))
    named = os.environ.get(variable)
    if any(map(shutil.which, [named] if named else names)):
        return None
    sought = f"{variable} = {named}" if named else " nor ".join(names)
    return (
        f"machine.compile needs a compiler, and there is {'no ' if named else 'neither '}{sought} on the PATH: "
        "install one, or set machine.compile = false"
    )


def compile_layers(module: Any) -> None:
    """Each layer is compiled when it is first called, for rows of any length. The plain sampler goes without."""
    for layer in _layers(module, setting="compile"):
        layer.forward = torch.compile(layer.forward, dynamic=True)


def recompute_layers(module: Any) -> None:
    """With gradients, a layer's forward pass keeps its input alone and runs again in the backward pass.

    Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016).
    """
    for layer in _layers(module, setting="recompute_layers"):
        layer.forward = _recomputed(layer.forward)


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def twice(*given: Any, **named: Any) -> Any:
        if torch.is_grad_enabled():
            return checkpoint(forward, *given, use_reentrant=False, **named)
        return forward(*given, **named)

    return twice


def _layers(module: Any, *, setting: str) -> list[Any]:
    layers = getattr(module.get_decoder(), "layers", None)
    if layers is None:
        raise AskedWrongly(f"machine.{setting}: {type(module).__name__} has no layers in a row; set it to false")
    return list(layers)
