"""What an objective is: settings, and one pure function from tensors to one value a token.

Shapes: B rollouts, T positions. An objective sees the student's log-probabilities (with gradient) and what is
known of the tokens. It never mixes tokens, reads no file, clock or random number, and does not reduce:
`update.py` masks, sums and divides, once. That makes micro-batching exact by construction (faults E1, E2, E5).

`train/objectives/<name>.py` with `OBJECTIVE = TheClass` *is* the objective `<name>`.
"""

import importlib
import pkgutil
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings
from opd.train import objectives
from opd.train.batch import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentView:
    """The student at the batch's tokens."""

    logp_BT: torch.Tensor  # nats, now, with gradient
    old_logp_BT: torch.Tensor  # nats, before the step's first update, without gradient

    @property
    def ratio_BT(self) -> torch.Tensor:
        """Probability now over probability before the step; 1 on the step's only update."""
        return torch.exp(self.logp_BT - self.old_logp_BT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoss:
    """One value a token, with gradient, and whatever else is worth a mean over the trained tokens."""

    loss_BT: torch.Tensor
    metrics_BT: dict[str, torch.Tensor] = field(default_factory=dict)


class Objective(Settings):
    """The base of every objective: its settings. Subclasses define `__call__`."""

    needs_full_support: ClassVar[bool] = True
    """Whether rollouts must come from the whole softmax that is scored (no top_p, no top_k; faults E43)."""

    @property
    def name(self) -> str:
        """The file's name."""
        return type(self).__module__.rpartition(".")[2]

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        """One finite value for each trained token; nothing is asked of the others."""
        raise NotImplementedError


def names() -> list[str]:
    """The objectives there are: the files of the folder."""
    return sorted(module.name for module in pkgutil.iter_modules(objectives.__path__))


def find(name: str) -> type[Objective]:
    """The objective of that name; an unknown one is answered with those there are."""
    if name not in names():
        raise AskedWrongly(f"no objective {name!r}; there are: {', '.join(names())}")
    found: type[Objective] = importlib.import_module(f"{objectives.__name__}.{name}").OBJECTIVE
    return found
