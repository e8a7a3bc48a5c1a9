"""One optimizer step: the only place that sums and divides.

Shapes: N response tokens, C of them in a chunk, H hidden, V vocabulary.

    trained tokens of the whole step, counted first
    for each micro-batch:  log-probabilities → objective → weighted sum / trained tokens → backward
    finite? → clip → AdamW on the masters → masters into the model

The divisor is fixed before the first backward, so how the step is cut into micro-batches changes nothing
(faults E1 to E5). Nor does it how many ranks share the rollouts: all count together before, and add up their
gradients after, so that each moves its own copy of the student by the same step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from opd.models.head import HEAD_CHUNK_TOKENS
from opd.models.load import LanguageModel
from opd.models.logprobs import token_logp
from opd.models.sequences import Sequences, micro_batches, packed
from opd.records.errors import AnswerIsNo
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.records.settings import Settings
from opd.train.objective import Divergence, Objective, TokenObjective
from opd.train.ranks.gradients import fingerprint
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.saved.state import gathered, scatter
from opd.train.update.adamw import AdamW
from opd.train.update.batch import collate
from opd.train.update.masters import Masters, MasterWeights
from opd.train.update.passes import Part, Passes, Seen
from opd.train.update.tally import Tally, UpdateStats

LARGEST_IMPORTANCE = 2.0  # of `auto`: as in the first report of the remedy (Yao, Liu et al. 2025)
Beta = Annotated[float, Field(ge=0, lt=1)]


class OptimizerSettings(Settings):
    """AdamW on the master weights of the student, or of its adapters."""

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
    largest_importance: PositiveFloat | Literal["auto", "off"] = "auto"
    """Each token is weighed by min(trainer's old probability / sampler's, this). `off`: the gap is only measured.
    `auto`: 2 where the sampler's numbers differ from the trainer's by more than float32 rounds, for an objective of
    the sampled tokens."""
    largest_gradient_norm: PositiveFloat = 1.0
    """L2; a larger gradient is scaled down to it."""
    term_norms_every: NonNegativeInt = 20
    """Steps between two measurements of each term's gradient norm, where a task reward stands beside the teacher.
    Each costs one more pass over the step for every term. 0: never."""

    def rate(self, step: int) -> float:
        """Learning rate of a step (1 for the first)."""
        return self.lr * min(1.0, step / self.warmup_steps) if self.warmup_steps else self.lr

    def importance(self, *, sampler_differs: bool) -> float | None:
        """The largest importance that a run has; None where tokens are not weighed by it."""
        if self.largest_importance == "auto":
            return LARGEST_IMPORTANCE if sampler_differs else None
        return None if self.largest_importance == "off" else self.largest_importance


class Updater:
    """Moves a student by an objective, one step at a time."""

    def __init__(
        self,
        student: LanguageModel,
        objective: Objective,
        settings: OptimizerSettings,
        *,
        teachers: Mapping[str | None, LanguageModel] | None = None,
        temperature: float = 1.0,
        sampler_differs: bool = False,
        largest_tokens: int = 16_384,
        chunk_tokens: int = HEAD_CHUNK_TOKENS,
        ranks: Ranks = ALONE,
        masters: MasterWeights | None = None,
    ) -> None:
        if isinstance(objective, Divergence) and not teachers:
            raise ValueError(f"{objective.name} compares distributions and needs the teacher's model")
        self._student = student
        self._objective = objective
        self._settings = settings
        self._largest_tokens = largest_tokens
        self._ranks = ranks
        self._masters = Masters(student.module, ranks=ranks) if masters is None else masters
        self._passes = Passes(
            student=student,
            masters=self._masters,
            teachers=teachers or {},
            objective=objective,
            temperature=temperature,
            # where a divergence is measured does not depend on the token that was drawn there
            largest_importance=settings.importance(
                sampler_differs=sampler_differs and isinstance(objective, TokenObjective)
            ),
            chunk_tokens=chunk_tokens,
        )
        self._optimizer = AdamW(
            self._masters, betas=settings.betas, epsilon=settings.epsilon, weight_decay=settings.weight_decay
        )

    @property
    def largest_importance(self) -> float | None:
        """At which a token's importance is cut; None where tokens are not weighed by it."""
        return self._passes.largest_importance

    def update(
        self, scored: Sequence[ScoredRollout], *, step: int, places: Sequence[int] | None = None
    ) -> UpdateStats:
        """The student has moved by one step; what that step was, over all ranks.

        `places` are those of this rank's rollouts among the step's; None: they are all of them, in order. Raises
        `AnswerIsNo` when a score, a loss or a gradient of any rank is not finite. Of several updates of the step
        those before it stand then, as the message says.
        """
        with self._masters.learning():
            return self._update(scored, step, range(len(scored)) if places is None else places)

    def _update(self, scored: Sequence[ScoredRollout], step: int, places: Sequence[int]) -> UpdateStats:
        self._ranks.agree(_fault_of_scores(scored))
        self._masters.forget_gradients()  # a step that was refused half-way left some behind
        tokens, trained_tokens = self._ranks.totals(
            sum(len(one.rollout.token_ids) for one in scored), sum(one.trained_tokens for one in scored)
        )
        tally = Tally(tokens=tokens, trained_tokens=trained_tokens)
        rate = self._settings.rate(step)
        shares = self._shares(scored, places)
        term_norms = self._term_norms(shares) if self._measures_terms(scored, step) else {}
        norms = []
        for made, share in enumerate(shares):
            left = "nothing was updated" if made == 0 else f"{made} of the step's {len(shares)} updates stand"
            norms.append(self._update_once(share, tally, rate=rate, left=left))
        return tally.stats(gradient_norm=max(norms), learning_rate=rate, term_norms=term_norms, ranks=self._ranks)

    def check_alike(self) -> None:
        """Nothing, when the masters of all ranks are the same, bit by bit; else `AnswerIsNo`."""
        if self._ranks.count == 1:
            return
        found = self._ranks.everyone(fingerprint(self._masters.alike))
        if apart := [rank for rank, one in enumerate(found) if one != found[0]]:
            raise AnswerIsNo(
                f"the weights of ranks {apart} are no longer those of rank 0: GPUs or libraries of different kinds, "
                "or a fault of memory; go on from the newest state with --resume, on machines that are alike"
            )

    def state(self) -> dict[str, torch.Tensor]:
        """This rank's master weights and AdamW's memory of each, named as in `saved/state.py`; live, not copies."""
        return gathered(self._masters.named, self._optimizer.memory)

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """The student and the optimizer are where they were when `state` gave these tensors.

        Raises `AnswerIsNo`, with nothing changed, when they are of another model.
        """
        with self._masters.learning():
            scatter(tensors, self._masters.named, self._optimizer.memory)
            self._masters.publish()

    def _shares(self, scored: Sequence[ScoredRollout], places: Sequence[int]) -> list["_Share"]:
        """The rollouts of each update of the step, in order; with the old policy where the updates are several.

        The step's rollouts are cut at the same places on any number of ranks; of each piece a rank has its own.
        """
        (rollouts,) = self._ranks.totals(len(scored))
        count = min(self._settings.minibatches, rollouts)
        edges = [rollouts * number // count for number in range(count + 1)]
        pieces = [[index for index, place in enumerate(places) if a <= place < b] for a, b in pairwise(edges)]
        trained = self._ranks.totals(*(sum(scored[index].trained_tokens for index in piece) for piece in pieces))
        old = self._old_logp(scored) if count > 1 else None
        return [
            _Share(
                scored=[scored[index] for index in piece],
                trained_tokens=tokens,
                old_logp=None if old is None else [old[index] for index in piece],
            )
            for piece, tokens in zip(pieces, trained, strict=True)
        ]

    @torch.no_grad()
    def _old_logp(self, scored: Sequence[ScoredRollout]) -> list[torch.Tensor]:
        """For each rollout the log-probabilities (nats) of its tokens before the step's first update."""
        found: dict[int, torch.Tensor] = {}
        groups = self._groups(scored)
        lacking = self._lacking(len(groups))
        for group in groups:
            sequences = self._packed([scored[index] for index in group])
            logp_N = token_logp(
                self._student,
                sequences,
                temperature=self._passes.temperature,
                chunk_tokens=self._passes.chunk_tokens,
            )
            found |= zip(group, logp_N.split(sequences.responses), strict=True)
        for _ in range(lacking):
            token_logp(self._student, self._packed([_NOTHING]))
        return [found[index] for index in range(len(scored))]

    def _update_once(self, share: "_Share", tally: Tally, *, rate: float, left: str) -> float:
        """The gradient's norm, after the student has moved by this share of the rollouts.

        `left` says what stands when that can't be done.
        """
        parts = self._parts(share)
        seen = self._learned(parts, trained_tokens=share.trained_tokens)
        self._ranks.agree(_fault_of_losses(parts, seen, left=left))
        for part, one in zip(parts, seen, strict=True):
            tally.add(one, part.batch)
        # with nothing to learn from, not even the optimizer's memory may move the student
        return self._move(share, rate, left=left) if share.trained_tokens else 0.0

    def _learned(self, parts: Sequence[Part], *, trained_tokens: int, term: str | None = None) -> list[Seen]:
        """What was seen of each part, whose gradients have been added up; as many passes as any rank makes."""
        lacking = self._lacking(len(parts))
        seen = [self._passes.learn(part, trained_tokens=trained_tokens, term=term) for part in parts]
        for _ in range(lacking):
            self._passes.learn(self._part([_NOTHING], None), trained_tokens=trained_tokens, term=term)
        if self._masters.pass_together:
            self._ranks.reached(self._masters.parameters)
        return seen

    def _lacking(self, passes: int) -> int:
        """How many passes this rank makes of nothing besides, so that it takes part in all that others make."""
        return max(self._ranks.everyone(passes)) - passes if self._masters.pass_together else 0

    def _measures_terms(self, scored: Sequence[ScoredRollout], step: int) -> bool:
        every = self._settings.term_norms_every
        if every == 0 or step % every:
            return False
        return any(self._ranks.everyone(any(one.advantage for one in scored)))

    def _term_norms(self, shares: Sequence["_Share"]) -> dict[str, float]:
        """L2 norm of each term's own gradient over the whole step, at the policy before it (faults E55)."""
        found: dict[str, float] = {}
        trained_tokens = sum(share.trained_tokens for share in shares)
        for name in self._objective.terms:
            self._learned(
                [part for share in shares for part in self._parts(share)], trained_tokens=trained_tokens, term=name
            )
            self._masters.add_up()
            found[name] = self._masters.norm()
            self._masters.forget_gradients()
        return found

    def _parts(self, share: "_Share") -> list[Part]:
        """The micro-batches of a share, on the device before the first of them is gone through."""
        parts = []
        for group in self._groups(share.scored):
            scored = [share.scored[index] for index in group]
            old = None if share.old_logp is None else torch.cat([share.old_logp[index] for index in group])
            parts.append(self._part(scored, old))
        return parts

    def _part(self, scored: Sequence[ScoredRollout], old_logp_N: torch.Tensor | None) -> Part:
        batch = collate(scored, device=self._student.device, dtype=self._wide)
        return Part(scored=scored, sequences=self._packed(scored), batch=batch, old_logp_N=old_logp_N)

    def _groups(self, scored: Sequence[ScoredRollout]) -> list[list[int]]:
        rollouts = [one.rollout for one in scored]
        return micro_batches(
            rollouts,
            largest_tokens=self._largest_tokens,
            packs=self._student.packs,
            by_teacher=isinstance(self._objective, Divergence),
        )

    def _packed(self, scored: Sequence[ScoredRollout]) -> Sequences:
        return packed([one.rollout for one in scored], device=self._student.device)

    @property
    def _wide(self) -> torch.dtype:
        return torch.float64 if self._student.module.dtype == torch.float64 else torch.float32

    def _move(self, share: "_Share", rate: float, *, left: str) -> float:
        self._masters.add_up()
        if not math.isfinite(norm := self._masters.norm()):
            self._masters.forget_gradients()
            own = {one.rollout.prompt.row for one in share.scored}
            rows = sorted(set().union(*self._ranks.everyone(own)))
            raise AnswerIsNo(f"the gradient norm of rows {rows} is {norm}: {left}; lower optimizer.lr")
        # as torch's clip: what guards against a norm of 0 stands in every step
        self._optimizer.step(rate=rate, scale=min(1.0, self._settings.largest_gradient_norm / (norm + 1e-6)))
        return norm


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """Rollouts that are learned from together, and the old policy's log-probabilities where they are needed."""

    scored: Sequence[ScoredRollout]  # of this rank; it may have none
    trained_tokens: int  # that are learned from, of all ranks
    old_logp: Sequence[torch.Tensor] | None = None


_NOTHING = ScoredRollout(  # of which nothing is learned
    rollout=Rollout(
        prompt=Prompt(row=0, problem="", answer="", token_ids=(0,)),
        sample=0,
        token_ids=(0,),
        logp=(0.0,),
        stop=StopReason.LENGTH,
    ),
    teacher_logp=(0.0,),
    weights=(0.0,),
)


def _fault_of_scores(scored: Sequence[ScoredRollout]) -> str | None:
    """A clamp would make an infinite score a finite loss, so scores are checked by themselves (faults E15, E45)."""
    bad = [one for one in scored if not all(map(math.isfinite, (*one.teacher_logp, *one.rollout.logp)))]
    if not bad:
        return None
    rows = sorted({one.rollout.prompt.row for one in bad})
    return (
        f"log-probabilities of the teacher or the sampler are not finite on rows {rows}: nothing was updated; "
        "check the models' weights"
    )


def _fault_of_losses(parts: Sequence[Part], seen: Sequence[Seen], *, left: str) -> str | None:
    """The line that names the rows whose loss is not finite; None when all are."""
    if not seen:
        return None
    finite = torch.stack([torch.isfinite(one.loss_N).all() for one in seen])
    if bool(finite.all()):
        return None
    rows = set()
    for part, one in zip(parts, seen, strict=True):
        for scored, loss_T in zip(part.scored, one.loss_N.split(part.sequences.responses), strict=True):
            if not bool(torch.isfinite(loss_T).all()):
                rows.add(scored.rollout.prompt.row)
    return f"the loss is not finite on rows {sorted(rows)}: {left}; lower optimizer.lr"
