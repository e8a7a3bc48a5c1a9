"""A model whose forward pass is exact, in which order, and why another has none."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch

from opd.models.engine.persistent import fit
from opd.models.engine.persistent.build import NotBuilt, library
from opd.models.engine.persistent.cut import EXACT
from opd.models.engine.sampler import WINDOW
from opd.models.engine.shape import Shape
from opd.models.engine.shape import misfit as engine_misfit
from opd.models.exact.order import Order
from opd.models.load import LanguageModel
from opd.records.errors import AskedWrongly

LARGEST_HEAD = 128  # numbers: a stretch of keys has to fit into an SM, twice
SHARED_BYTES = 163 << 10  # that a program may have; Ampere's and Hopper's cards for data centres give so much


def exact_model(model: LanguageModel, *, persistent: bool | None = None, sequence_tokens: int = 1) -> LanguageModel:
    """The model with an exact forward pass over packed sequences; its module is changed, its parameters are not.

    `persistent`: whether the persistent kernel does the sampler's steps; null: where it can, for prompts that have so
    many tokens with their responses, at most. Raises `AskedWrongly` where sampler and trainer have no order of sums
    in common.
    """
    reason = misfit(model)
    if reason is None and persistent is not False:
        kernels = persistent_misfit(model) or fit.length_misfit(sequence_tokens, window=WINDOW["cuda"])
        if persistent and kernels is not None:
            reason = f"the persistent kernel can't run this model: {kernels}"
        persistent = kernels is None
    if reason is not None:
        raise AskedWrongly(f"{model.path}: machine.exact can't be had here: {reason}; set it to false")
    order = _order(persistent=bool(persistent))
    from opd.models.exact.layers import make_exact

    make_exact(model.module.get_decoder(), order)
    exact = replace(model, exact=order)
    if fault := order.trial(exact):
        raise AskedWrongly(f"{model.path}: machine.exact can't be had here: {fault}; set it to false")
    return exact


def misfit(model: LanguageModel) -> str | None:
    """Why a model has no exact forward pass here, in either order; None when it has one."""
    return next(_faults(model), None)


def _faults(model: LanguageModel) -> Iterator[str]:
    if any("lora" in name for name, _ in model.module.named_parameters()):
        yield "adapters are not among what it does"
    if reason := engine_misfit(model.module):
        yield f"the engine can't run this model: {reason}"
        return
    if model.module.dtype != torch.bfloat16:
        yield f"it computes in bfloat16, and the model in {str(model.module.dtype).removeprefix('torch.')}"
    if (size := Shape.of(model).head_size) > LARGEST_HEAD:
        yield f"heads have at most {LARGEST_HEAD} numbers, and these {size}"
    if not model.packs:
        yield f"its sequences can't stand end to end: {model.unpackable}"
    if model.device.type != "cuda":
        yield "there is no GPU"
    elif (bytes_there := _shared_bytes(model.device)) < SHARED_BYTES:
        yield f"its tiles take {SHARED_BYTES:,} bytes of an SM's shared memory, and this GPU gives {bytes_there:,}"
    if find_spec("triton") is None:
        yield "its kernels need Triton: pip install triton"


def _shared_bytes(device: torch.device) -> int:
    card: Any = torch.cuda.get_device_properties(device)  # torch's stubs leave the number out
    return int(card.shared_memory_per_block_optin)


def persistent_misfit(model: LanguageModel) -> str | None:
    """Why the order can't be the persistent kernel's; None when it can."""
    if reason := fit.misfit(model):
        return reason
    if fit.cut_of(model) != EXACT:
        return "a trainer has its order for Qwen2 at 1.5B alone"
    try:
        library()
    except NotBuilt as error:
        return str(error)
    return None


def _order(*, persistent: bool) -> Order:
    """Of the persistent kernel, or of the graphs; both need Triton, which a machine without a GPU need not have."""
    if persistent:
        from opd.models.exact.sliced.order import SLICED

        return SLICED
    from opd.models.exact.chained.order import CHAINED

    return CHAINED
