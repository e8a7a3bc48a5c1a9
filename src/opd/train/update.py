"""One optimizer step: the only place that masks, sums and divides.

    trained tokens of the whole step, counted first
    for each micro-batch:  log-probabilities → objective → masked sum / trained tokens → backward
    finite? → clip → AdamW on the masters → masters into the model

The divisor is fixed before the first backward, so how the step is cut into micro-batches changes nothing
(faults E1 to E5).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from opd.models.load import LanguageModel
from opd.models.logprobs import HEAD_CHUNK_TOKENS, at_kept, before_kept, head_logits, in_chunks, token_logp
from opd.models.sequences import micro_batches, spread
from opd.records.errors import AnswerIsNo
from opd.records.metrics import Gap
from opd.records.rollouts import ScoredRollout
from opd.records.settings import Settings
from opd.train.batch import Batch, collate, masked_sum
from opd.train.masters import Masters
from opd.train.objective import Divergence, Objective, StudentView, TokenLoss, TokenObjective
from opd.train.state import gathered, scatter

Beta = Annotated[float, Field(ge=0, lt=1)]


class OptimizerSettings(Settings):
    """AdamW on the master weights of the whole student."""

    lr: Annotated[float, Field(gt=0, le=1e6)]
    """Learning rate after the warm-up; constant."""
    warmup_steps: NonNegativeInt = 0
    """The rate rises linearly over this many steps."""
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """Decay of AdamW's two moments."""
    epsilon: PositiveFloat = 1e-8
    """AdamW's."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled, as in AdamW."""
    minibatches: PositiveInt = 1
    """Updates a step, each on its share of the rollouts. With more than one the ratio leaves 1, and clips act."""
    largest_importance: PositiveFloat | None = None
    """Each token is weighed by min(trainer's old probability / sampler's, this); null: the gap is only measured."""
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
        teacher: LanguageModel | None = None,
        temperature: float = 1.0,
        largest_tokens: int = 16_384,
        chunk_tokens: int = HEAD_CHUNK_TOKENS,
    ) -> None:
        if isinstance(objective, Divergence) and teacher is None:
            raise ValueError(f"{objective.name} compares distributions and needs the teacher's model")
        self._student = student
        self._teacher = teacher
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
        means = _Means(
            tokens=sum(len(one.rollout.token_ids) for one in scored),
            trained_tokens=sum(one.trained_tokens for one in scored),
        )
        rate = self._settings.rate(step)
        shares = self._shares(scored)
        norms = [self._update_once(share, means, rate=rate) for share in shares]
        return means.stats(gradient_norm=max(norms), learning_rate=rate)

    def state(self) -> dict[str, torch.Tensor]:
        """Master weights and AdamW's memory of each, named as in `train/state.py`; the live tensors, not copies."""
        return gathered(self._masters.named, self._optimizer)

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """The student and the optimizer are where they were when `state` gave these tensors.

        Raises `AnswerIsNo`, with nothing changed, when they are of another model.
        """
        scatter(tensors, self._masters.named, self._optimizer)
        self._masters.publish()

    def _shares(self, scored: Sequence[ScoredRollout]) -> list["_Share"]:
        """The rollouts of each update of the step, in order; with the old policy where the updates are several."""
        count = min(self._settings.minibatches, len(scored))
        if count == 1:
            return [_Share(scored=scored)]
        old = self._old_logp(scored)
        edges = [len(scored) * number // count for number in range(count + 1)]
        return [_Share(scored=scored[a:b], old_logp=old[a:b]) for a, b in pairwise(edges)]

    @torch.no_grad()
    def _old_logp(self, scored: Sequence[ScoredRollout]) -> list[list[float]]:
        """For each rollout the log-probabilities (nats) of its tokens before the step's first update."""
        found: dict[int, list[float]] = {}
        for group in micro_batches([one.rollout for one in scored], largest_tokens=self._largest_tokens):
            batch = self._batch([scored[index] for index in group])
            for index, logp_T, keep_T in zip(group, self._logp(batch), batch.keep_BT, strict=True):
                found[index] = logp_T[keep_T].tolist()
        return [found[index] for index in range(len(scored))]

    def _update_once(self, share: "_Share", means: "_Means", *, rate: float) -> float:
        """The gradient's norm, after the student has moved by this share of the rollouts."""
        trained_tokens = sum(one.trained_tokens for one in share.scored)
        for group in micro_batches([one.rollout for one in share.scored], largest_tokens=self._largest_tokens):
            self._accumulate(share.part(group), means, divisor=max(1, trained_tokens))
        # with nothing to learn from, not even the optimizer's memory may move the student
        return self._move(rate) if trained_tokens else 0.0

    def _accumulate(self, share: "_Share", means: "_Means", *, divisor: int) -> None:
        batch = self._batch(share.scored)
        old_logp_BT = None
        if share.old_logp is not None:
            old_logp_BT = spread(share.old_logp, batch.keep_BT, dtype=batch.teacher_logp_BT.dtype)
        logp_BT, token_loss = self._loss(batch, old_logp_BT)
        _check_finite(token_loss, batch, share.scored)
        weight_BT = batch.weight_BT
        if self._settings.largest_importance is not None:
            old_BT = logp_BT if old_logp_BT is None else old_logp_BT
            importance_BT = torch.exp(old_BT - batch.behaviour_logp_BT)
            weight_BT = weight_BT * importance_BT.clamp(max=self._settings.largest_importance)
        loss = masked_sum(token_loss.loss_BT * weight_BT, batch.keep_BT) / divisor
        loss.backward()
        means.add(logp_BT, token_loss, weight_BT, batch)

    def _batch(self, scored: Sequence[ScoredRollout]) -> Batch:
        dtype = torch.float64 if self._student.module.dtype == torch.float64 else torch.float32
        return collate(scored, device=self._student.device, dtype=dtype)

    def _logp(self, batch: Batch) -> torch.Tensor:
        return token_logp(
            self._student,
            batch.ids_BT,
            batch.keep_BT,
            temperature=self._temperature,
            chunk_tokens=self._chunk_tokens,
        )

    def _loss(self, batch: Batch, old_logp_BT: torch.Tensor | None) -> tuple[torch.Tensor, TokenLoss]:
        """The student's log-probabilities (nats, without gradient) and the objective's value a token.

        Without an old policy this is the step's only update: the policy before it is the policy now.
        """
        if isinstance(self._objective, Divergence):
            return self._divergence(self._objective, batch)
        assert isinstance(self._objective, TokenObjective), "there are two kinds of objective"
        logp_BT = self._logp(batch)
        now_BT = logp_BT.detach()
        student = StudentView(logp_BT=logp_BT, old_logp_BT=now_BT if old_logp_BT is None else old_logp_BT)
        return now_BT, self._objective(student, batch)

    def _divergence(self, objective: Divergence, batch: Batch) -> tuple[torch.Tensor, TokenLoss]:
        """Both heads over a chunk of tokens at a time; a whole distribution exists for one chunk alone."""
        student, teacher = self._student, self._teacher
        assert teacher is not None, "looked at in the constructor"

        def of_chunk(
            student_CH: torch.Tensor, teacher_CH: torch.Tensor, ids_C: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            student_logp_CV = (head_logits(student, student_CH) / self._temperature).log_softmax(dim=-1)
            with torch.no_grad():
                teacher_logp_CV = (head_logits(teacher, teacher_CH) / self._temperature).log_softmax(dim=-1)
            sampled_C = student_logp_CV.detach().gather(-1, ids_C.unsqueeze(-1)).squeeze(-1)
            return objective(student_logp_CV, teacher_logp_CV), sampled_C

        with torch.no_grad():
            teacher_NH, _ = before_kept(teacher, batch.ids_BT, batch.keep_BT)
        student_NH, ids_N = before_kept(student, batch.ids_BT, batch.keep_BT)
        loss_N, logp_N = in_chunks(of_chunk, student_NH, teacher_NH, ids_N, chunk_tokens=self._chunk_tokens)
        return at_kept(logp_N, batch.keep_BT), TokenLoss(loss_BT=at_kept(loss_N, batch.keep_BT))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """Rollouts that are learned from together, and the old policy's log-probabilities where they are needed."""

    scored: Sequence[ScoredRollout]
    old_logp: Sequence[Sequence[float]] | None = None

    def part(self, indices: Sequence[int]) -> "_Share":
        """Some of them."""
        old = None if self.old_logp is None else [self.old_logp[index] for index in indices]
        return _Share(scored=[self.scored[index] for index in indices], old_logp=old)


@dataclass(slots=True, kw_only=True)
class _Means:
    """Sums over a step's micro-batches, on their way to means: the loss over trained tokens, the rest over all."""

    tokens: int
    trained_tokens: int
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    largest_gap: float = 0.0

    def add(self, logp_BT: torch.Tensor, token_loss: TokenLoss, weight_BT: torch.Tensor, batch: Batch) -> None:
        gap_BT = logp_BT - batch.behaviour_logp_BT
        values = {
            "loss": token_loss.loss_BT.detach() * weight_BT,
            "kl": logp_BT - batch.teacher_logp_BT,
            "surprise": -logp_BT,
            "gap": gap_BT.abs(),
            "k3": torch.expm1(gap_BT) - gap_BT,
        } | {f"objective/{name}": value_BT for name, value_BT in token_loss.metrics_BT.items()}
        for name, value_BT in values.items():
            self.sums[name] += float(masked_sum(value_BT.double(), batch.keep_BT))
        self.largest_gap = max(self.largest_gap, float(gap_BT[batch.keep_BT].abs().max()))

    def stats(self, *, gradient_norm: float, learning_rate: float) -> UpdateStats:
        loss = self.sums.pop("loss") / max(1, self.trained_tokens)
        means = {name: total / self.tokens for name, total in self.sums.items()}
        return UpdateStats(
            loss=loss,
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
