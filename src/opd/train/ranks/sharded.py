"""Masters of which each rank has a share: some rows of every parameter, as `torch.chunk` cuts them.

    gradient of all rows, of this rank's rollouts ──sum over ranks, a share each──► gradient of the own rows
    AdamW on the own rows: masters and moments of a share
    own rows, rounded ──put together──► the parameter, whole again on every rank

Where the layers are FSDP2's (`layers.py`), they add up their gradients and come together themselves while passes are
made. Between updates they are whole in the module that samples, where there is one: who is sent the weights to sample
needs none, and they are whole nowhere (`loading.py`, `gathering.py`). What stands around them, embedding, last norm
and head, goes the way above.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import Shard as ByRow
from torch.nn import functional

from opd.train.ranks.gathering import Gathering
from opd.train.ranks.ranks import BUCKET_BYTES, Ranks, buckets
from opd.train.update.masters import gradient_norm

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class Share:
    """A parameter and what this rank has of it."""

    whole: torch.nn.Parameter | DTensor  # of the module that samples; of a layer that is whole nowhere, FSDP2's
    master: torch.Tensor  # the own rows, float32 or wider
    gradient: torch.Tensor | None = None  # of all rows, as wide as the master, while it is added up
    layers: DTensor | None = None  # FSDP2's parameter, where it is one of a layer


class ShardedMasters:
    """The masters of a module's trained parameters, a share of each; a tied one counts once, a frozen one not at all.

    `layers` is the module whose layers FSDP2 has taken, if any; everything else they have in common. It may be
    `module` itself, whose tensors are then to be had by a `gathering`.
    """

    def __init__(self, module: Any, *, ranks: Ranks, layers: Any = None, gathering: Gathering | None = None) -> None:
        self.ranks = ranks
        self._mesh = mesh_of(module.device, ranks)
        taken = {} if layers is None else dict(layers.named_parameters())
        self._shares = {
            name: self._share(whole, taken.get(name))
            for name, whole in module.named_parameters()
            if whole.requires_grad
        }
        self._gathering = gathering
        self._given: list[tuple[torch.UntypedStorage, int]] = []  # memory that the layers had, and its bytes

    @property
    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Each master with itself: `spread` writes into the module."""
        return [(master, master) for master in self.parameters]

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What belongs to the optimizer of this rank; gradients appear in their `grad`."""
        return [share.master for share in self._shares.values()]

    @property
    def named(self) -> dict[str, torch.Tensor]:
        """The masters by the names that the module gives their parameters."""
        return {name: share.master for name, share in self._shares.items()}

    @property
    def alike(self) -> list[torch.Tensor]:
        """The module's own weights, as far as they are whole: each rank has put them together by itself."""
        return [share.whole for share in self._shares.values() if share.whole is not share.layers]

    @property
    def kinds(self) -> dict[str, tuple[torch.Size, torch.dtype]]:
        """Shape, of all rows, and dtype of the master of each parameter."""
        return {name: (share.whole.shape, share.master.dtype) for name, share in self._shares.items()}

    @property
    def pass_together(self) -> bool:
        """Whether all ranks take part in each pass: FSDP2 brings its layers together in every one."""
        return any(share.layers is not None for share in self._shares.values())

    def gradient(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """Where the gradient of a parameter is added up, float32 or wider: zeros if there is none so far."""
        (share,) = (one for one in self._shares.values() if one.whole is parameter)
        return _gradient(share)

    def add_up(self) -> None:
        """The masters' `grad` is that of all ranks' rollouts, of the own rows; what has none anywhere has none."""
        for share in self._shares.values():
            if share.layers is not None and share.layers.grad is not None:
                share.master.grad = _local(share.layers.grad)
        around = self._around
        anywhere = self.ranks.everyone([share.gradient is not None for share in around])
        found = [share for share, *some in zip(around, *anywhere, strict=True) if any(some)]
        for some in _together(found):
            flat = _flat([_by_rank(_gradient(share), self.ranks.count) for share in some])
            for share in some:
                share.gradient = None
            own = self.ranks.share_of_sum(flat)
            for share, piece in zip(some, own.split([self._numbers(share) for share in some]), strict=True):
                share.master.grad = piece[: share.master.numel()].view_as(share.master)
        self.ranks.reached([share.whole for share in found])

    def norm(self) -> float:
        """L2 norm of all the gradients that have been added up, over all ranks."""
        own = float(gradient_norm(self.parameters))
        return math.sqrt(math.fsum(one * one for one in self.ranks.everyone(own)))

    def forget_gradients(self) -> None:
        """Nothing has been added up."""
        for share in self._shares.values():
            share.master.grad = share.gradient = None
            if share.layers is not None:
                share.layers.grad = None

    def publish(self) -> None:
        """The module computes with the masters' values from here on; layers that are FSDP2's do so anyway."""
        self._put_together(self._around)

    def spread(self) -> None:
        """The same: what was moved are the masters alone."""
        self.publish()

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Inside, layers that are FSDP2's take no memory but for their shares, and the module can't sample.

        An exception leaves them so: the run ends with it.
        """
        self._give_back()
        with self.ranks.met_elsewhere():
            yield
        self._take_back()

    def first(self, call: Callable[[], T]) -> T:
        """What the call gives at rank 0, which alone makes it, and may ask for what has to be gathered."""
        return self.ranks.first(call) if self._gathering is None else self._gathering.first(call)

    def placed(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The tensors of a state, those of a share as what they are: rows of a tensor that all ranks have together.

        They are named as in `train/saved/state.py`, and share their memory with what is given.
        """
        return {key: self._placed(tensor, key) for key, tensor in tensors.items()}

    def room_for(self, key: str, dtype: torch.dtype) -> torch.Tensor:
        """Room on the CPU for this rank's rows of a state's tensor."""
        shape = () if key.startswith("optimizer/step/") else self._shares[_name(key)].master.shape
        return torch.empty(shape, dtype=dtype)

    def _give_back(self) -> None:
        """The layers that are whole in one module and FSDP2's in another take no memory in the first."""
        rooms = {one.data_ptr(): one for one in (share.whole.untyped_storage() for share in self._twice)}
        self._given += [(room, room.nbytes()) for room in rooms.values() if room.nbytes()]
        for room in rooms.values():
            room.resize_(0)

    def _take_back(self) -> None:
        """They are what their masters are, wherever their memory is now."""
        if not self._given:
            return
        for room, size in self._given:
            room.resize_(size)
        self._given = []
        self._put_together(self._twice)

    @property
    def _twice(self) -> list[Share]:
        return [
            share for share in self._shares.values() if share.layers is not None and share.layers is not share.whole
        ]

    @property
    def _around(self) -> list[Share]:
        return [share for share in self._shares.values() if share.layers is None]

    def _share(self, whole: torch.nn.Parameter, taken: Any) -> Share:
        if isinstance(taken, DTensor):
            return Share(whole=whole, master=_local(taken).requires_grad_(), layers=taken)
        rows = whole.detach()[own_rows(len(whole), self.ranks)]
        share = Share(whole=whole, master=rows.to(_wide(whole.dtype), copy=True).requires_grad_())
        whole.register_post_accumulate_grad_hook(_mover(share))
        return share

    def _numbers(self, share: Share) -> int:
        """That each rank sends of a parameter: as many as the largest share has."""
        return -(-len(share.whole) // self.ranks.count) * math.prod(share.whole.shape[1:])

    @torch.no_grad()
    def _put_together(self, shares: Sequence[Share]) -> None:
        """These parameters are, on every rank, their masters' values."""
        for some in _together(shares):
            sizes = [self._numbers(share) for share in some]
            own = [
                functional.pad(share.master.to(share.whole.dtype).flatten(), (0, size - share.master.numel()))
                for share, size in zip(some, sizes, strict=True)
            ]
            flat = self.ranks.put_together(torch.cat(own)).view(self.ranks.count, -1)
            for share, piece in zip(some, flat.split(sizes, dim=1), strict=True):
                share.whole.copy_(piece.reshape(-1)[: share.whole.numel()].view_as(share.whole))
        self.ranks.reached([share.whole for share in shares])

    def _placed(self, tensor: torch.Tensor, key: str) -> torch.Tensor:
        if not tensor.dim():  # a count of steps, alike on all ranks
            return tensor
        shape = self._shares[_name(key)].whole.shape
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(tensor, self._mesh, [ByRow(0)], run_check=False, shape=shape, stride=stride)


def _name(key: str) -> str:
    """The parameter that a state's key is about."""
    room, _, rest = key.partition("/")
    return rest if room == "master" else rest.partition("/")[2]


def own_rows(rows: int, ranks: Ranks) -> slice:
    """Which of a tensor's rows this rank has; the last ranks may have fewer than the others, or none."""
    each = -(-rows // ranks.count)
    return slice(min(rows, each * ranks.rank), min(rows, each * (ranks.rank + 1)))


def mesh_of(device: torch.device, ranks: Ranks) -> DeviceMesh:
    """All ranks in a row, as torch names them."""
    return DeviceMesh(device.type, torch.arange(ranks.count))


def _together(shares: Sequence[Share]) -> Iterator[list[Share]]:
    """In order, those that travel together."""
    rest = iter(shares)
    for bucket in buckets([share.whole for share in shares], largest_bytes=BUCKET_BYTES):
        yield list(islice(rest, len(bucket)))


def _by_rank(tensor: torch.Tensor, ranks: int) -> torch.Tensor:
    """A line for each rank, with its rows and, so that all are equally long, zeros."""
    rows = tensor.flatten(1) if tensor.dim() > 1 else tensor[:, None]
    lacking = -len(rows) % ranks
    return (functional.pad(rows, (0, 0, 0, lacking)) if lacking else rows).reshape(ranks, -1)


def _flat(lines: Sequence[torch.Tensor]) -> torch.Tensor:
    """Rank by rank what each gets; one tensor goes as it lies."""
    return (lines[0] if len(lines) == 1 else torch.cat(list(lines), dim=1)).view(-1)


def _gradient(share: Share) -> torch.Tensor:
    if share.gradient is None:
        share.gradient = torch.zeros_like(share.whole, dtype=share.master.dtype)
    return share.gradient


def _mover(share: Share) -> Any:
    def move(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None, "the hook runs after a gradient has been accumulated"
        if share.gradient is None:
            share.gradient = parameter.grad.to(share.master.dtype)
        else:
            share.gradient.add_(parameter.grad)  # widened as it is read
        parameter.grad = None

    return move


def _local(tensor: Any) -> torch.Tensor:
    """This rank's rows of a DTensor, in its own memory."""
    rows: torch.Tensor = tensor.to_local().detach()
    return rows


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
