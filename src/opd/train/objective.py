"""What an objective is: settings, and one pure function from tensors to one value a token.

Shapes: B rollouts, T positions, N tokens of any of them, V vocabulary. There are two kinds. A `TokenObjective`
sees the log-probabilities of the tokens that were sampled. A `Divergence` sees, at each of those tokens, the
whole distribution of student and teacher; it has no sampling variance, and costs a teacher's head a token.

Neither mixes tokens, reads a file, clock or random number, or reduces: `update/updater.py` weighs, sums and divides,
once. That makes micro-batches and chunks exact by construction (faults E1, E2, E5).

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
from opd.train.update.batch import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentView:
    """The student at the batch's tokens."""

    logp_N: torch.Tensor  # nats, now, with gradient
    old_logp_N: torch.Tensor  # nats, before the step's first update, without gradient

    @property
    def ratio_N(self) -> torch.Tensor:
        """Probability now over probability before the step; 1 on the step's only update."""
        return torch.exp(self.logp_N - self.old_logp_N)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoss:
    """One value a token, with gradient, and whatever else is worth a mean over the trained tokens."""

    loss_N: torch.Tensor
    metrics_N: dict[str, torch.Tensor] = field(default_factory=dict)
    terms_N: dict[str, torch.Tensor] = field(default_factory=dict)  # with gradient, by the names in `Objective.terms`


class Objective(Settings):
    """What both kinds have: their settings, a name, and what a person should know about them."""

    needs_full_support: ClassVar[bool] = True
    """Whether rollouts must come from the whole softmax that is scored (no top_p, no top_k; faults E43)."""

    takes_reward: ClassVar[bool] = False
    """Whether a task reward changes anything; with any other objective it is refused."""

    has_ratio: ClassVar[bool] = False
    """Whether its loss has the ratio of now to before the step, which several updates of a step need."""

    terms: ClassVar[tuple[str, ...]] = ()
    """Names of the terms that its loss is the sum of, where their gradients are worth comparing."""

    @property
    def name(self) -> str:
        """The file's name."""
        return type(self).__module__.rpartition(".")[2]

    def notes(self) -> list[str]:
        """What these settings do that a person might not expect; said before the first step."""
        return []


class TokenObjective(Objective):
    """An objective of the sampled tokens. Subclasses define `__call__`."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        """One finite value for each trained token; nothing is asked of the others."""
        raise NotImplementedError


class Divergence(Objective):
    """An objective of the distributions at the sampled tokens. Subclasses define `__call__`.

    The tokens that were sampled decide only where the two are compared, so top_p and top_k may be used.
    """

    needs_full_support: ClassVar[bool] = False

    def __call__(self, student_logp_NV: torch.Tensor, teacher_logp_NV: torch.Tensor) -> torch.Tensor:
        """loss_N, nats: one finite value a token, from normalised log-probabilities; the student's have gradients."""
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
