"""A student of which each rank loads its rows alone: no rank ever has its layers whole.

    config.json ──► a module without memory ──► its layers are FSDP2's ──► room for the own rows
    *.safetensors ── the own rows of each tensor ── in the dtype that computes ── as wide as masters ──► there

Embedding, last norm and head are whole on every rank, as they are in each pass.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from opd.models.load import LanguageModel, load_unfilled, own_tensors
from opd.models.packing import learn_packing
from opd.models.stored import Stored
from opd.train.ranks.layers import joined_layers, layers_of, taken
from opd.train.ranks.ranks import Ranks
from opd.train.ranks.sharded import mesh_of, own_rows


def load_by_rows(path: Path, *, dtype: str, device: str, ranks: Ranks) -> LanguageModel:
    """The model of a directory as `load_model` gives it, but that its layers are FSDP2's, and their rows shared out.

    Raises `AskedWrongly` as `load_unfilled` does, and for a model without layers in a row.
    """
    model, stored = load_unfilled(path, dtype=dtype)
    module = model.module
    place = torch.device(device)
    mesh = mesh_of(place, ranks)
    computes = module.dtype
    for layer in layers_of(module):
        taken(layer, computes=computes, mesh=mesh)
        layer._apply(lambda one: torch.empty_like(one, device=place) if one.is_meta else one.to(place))
    _give_room(module, place)
    _fill(module, stored, ranks)
    joined_layers(module.get_decoder(), mesh)
    with ranks.met_elsewhere():
        return replace(model, unpackable=learn_packing(module))


def _give_room(module: Any, device: torch.device) -> None:
    """What is in none of the layers has memory on the device; what is tied has it once."""
    made: dict[int, tuple[Any, Any]] = {}
    for part in module.modules():
        for name, one in part.named_parameters(recurse=False):
            if one.is_meta:
                _, room = made.setdefault(id(one), (one, torch.nn.Parameter(torch.empty_like(one, device=device))))
                setattr(part, name, room)
        for name, one in part.named_buffers(recurse=False):
            setattr(part, name, torch.empty_like(one, device=device) if one.is_meta else one.to(device))


@torch.no_grad()
def _fill(module: Any, stored: Stored, ranks: Ranks) -> None:
    """Each tensor, or this rank's rows of it, has the values that are stored, rounded to the dtype that computes."""
    for name, names in own_tensors(module).items():
        place = stored.place(names)
        assert place is not None, "load_unfilled has looked for it"
        tensor = module.get_parameter_or_buffer(name)
        if isinstance(tensor, DTensor):
            tensor.to_local().copy_(stored.rows(place, own_rows(len(tensor), ranks)).to(module.dtype))
        else:
            tensor.copy_(stored.tensor(place))
