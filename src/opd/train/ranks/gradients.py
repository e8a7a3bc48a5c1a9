"""The gradients of all ranks, added up: the one reduction of an update.

Each rank's are of its own rollouts, divided already by the trained tokens of all ranks; so their sum is the gradient
of the whole step, and not a mean of means (faults E4).
"""

from collections.abc import Sequence

import torch

from opd.train.ranks.ranks import Ranks


def add_up_gradients(parameters: Sequence[torch.Tensor], ranks: Ranks) -> None:
    """Each parameter's `grad` is the sum over all ranks; one that has none anywhere still has none."""
    if ranks.count == 1:
        return
    here = [one.grad is not None for one in parameters]
    anywhere = [any(some) for some in zip(*ranks.everyone(here), strict=True)]
    found = []
    for parameter, needed in zip(parameters, anywhere, strict=True):
        if needed:
            if parameter.grad is None:  # this rank had nothing to learn from
                parameter.grad = torch.zeros_like(parameter)
            found.append(parameter.grad)
    ranks.add_up(found)


def fingerprint(parameters: Sequence[torch.Tensor]) -> int:
    """A number that differs where one bit of one parameter does: the sum of all of them, read as integers."""
    sums = [
        one.detach().contiguous().view(_INTEGERS[one.element_size()]).sum(dtype=torch.int64) for one in parameters
    ]
    return int(torch.stack(sums).sum()) if sums else 0


_INTEGERS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
