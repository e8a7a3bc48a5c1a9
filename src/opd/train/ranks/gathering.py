"""Tensors of which each rank has rows, whole at rank 0 as it asks for them: one at a time, so that nobody has all.

    rank 0     first(call) ── call asks for "a" ──► a, whole, on its CPU ── …for "b" ──► b ── call has ended
    others     first(call) ──── their rows of a ──────────────────────── their rows of b ──── what rank 0 got

How often rank 0 asks, and for what, is its own affair: a write may fail and be tried again.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.distributed.tensor import DTensor
from torch.nn import functional

from opd.models.load import own_tensors
from opd.train.ranks.ranks import Ranks

T = TypeVar("T")


class Gathering:
    """The stored tensors of a module whose layers are FSDP2's, in the dtype that it computes in."""

    def __init__(self, module: Any, ranks: Ranks) -> None:
        self._tensors = {name: module.get_parameter_or_buffer(name) for name in own_tensors(module)}
        self._dtype = module.dtype
        self._ranks = ranks

    def first(self, call: Callable[[], T]) -> T:
        """What the call gives at rank 0, which alone makes it, and may ask for a `tensor`; as `Ranks.first`."""

        def asking() -> T:
            try:
                return call()
            finally:
                self._ask(None)

        if not self._ranks.writes:
            while (name := self._ask(None)) is not None:
                self._whole(name)
        return self._ranks.first(asking)

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor of this name on the CPU: asked for at rank 0, inside `first`."""
        if isinstance(self._tensors[name], DTensor):
            self._ask(name)
        return self._whole(name).cpu()

    def _ask(self, name: str | None) -> str | None:
        """What rank 0 asks for now; None: nothing any more."""
        return self._ranks.told(name)

    @torch.no_grad()
    def _whole(self, name: str) -> torch.Tensor:
        tensor = self._tensors[name]
        if not isinstance(tensor, DTensor):
            here: torch.Tensor = tensor.detach()
            return here
        rows = tensor.to_local().to(self._dtype).flatten()
        each = -(-tensor.shape[0] // self._ranks.count) * math.prod(tensor.shape[1:])  # of the largest share
        flat = self._ranks.put_together(functional.pad(rows, (0, each - len(rows))))
        self._ranks.reached([flat])
        return flat[: tensor.numel()].view(tensor.shape)
