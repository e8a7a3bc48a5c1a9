"""Tensors that rank 0 has read from a file, handed to the others: only rank 0 need see the run's folder."""

from collections.abc import Callable

import torch

from opd.train.ranks.ranks import Ranks

Tensors = dict[str, torch.Tensor]


def handed(read: Callable[[], Tensors], ranks: Ranks) -> Tensors:
    """What `read` gives at rank 0, on every rank, on the CPU; one tensor travels at a time."""
    tensors = read() if ranks.writes else {}
    sizes = ranks.told({name: (one.shape, one.dtype) for name, one in tensors.items()})
    if not ranks.writes:
        tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in sizes.items()}
    ranks.spread([tensors[name] for name in sizes])
    return tensors
