"""One optimizer step: the only place that sums and divides.

Shapes: N response tokens, C of them in a chunk, H hidden, V vocabulary.

    trained tokens of the whole step, counted first
    for each micro-batch:  log-probabilities → objective → weighted sum / trained tokens → backward
    finite? → clip → AdamW on the masters → masters into the model

The divisor is fixed before the first backward, so how the step is cut into micro-batches changes nothing
(faults E1 to E5).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from opd.models.load import LanguageModel
from opd.models.logprobs import HEAD_CHUNK_TOKENS, before_kept, head_logits, in_chunks, token_logp
from opd.models.sequences import Sequences, micro_batches, packed
from opd.records.errors import AnswerIsNo
from opd.records.rollouts import ScoredRollout
from opd.records.settings import Settings
from opd.train.batch import Batch, collate
from opd.train.masters import Masters
from opd.train.objective import Divergence, Objective, StudentView, TokenLoss, TokenObjective
from opd.train.state import gathered, scatter
from opd.train.tally import Tally, UpdateStats

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
    term_norms_every: NonNegativeInt = 20
    """Steps between two measurements of each term's gradient norm, where a task reward stands beside the teacher.
    Each costs one more pass over the step for every term. 0: never."""

    def rate(self, step: int) -> float:
        """Learning rate of a step (1 for the first)."""
        return self.lr * min(1.0, step / self.warmup_steps) if self.warmup_steps else self.lr


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
        tally = Tally(
            tokens=sum(len(one.rollout.token_ids) for one in scored),
            trained_tokens=sum(one.trained_tokens for one in scored),
        )
        rate = self._settings.rate(step)
        shares = self._shares(scored)
        term_norms = self._term_norms(shares) if self._measures_terms(scored, step) else {}
        norms = [self._update_once(share, tally, rate=rate) for share in shares]
        return tally.stats(gradient_norm=max(norms), learning_rate=rate, term_norms=term_norms)

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
    def _old_logp(self, scored: Sequence[ScoredRollout]) -> list[torch.Tensor]:
        """For each rollout the log-probabilities (nats) of its tokens before the step's first update."""
        found: dict[int, torch.Tensor] = {}
        for group in self._groups(scored):
            sequences = self._packed([scored[index] for index in group])
            found |= zip(group, self._logp(sequences).split(sequences.responses), strict=True)
        return [found[index] for index in range(len(scored))]

    def _update_once(self, share: "_Share", tally: Tally, *, rate: float) -> float:
        """The gradient's norm, after the student has moved by this share of the rollouts."""
        for part, batch, logp_N, token_loss in self._passes(share):
            weight_N = self._weights(batch, logp_N, part)
            (_weighted(token_loss.loss_N, weight_N) / max(1, share.trained_tokens)).backward()
            tally.add(logp_N, token_loss, weight_N, batch)
        # with nothing to learn from, not even the optimizer's memory may move the student
        return self._move(rate) if share.trained_tokens else 0.0

    def _measures_terms(self, scored: Sequence[ScoredRollout], step: int) -> bool:
        every = self._settings.term_norms_every
        return every > 0 and step % every == 0 and any(one.advantage for one in scored)

    def _term_norms(self, shares: Sequence["_Share"]) -> dict[str, float]:
        """L2 norm of each term's own gradient over the whole step, at the policy before it (faults E55)."""
        found: dict[str, float] = {}
        trained_tokens = max(1, sum(share.trained_tokens for share in shares))
        for name in self._objective.terms:
            for share in shares:
                for part, batch, logp_N, token_loss in self._passes(share):
                    weight_N = self._weights(batch, logp_N, part)
                    (_weighted(token_loss.terms_N[name], weight_N) / trained_tokens).backward()
            gradients = [one.grad for one in self._masters.parameters if one.grad is not None]
            found[name] = float(torch.nn.utils.get_total_norm(gradients))
            self._optimizer.zero_grad(set_to_none=True)
        return found

    def _passes(self, share: "_Share") -> Iterator[tuple["_Share", Batch, torch.Tensor, TokenLoss]]:
        """Each micro-batch of a share: its part, what is known of it, the student's log-probabilities, its loss."""
        for group in self._groups(share.scored):
            part = share.part(group)
            batch = collate(part.scored, device=self._student.device, dtype=self._wide)
            logp_N, token_loss = self._loss(part, batch)
            _check_finite(token_loss, part.scored)
            yield part, batch, logp_N, token_loss

    def _weights(self, batch: Batch, logp_N: torch.Tensor, part: "_Share") -> torch.Tensor:
        """Of each token's loss; with truncated importance where that is asked for."""
        if self._settings.largest_importance is None:
            return batch.weight_N
        old_N = logp_N if part.old_logp is None else torch.cat([*part.old_logp])
        importance_N = torch.exp(old_N - batch.behaviour_logp_N)
        return batch.weight_N * importance_N.clamp(max=self._settings.largest_importance)

    def _groups(self, scored: Sequence[ScoredRollout]) -> list[list[int]]:
        rollouts = [one.rollout for one in scored]
        return micro_batches(rollouts, largest_tokens=self._largest_tokens, packs=self._student.packs)

    def _packed(self, scored: Sequence[ScoredRollout]) -> Sequences:
        return packed([one.rollout for one in scored], device=self._student.device)

    @property
    def _wide(self) -> torch.dtype:
        return torch.float64 if self._student.module.dtype == torch.float64 else torch.float32

    def _logp(self, sequences: Sequences) -> torch.Tensor:
        return token_logp(self._student, sequences, temperature=self._temperature, chunk_tokens=self._chunk_tokens)

    def _loss(self, part: "_Share", batch: Batch) -> tuple[torch.Tensor, TokenLoss]:
        """The student's log-probabilities (nats, without gradient) and the objective's value a token.

        Without an old policy this is the step's only update: the policy before it is the policy now.
        """
        sequences = self._packed(part.scored)
        if isinstance(self._objective, Divergence):
            return self._divergence(self._objective, sequences)
        assert isinstance(self._objective, TokenObjective), "there are two kinds of objective"
        logp_N = self._logp(sequences)
        now_N = logp_N.detach()
        student = StudentView(
            logp_N=logp_N, old_logp_N=now_N if part.old_logp is None else torch.cat([*part.old_logp])
        )
        return now_N, self._objective(student, batch)

    def _divergence(self, objective: Divergence, sequences: Sequences) -> tuple[torch.Tensor, TokenLoss]:
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
            teacher_NH, _ = before_kept(teacher, sequences)
        student_NH, ids_N = before_kept(student, sequences)
        loss_N, logp_N = in_chunks(of_chunk, student_NH, teacher_NH, ids_N, chunk_tokens=self._chunk_tokens)
        return logp_N, TokenLoss(loss_N=loss_N)

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
    old_logp: Sequence[torch.Tensor] | None = None

    @property
    def trained_tokens(self) -> int:
        """Tokens that are learned from."""
        return sum(one.trained_tokens for one in self.scored)

    def part(self, indices: Sequence[int]) -> "_Share":
        """Some of them."""
        old = None if self.old_logp is None else [self.old_logp[index] for index in indices]
        return _Share(scored=[self.scored[index] for index in indices], old_logp=old)


