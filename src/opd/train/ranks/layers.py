"""A student whose layers are FSDP2's: each rank has some rows of every parameter, and a layer is whole while it runs.

    embedding ─► layer ─► layer ─► … ─► norm ─► head        forward and backward: a layer's rows are gathered as it
      shared     FSDP2    FSDP2         shared  shared      comes to its turn, and go after it

Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel" (2023). Rows are gathered in the dtype
that the student computes in; kept, and added up, in float32 or wider.
"""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from opd.models.load import LanguageModel
from opd.records.errors import AskedWrongly
from opd.train.ranks.ranks import Ranks
from opd.train.ranks.sharded import mesh_of


def with_sharded_layers(student: LanguageModel, ranks: Ranks) -> LanguageModel:
    """The student, to learn with: its layers are FSDP2's copies, and all else is shared with the one that is given.

    The layers of the one that is given have memory of their own from here on, which can be given back and taken anew.
    Raises `AskedWrongly` for one without layers in a row.
    """
    module = student.module
    layers = layers_of(module)
    for parameter in layers.parameters():
        parameter.data = parameter.detach().clone()
    mesh = mesh_of(student.device, ranks)
    copies = (copy.deepcopy(layer, {id(module.config): module.config}) for layer in layers)
    twin = _beside(
        module, layers, torch.nn.ModuleList([taken(one, computes=module.dtype, mesh=mesh) for one in copies])
    )
    joined_layers(twin.get_decoder(), mesh)
    return replace(student, module=twin)


def layers_of(module: Any) -> Any:
    """The layers that stand in a row in a module; `AskedWrongly` where there are none."""
    layers = getattr(module.get_decoder(), "layers", None)
    if layers is None:
        raise AskedWrongly(
            f'machine.shard = "full": {type(module).__name__} has no layers in a row; take "optimizer"'
        )
    return layers


def taken(layer: Any, *, computes: torch.dtype, mesh: DeviceMesh) -> Any:
    """The layer, which is FSDP2's from here on: rows in float32 or wider, whole in the dtype that computes."""
    wide = torch.promote_types(computes, torch.float32)
    policy = MixedPrecisionPolicy(param_dtype=computes, reduce_dtype=wide, cast_forward_inputs=False)
    ours: FSDPModule = fully_shard(layer.to(wide), mesh=mesh, mp_policy=policy)
    ours.set_gradient_divide_factor(1.0)  # the loss is divided already by the tokens of all ranks
    ours.set_force_sum_reduction_for_comms(True)
    return ours


def joined_layers(decoder: Any, mesh: DeviceMesh) -> None:
    """The decoder's layers find each other through it; it keeps nothing itself."""
    shared = {parameter for parameter in decoder.parameters() if not isinstance(parameter, DTensor)}
    fully_shard(decoder, mesh=mesh, ignored_params=shared)


def _beside(module: Any, layers: Any, taken: Any) -> Any:
    """A module that has everything in common with the one that is given but for its layers."""
    same: dict[int, Any] = {id(module.config): module.config, id(layers): taken}
    same |= {id(one): one for one in (*module.parameters(), *module.buffers())}
    same |= {id(one): one for one in module.modules() if all(part is not layers for part in one.modules())}
    return copy.deepcopy(module, same)
