"""Master weights: what the optimizer moves, in float32 or wider whatever the model computes in.

At a learning rate of 1e-6 an AdamW step is far below the resolution of bf16: 1.9 % of N(0, 0.02) weights would
move (objectives, I9). So a bf16 model has float32 masters, its gradients are added up in float32, and after
each update the masters are rounded into it. A float32 model is its own master.

Here every rank has all of them; `ranks/sharded.py` has the masters of which each rank has a share.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch

from opd.train.ranks.gradients import add_up_gradients
from opd.train.ranks.ranks import ALONE, Ranks


class MasterWeights(Protocol):
    """What an update asks of the masters of a module's trained parameters, whoever has them."""

    @property
    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Each master with what is written as it moves: the module's own parameter, or the master itself."""

    @property
    def parameters(self) -> list[torch.Tensor]:
        """This rank's masters: what belongs to the optimizer."""

    @property
    def named(self) -> dict[str, torch.Tensor]:
        """The same by the names that the module gives their parameters."""

    @property
    def alike(self) -> list[torch.Tensor]:
        """Tensors that are the same on all ranks, bit by bit, if nothing went wrong."""

    @property
    def pass_together(self) -> bool:
        """Whether all ranks must make equally many passes."""

    def gradient(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """Where the gradient of a parameter is added up, float32 or wider: zeros if there is none so far."""

    def add_up(self) -> None:
        """The masters' `grad` is that of all ranks' rollouts."""

    def norm(self) -> float:
        """L2 norm of all the gradients that have been added up, over all ranks."""

    def forget_gradients(self) -> None:
        """Nothing has been added up."""

    def publish(self) -> None:
        """The module computes with the masters' values from here on."""

    def spread(self) -> None:
        """The same, where what `pairs` writes has been written already."""

    def learning(self) -> AbstractContextManager[None]:
        """Inside, passes are made and masters move; after it the module samples with their values."""


class Masters:
    """The masters of a module's trained parameters; a tied parameter counts once, a frozen one not at all."""

    def __init__(self, module: Any, *, ranks: Ranks = ALONE) -> None:
        named = {name: one for name, one in module.named_parameters() if one.requires_grad}
        self._pairs = [(parameter, _master(parameter)) for parameter in named.values()]
        self._names = list(named)
        self._ranks = ranks
        for parameter, master in self._pairs:
            if master is not parameter:
                parameter.register_post_accumulate_grad_hook(_mover(master))

    @property
    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Each parameter with its master; they are one where it is wide."""
        return list(self._pairs)

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What belongs to the optimizer; gradients appear in their `grad`."""
        return [master for _, master in self._pairs]

    @property
    def named(self) -> dict[str, torch.Tensor]:
        """The masters by the names that the module gives their parameters."""
        return dict(zip(self._names, self.parameters, strict=True))

    @property
    def alike(self) -> list[torch.Tensor]:
        """The masters: each rank moves all of its own."""
        return self.parameters

    @property
    def pass_together(self) -> bool:
        """They need not: a rank is alone until gradients are added up."""
        return False

    def gradient(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """Where the gradient of a parameter is added up, float32 or wider: zeros if there is none so far."""
        (master,) = (master for one, master in self._pairs if one is parameter)
        if master.grad is None:
            master.grad = torch.zeros_like(master)
        return master.grad

    def add_up(self) -> None:
        """The masters' `grad` is that of all ranks' rollouts."""
        add_up_gradients(self.parameters, self._ranks)

    def norm(self) -> float:
        """L2 norm of all the gradients that have been added up."""
        return float(gradient_norm(self.parameters))

    def forget_gradients(self) -> None:
        """Nothing has been added up."""
        for master in self.parameters:
            master.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """The module computes with the masters' values from here on."""
        for parameter, master in self._pairs:
            if master is not parameter:
                parameter.copy_(master)

    def spread(self) -> None:
        """Nothing is to be done: each rank has moved all of it."""

    def learning(self) -> AbstractContextManager[None]:
        """Nothing is to be done: the module is whole at all times."""
        return nullcontext()


def gradient_norm(masters: Sequence[torch.Tensor]) -> torch.Tensor:
    """L2 norm of what has been added up in these masters' `grad`."""
    return torch.nn.utils.get_total_norm([one.grad for one in masters if one.grad is not None])


def _master(parameter: torch.nn.Parameter) -> torch.Tensor:
    if parameter.dtype in {torch.float32, torch.float64}:
        return parameter
    return parameter.detach().float().requires_grad_(True)


def _mover(master: torch.Tensor) -> Any:
    def move(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None, "the hook runs after a gradient has been accumulated"
        if master.grad is None:
            master.grad = parameter.grad.float()
        else:
            master.grad.add_(parameter.grad)  # widened as it is read
        parameter.grad = None

    return move
