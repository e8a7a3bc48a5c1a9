"""AdamW on the masters: what it remembers of each, and a step.

    CUDA, float32    one pass over memory, in which the model's own weights are written too (`adamw_kernel.py`)
    otherwise        torch's optimizer, and then the masters are rounded into the model

In either case it is torch's optimizer that holds what is remembered, under torch's names, so that a state that was
saved on one device goes on on the other. Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019).
"""

from importlib.util import find_spec

import torch

from opd.train.update.masters import MasterWeights


def goes_in_one_pass(masters: MasterWeights) -> bool:
    """Whether there is a kernel for these masters."""
    return find_spec("triton") is not None and all(
        master.is_cuda and master.dtype == torch.float32 for master in masters.parameters
    )


class AdamW:
    """Moves the masters of a module, and the module with them."""

    def __init__(
        self, masters: MasterWeights, *, betas: tuple[float, float], epsilon: float, weight_decay: float
    ) -> None:
        self._masters = masters
        self.memory = torch.optim.AdamW(
            masters.parameters, lr=0.0, betas=betas, eps=epsilon, weight_decay=weight_decay
        )

    def step(self, *, rate: float, scale: float) -> None:
        """The module has moved at this learning rate along `scale` times its gradients, which are gone."""
        if goes_in_one_pass(self._masters):
            self._in_one_pass(rate=rate, scale=scale)
            self._masters.spread()
        else:
            self._by_torch(rate=rate, scale=scale)
        self._masters.forget_gradients()

    @torch.no_grad()
    def _in_one_pass(self, *, rate: float, scale: float) -> None:
        from opd.train.update.adamw_kernel import move

        (group,) = self.memory.param_groups
        pairs = [(weight, master) for weight, master in self._masters.pairs if master.grad is not None]
        if not pairs:
            return
        memories = [self._memory_of(master) for _, master in pairs]
        steps = [memory["step"] for memory in memories]
        torch._foreach_add_(steps, 1)
        for (weight, master), memory, step in zip(pairs, memories, torch.stack(steps).tolist(), strict=True):
            assert master.grad is not None, "looked at above"
            move(
                master,
                memory["exp_avg"],
                memory["exp_avg_sq"],
                weight,
                gradient=master.grad,
                scale=scale,
                rate=rate,
                betas=group["betas"],
                epsilon=group["eps"],
                decay=group["weight_decay"],
                step=int(step),
            )

    def _by_torch(self, *, rate: float, scale: float) -> None:
        if scale != 1:
            gradients = [one.grad for one in self._masters.parameters if one.grad is not None]
            torch._foreach_mul_(gradients, scale)
        for group in self.memory.param_groups:
            group["lr"] = rate
        self.memory.step()
        self._masters.publish()

    def _memory_of(self, master: torch.Tensor) -> dict[str, torch.Tensor]:
        """As torch begins it."""
        memory: dict[str, torch.Tensor] = self.memory.state[master]
        if not memory:
            memory["step"] = torch.tensor(0.0)
            memory["exp_avg"], memory["exp_avg_sq"] = torch.zeros_like(master), torch.zeros_like(master)
        return memory