def _weighted(loss_N: torch.Tensor, weight_N: torch.Tensor) -> torch.Tensor:
    """The sum; a token of weight 0 has no say, whatever its gradient."""
    return torch.where(weight_N > 0, loss_N * weight_N, torch.zeros_like(loss_N)).sum()


def _check_scores(scored: Sequence[ScoredRollout]) -> None:
    """A clamp would make an infinite score a finite loss, so scores are checked by themselves (faults E15, E45)."""
    bad = [one for one in scored if not all(map(math.isfinite, (*one.teacher_logp, *one.rollout.logp)))]
    if bad:
        rows = sorted({one.rollout.prompt.row for one in bad})
        raise AnswerIsNo(
            f"log-probabilities of the teacher or the sampler are not finite on rows {rows}: nothing was updated; "
            "check the models' weights"
        )


def _check_finite(token_loss: TokenLoss, scored: Sequence[ScoredRollout]) -> None:
    bad_N = ~torch.isfinite(token_loss.loss_N.detach())
    if bool(bad_N.any()):
        ends = accumulate(len(one.rollout.token_ids) for one in scored)
        bad = bad_N.nonzero().flatten()
        found = torch.searchsorted(torch.tensor([*ends], device=bad.device), bad, right=True).tolist()
        rows = sorted({scored[index].rollout.prompt.row for index in found})
        raise AnswerIsNo(f"the loss is not finite on rows {rows}: nothing was updated; lower optimizer.lr")
