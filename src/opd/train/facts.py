"""What the metrics need to know of a rollout, without its tokens: what ranks tell rank 0 of theirs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from opd.records.repetition import repetition_onset
from opd.records.rollouts import ScoredRollout


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFacts:
    """Of one rollout; log-probabilities in nats."""

    tokens: int  # of the response
    cut_short: bool
    repeated: bool  # its end is a loop
    reward: float | None
    first_gap: float  # log student - log teacher at the first token, by sampler and scorer
    eos_teacher_logp: float | None  # of the first stop id, by the teacher; None where there is none
    teacher: str | None = None  # its name, of several


def facts_of(scored: Sequence[ScoredRollout], *, stop_ids: Collection[int]) -> list[RolloutFacts]:
    """Those of each rollout, in order. An answer ends with the first of its tokens that is a stop id."""
    return [
        RolloutFacts(
            tokens=len(one.rollout.token_ids),
            cut_short=one.rollout.stop.cut_short,
            repeated=repetition_onset(one.rollout.token_ids) is not None,
            reward=one.reward,
            first_gap=one.rollout.logp[0] - one.teacher_logp[0],
            eos_teacher_logp=next(
                (
                    logp
                    for token, logp in zip(one.rollout.token_ids, one.teacher_logp, strict=True)
                    if token in stop_ids
                ),
                None,
            ),
            teacher=one.rollout.prompt.teacher,
        )
        for one in scored
    ]
