"""How many bytes of tensors a process holds: counted by their storages at every operation, and not by a clock."""

import weakref
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):
    """Inside, `peak_bytes` is the most that was held at once in tensors that an operation gave or was given."""

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = 0
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for one in tree_leaves((args, kwargs, found)):
            if isinstance(one, torch.Tensor):
                here = one.to_local() if isinstance(one, DTensor) else one
                storage = here.untyped_storage()
                self._storages[storage._cdata] = weakref.ref(storage)
        self.peak_bytes = max(self.peak_bytes, self.bytes)
        return found

    @property
    def bytes(self) -> int:
        """That are held now; what has no memory of its own (`meta`) holds none."""
        alive = {key: storage for key, one in self._storages.items() if (storage := one()) is not None}
        self._storages = {key: self._storages[key] for key in alive}
        return sum(one.nbytes() for one in alive.values() if one.device.type != "meta")
