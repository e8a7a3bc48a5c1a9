"""One optimizer step: the only place that masks, sums and divides.

    trained tokens of the whole step, counted first
    for each micro-batch:  log-probabilities → objective → masked sum / trained tokens → backward
    finite? → clip → AdamW on the masters → masters into the model

The divisor is fixed before the first backward, so how the step is cut into micro-batches changes nothing
(faults E1 to E5).
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from opd.models.load import LanguageModel
from opd.models.logprobs import HEAD_CHUNK_TOKENS, token_logp
from opd.models.sequences import micro_batches
from opd.records.errors import AnswerIsNo
from opd.records.metrics import Gap
from opd.records.rollouts import ScoredRollout
from opd.records.settings import Settings
from opd.train.batch import Batch, collate, masked_sum
from opd.train.masters import Masters
from opd.train.objective import Objective, StudentView, TokenLoss

Beta = Annotated[float, Field(ge=0, lt=1)]


class OptimizerSettings(Settings):
    """AdamW on the master weights of the whole student."""

    lr: Annotated[float, Field(gt=0, le=1)]
    """Learning rate after the warm-up; constant."""
    warmup_steps: NonNegativeInt = 0
    """The rate rises linearly over this many steps."""
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """Decay of AdamW's two moments."""
    epsilon: PositiveFloat = 1e-8
    """AdamW's."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled, as in AdamW."""
    largest_gradient_norm: PositiveFloat = 1.0
    """L2; a larger gradient is scaled down to it."""

    def rate(self, step: int) -> float:
        """Learning rate of a step (1 for the first)."""
        return self.lr * min(1.0, step / self.warmup_steps) if self.warmup_steps else self.lr


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStats:
    """What one update came to; means are over the trained tokens of the step."""

    loss: float
    kl: float
    surprise: float
    gap: Gap
    gradient_norm: float
    learning_rate: float
    trained_tokens: int
    objective: dict[str, float]


class Updater:
    """Moves a student by an objective, one step at a time."""

    def __init__(
        self,
        student: LanguageModel,
        objective: Objective,
        settings: OptimizerSettings,
        *,
        temperature: float = 1.0,
        largest_tokens: int = 16_384,
        chunk_tokens: int = HEAD_CHUNK_TOKENS,
    ) -> None:
        self._student = student
        self._objective = objective
        self._settings = settings
        self._temperature = temperature
        self._largest_tokens = largest_tokens
        self._chunk_tokens = chunk_tokens
        self._masters = Masters(student.module)
        self._optimizer = torch.optim.AdamW(
            self._masters.parameters,
            lr=settings.lr,
            betas=settings.betas,
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
            fused=student.device.type == "cuda",
        )

    def update(self, scored: Sequence[ScoredRollout], *, step: int) -> UpdateStats:
        """The student has moved by one step; what that step was.

        Raises `AnswerIsNo`, with the student as it was, when a score, a loss or a gradient is not finite.
        """
        _check_scores(scored)
        self._optimizer.zero_grad(set_to_none=True)  # a step that was refused half-way left some behind
        trained_tokens = sum(len(one.rollout.token_ids) for one in scored)
        means = _Means(trained_tokens=trained_tokens)
        groups = micro_batches([one.rollout for one in scored], largest_tokens=self._largest_tokens)
        for group in groups:
            self._accumulate([scored[index] for index in group], means)
        gradient_norm = self._move(rate := self._settings.rate(step))
        return means.stats(gradient_norm=gradient_norm, learning_rate=rate)

    def _accumulate(self, scored: Sequence[ScoredRollout], means: "_Means") -> None:
        dtype = torch.float64 if self._student.module.dtype == torch.float64 else torch.float32
        batch = collate(scored, device=self._student.device, dtype=dtype)
        logp_BT = token_logp(
            self._student,
            batch.ids_BT,
            batch.keep_BT,
            temperature=self._temperature,
            chunk_tokens=self._chunk_tokens,
        )
        # the step's only update: the policy before it is the policy now, and no second forward pass is needed
        student = StudentView(logp_BT=logp_BT, old_logp_BT=logp_BT.detach())
        token_loss = self._objective(student, batch)
        _check_finite(token_loss, batch, scored)
        loss = masked_sum(token_loss.loss_BT, batch.keep_BT) / means.trained_tokens
        loss.backward()
        means.add(logp_BT.detach(), token_loss, batch)

    def _move(self, rate: float) -> float:
        norm = torch.nn.utils.clip_grad_norm_(self._masters.parameters, self._settings.largest_gradient_norm)
        if not math.isfinite(gradient_norm := float(norm)):
            self._optimizer.zero_grad(set_to_none=True)
            raise AnswerIsNo(f"the gradient norm is {gradient_norm}: nothing was updated; lower optimizer.lr")
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._masters.publish()
        return gradient_norm


@dataclass(slots=True, kw_only=True)
class _Means:
    """Sums over the micro-batches of a step, on their way to means over its trained tokens."""

    trained_tokens: int
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    largest_gap: float = 0.0

    def add(self, logp_BT: torch.Tensor, token_loss: TokenLoss, batch: Batch) -> None:
        gap_BT = logp_BT - batch.behaviour_logp_BT
        values = {
            "loss": token_loss.loss_BT.detach(),
            "kl": logp_BT - batch.teacher_logp_BT,
            "surprise": -logp_BT,
            "gap": gap_BT.abs(),
            "k3": torch.expm1(gap_BT) - gap_BT,
        } | {f"objective/{name}": value_BT for name, value_BT in token_loss.metrics_BT.items()}
        for name, value_BT in values.items():
            self.sums[name] += float(masked_sum(value_BT.double(), batch.keep_BT))
        self.largest_gap = max(self.largest_gap, float(gap_BT[batch.keep_BT].abs().max()))

    def stats(self, *, gradient_norm: float, learning_rate: float) -> UpdateStats:
        means = {name: total / self.trained_tokens for name, total in self.sums.items()}
        return UpdateStats(
            loss=means.pop("loss"),
            kl=means.pop("kl"),
            surprise=means.pop("surprise"),
            gap=Gap(mean=means.pop("gap"), largest=self.largest_gap, k3=means.pop("k3")),
            gradient_norm=gradient_norm,
            learning_rate=learning_rate,
            trained_tokens=self.trained_tokens,
            objective={name.removeprefix("objective/"): mean for name, mean in means.items()},
        )


def _check_scores(scored: Sequence[ScoredRollout]) -> None:
    """A clamp would make an infinite score a finite loss, so scores are checked by themselves (faults E15, E45)."""
    bad = [one for one in scored if not all(map(math.isfinite, (*one.teacher_logp, *one.rollout.logp)))]
    if bad:
        rows = sorted({one.rollout.prompt.row for one in bad})
        raise AnswerIsNo(
            f"log-probabilities of the teacher or the sampler are not finite on rows {rows}: nothing was updated; "
            "check the models' weights"
        )


def _check_finite(token_loss: TokenLoss, batch: Batch, scored: Sequence[ScoredRollout]) -> None:
    bad_BT = batch.keep_BT & ~torch.isfinite(token_loss.loss_BT.detach())
    if bool(bad_BT.any()):
        rows = sorted({scored[b].rollout.prompt.row for b in bad_BT.any(dim=-1).nonzero().flatten().tolist()})
        raise AnswerIsNo(f"the loss is not finite on rows {rows}: nothing was updated; lower optimizer.lr")
