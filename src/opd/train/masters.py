"""Master weights: what the optimizer moves, in float32 or wider whatever the model computes in.

At a learning rate of 1e-6 an AdamW step is far below the resolution of bf16: 1.9 % of N(0, 0.02) weights would
move (objectives, I9). So a bf16 model has float32 masters, its gradients are added up in float32, and after
each update the masters are rounded into it. A float32 model is its own master.
"""

from typing import Any

import torch


class Masters:
    """The masters of a module's trained parameters; a tied parameter counts once, a frozen one not at all."""

    def __init__(self, module: Any) -> None:
        named = {name: one for name, one in module.named_parameters() if one.requires_grad}
        self._pairs = [(parameter, _master(parameter)) for parameter in named.values()]
        self._names = list(named)
        for parameter, master in self._pairs:
            if master is not parameter:
                parameter.register_post_accumulate_grad_hook(_mover(master))

    @property
    def pairs(self) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        """Each parameter with its master; they are one where it is wide."""
        return self._pairs

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What belongs to the optimizer; gradients appear in their `grad`."""
        return [master for _, master in self._pairs]

    @property
    def named(self) -> dict[str, torch.Tensor]:
        """The masters by the names that the module gives their parameters."""
        return dict(zip(self._names, self.parameters, strict=True))

    def gradient(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """Where the gradient of a parameter is added up, float32 or wider: zeros if there is none so far."""
        (master,) = (master for one, master in self._pairs if one is parameter)
        if master.grad is None:
            master.grad = torch.zeros_like(master)
        return master.grad

    @torch.no_grad()
    def publish(self) -> None:
        """The module computes with the masters' values from here on."""
        for parameter, master in self._pairs:
            if master is not parameter:
                parameter.copy_(master)


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
