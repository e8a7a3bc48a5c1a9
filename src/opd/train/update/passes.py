"""One forward and backward pass over some rollouts: their gradients are added up, a chunk of the head at a time.

Shapes: N response tokens, C of them in a chunk, H hidden, V vocabulary.

    row of sequences ──student──► hidden_NH
    for each chunk:               hidden_CH ──► log-probabilities ──► objective ──► weighted sum / trained tokens
                                  gradient  ◄─────────────────────────────────────────┘
    and back through the student: gradient_NH

No objective mixes tokens, so the gradient of a chunk is known before the logits of the next exist. Nothing here waits
for a GPU: what a pass saw stays on the device until the step has been handed over whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from opd.models.head import backward_in_chunks, head_logits, head_logp, head_matrix
from opd.models.load import LanguageModel
from opd.models.logprobs import before_kept
from opd.models.sequences import Sequences, packed
from opd.records.rollouts import ScoredRollout
from opd.train.objective import Divergence, Objective, StudentView, TokenLoss, TokenObjective
from opd.train.update.batch import Batch
from opd.train.update.masters import MasterWeights


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rollouts that go through the models together, on the device."""

    scored: Sequence[ScoredRollout]
    sequences: Sequences
    batch: Batch
    old_logp_N: torch.Tensor | None = None  # nats, before the step's first update; None where that is now


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a pass saw of its tokens, without gradients."""

    logp_N: torch.Tensor  # nats, of the student before the step's first update, which sampled
    weight_N: torch.Tensor  # of each token's loss
    loss_N: torch.Tensor
    metrics_N: dict[str, torch.Tensor]
    taught_N: dict[str, torch.Tensor] = field(default_factory=dict)  # by name of several teachers: whose token it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Student, teachers and objective, and how they meet."""

    student: LanguageModel
    masters: MasterWeights
    teachers: Mapping[str | None, LanguageModel]  # of a divergence, by name; the only one has none
    objective: Objective
    temperature: float
    largest_importance: float | None  # see `OptimizerSettings`
    chunk_tokens: int

    def learn(self, part: Part, *, trained_tokens: int, term: str | None = None) -> Seen:
        """What was seen, after the gradients of the part's share of the mean over `trained_tokens` were added up.

        With a `term`, of that term of the objective alone. What is not finite makes gradients that are not.
        """
        seen: list[Seen] = []
        teacher, teacher_NH = self._teachers(part)
        student_NH, ids_N = before_kept(self.student, part.sequences)

        def value_of(student_CH: torch.Tensor, chunk: slice) -> torch.Tensor:
            batch = part.batch.part(chunk)
            old_logp_C = None if part.old_logp_N is None else part.old_logp_N[chunk]
            if isinstance(self.objective, Divergence):
                assert teacher is not None, "the updater looked for one"
                assert teacher_NH is not None, "the teacher has them"
                logp_C, found = self._compare(self.objective, student_CH, teacher, teacher_NH[chunk], ids_N[chunk])
            else:
                assert isinstance(self.objective, TokenObjective), "there are two kinds of objective"
                logp_C, found = self._judge(self.objective, student_CH, ids_N[chunk], old_logp_C, batch)
            before_C = logp_C if old_logp_C is None else old_logp_C
            weight_C, metrics_C = self._weights(batch, before_C)
            seen.append(_seen(before_C, weight_C, found, metrics_C))
            loss_C = found.loss_N if term is None else found.terms_N[term]
            return weighted(loss_C, weight_C) / max(1, trained_tokens)

        backward_in_chunks(value_of, student_NH, chunk_tokens=self.chunk_tokens)
        return replace(_joined(seen), taught_N=_taught(part))

    @torch.no_grad()
    def _teachers(self, part: Part) -> tuple[LanguageModel | None, torch.Tensor | None]:
        """The part's teacher and its hidden states, where whole distributions are compared."""
        if not isinstance(self.objective, Divergence):
            return None, None
        teacher = self.teachers[part.scored[0].rollout.prompt.teacher]
        seen = [one.rollout.seen_by_teacher for one in part.scored]
        same = all(theirs is one.rollout for theirs, one in zip(seen, part.scored, strict=True))
        sequences = part.sequences if same else packed(seen, device=self.student.device)
        return teacher, before_kept(teacher, sequences)[0]

    def _judge(
        self,
        objective: TokenObjective,
        student_CH: torch.Tensor,
        ids_C: torch.Tensor,
        old_logp_C: torch.Tensor | None,
        batch: Batch,
    ) -> tuple[torch.Tensor, TokenLoss]:
        """The student's log-probabilities (nats, without gradient) and the objective's value a token.

        Without an old policy this is the step's only update: the policy before it is the policy now.
        """
        logp_C = head_logp(
            self.student, student_CH, ids_C, temperature=self.temperature, gradient_RH=self._heads_gradient()
        )
        now_C = logp_C.detach()
        student = StudentView(logp_N=logp_C, old_logp_N=now_C if old_logp_C is None else old_logp_C)
        return now_C, objective(student, batch)

    def _compare(
        self,
        objective: Divergence,
        student_CH: torch.Tensor,
        teacher: LanguageModel,
        teacher_CH: torch.Tensor,
        ids_C: torch.Tensor,
    ) -> tuple[torch.Tensor, TokenLoss]:
        """The same, of both whole distributions; they exist for this chunk alone."""
        logits_CV = head_logits(self.student, student_CH, gradient_RH=self._heads_gradient())
        student_logp_CV = self._logp(logits_CV)
        sampled_C = self._sampled(logits_CV.detach(), student_logp_CV.detach(), ids_C)
        del logits_CV  # gone before the teacher's are there
        with torch.no_grad():
            teacher_logp_CV = self._logp(head_logits(teacher, teacher_CH))
        return sampled_C, TokenLoss(loss_N=objective(student_logp_CV, teacher_logp_CV))

    def _sampled(self, logits_CV: torch.Tensor, logp_CV: torch.Tensor, ids_C: torch.Tensor) -> torch.Tensor:
        """logp_C of the tokens that were sampled; of an exact student by the sampler's sums."""
        if self.student.exact is None:
            return logp_CV.gather(-1, ids_C.unsqueeze(-1)).squeeze(-1)
        logp_C, _ = self.student.exact.token_logp(
            logits_CV, ids_C, vocabulary=logits_CV.shape[-1], temperature=self.temperature
        )
        return logp_C

    def _logp(self, logits_CV: torch.Tensor) -> torch.Tensor:
        """logp_CV at the temperature, nats."""
        return (logits_CV if self.temperature == 1 else logits_CV / self.temperature).log_softmax(dim=-1)

    def _heads_gradient(self) -> torch.Tensor | None:
        """Where the gradient of the head's matrix is added up; None where it has none, or autograd finds it."""
        matrix_RH = head_matrix(self.student)
        return None if matrix_RH is None or not matrix_RH.requires_grad else self.masters.gradient(matrix_RH)

    def _weights(self, batch: Batch, old_logp_N: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Of each token's loss; with truncated importance where that is asked for, and then what it was."""
        if self.largest_importance is None:
            return batch.weight_N, {}
        ratio_N = torch.exp(old_logp_N - batch.behaviour_logp_N)
        importance_N = ratio_N.clamp(max=self.largest_importance)
        truncated_N = (ratio_N > self.largest_importance).to(ratio_N.dtype)
        return batch.weight_N * importance_N, {"importance": importance_N, "truncated": truncated_N}


def weighted(loss_N: torch.Tensor, weight_N: torch.Tensor) -> torch.Tensor:
    """The sum; a token of weight 0 has no say, whatever its gradient."""
    return torch.where(weight_N > 0, loss_N * weight_N, torch.zeros_like(loss_N)).sum()


def _seen(logp_N: torch.Tensor, weight_N: torch.Tensor, found: TokenLoss, others_N: dict[str, torch.Tensor]) -> Seen:
    return Seen(
        logp_N=logp_N,
        weight_N=weight_N,
        loss_N=found.loss_N.detach(),
        metrics_N={name: value_N.detach() for name, value_N in found.metrics_N.items()} | others_N,
    )


def _taught(part: Part) -> dict[str, torch.Tensor]:
    """For each of several teachers, which tokens of the part it has; empty where there is one."""
    named = [(one.rollout.prompt.teacher, len(one.rollout.token_ids)) for one in part.scored]
    return {
        teacher: torch.tensor(
            [name == teacher for name, tokens in named for _ in range(tokens)], device=part.batch.weight_N.device
        )
        for teacher in dict.fromkeys(name for name, _ in named)
        if teacher is not None
    }


def _joined(pieces: Sequence[Seen]) -> Seen:
    return Seen(
        logp_N=torch.cat([one.logp_N for one in pieces]),
        weight_N=torch.cat([one.weight_N for one in pieces]),
        loss_N=torch.cat([one.loss_N for one in pieces]),
        metrics_N={name: torch.cat([one.metrics_N[name] for one in pieces]) for name in pieces[0].metrics_N},
    )
