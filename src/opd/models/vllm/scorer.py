"""vLLM as a `Scorer`: the teacher's log-probabilities of given tokens, through `prompt_logprobs`."""

import math
from collections.abc import Sequence
from typing import Any

from opd.models.load import LanguageModel
from opd.models.vllm.memory import Size
from opd.models.vllm.server import Server, prompt_logp, scoring_settings
from opd.models.vllm.team import Team
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Rollout, ScoredRollout

ROWS = 8  # sequences at once; more make a step no faster, for one of 3,000 tokens fills the GPU
BATCH_TOKENS = 2_048  # whose logits exist at once in vLLM, in three copies, and which its own plan leaves out (E47)


class VllmScorer:
    """A `Scorer` for sequences of at most `sequence_tokens` tokens, prompt and response together.

    At temperature 1 alone (`check_scoring`). `team` are the ranks that vLLM spans: each gives its own rollouts. The
    model's own module may stay in the host's memory: vLLM has a copy.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        sequence_tokens: int,
        sleeps: bool = False,
        team: Team | None = None,
        vllm: Any = None,
    ) -> None:
        size = Size(rows=ROWS, sequence_tokens=sequence_tokens + 1, batch_tokens=BATCH_TOKENS)
        self._server = Server(model, size, sleeps=sleeps, shares_prefixes=False, team=team, vllm=vllm)

    def score(self, rollouts: Sequence[Rollout]) -> list[ScoredRollout]:
        """Each rollout with the model's log-probability (nats) of its tokens; see `Scorer`."""
        ids = [(*one.prompt.token_ids, *one.token_ids) for one in rollouts]
        outputs = self._server.team.shared(ids, self._read)
        return [
            ScoredRollout(rollout=one, teacher_logp=_of_response(one, prompt_logp(output, whole)))
            for one, whole, output in zip(rollouts, ids, outputs, strict=True)
        ]

    def _read(self, ids: Sequence[Sequence[int]]) -> list[Any]:
        """What vLLM gives for sequences of token ids."""
        try:
            return self._server.generate(ids, [scoring_settings(self._server.vllm) for _ in ids])
        finally:
            self._server.rest()

    def close(self) -> None:
        """The memory of vLLM is free again, and so it ends."""
        self._server.close()


def check_scoring(*, temperature: float, alternatives: int, section: str = "machine") -> None:
    """Nothing, when vLLM can score at this temperature, with no other tokens beside the sampled; else `AskedWrongly`.

    It gives log-probabilities of the softmax as it is, and can't scale it (faults E44).
    """
    if temperature != 1:
        raise AskedWrongly(
            f"temperature = {temperature} with a teacher in vLLM: its prompt_logprobs are those of temperature 1; "
            f'set rollouts.temperature = 1, or {section}.scorer = "plain"'
        )
    if alternatives:
        raise AskedWrongly(
            f'save.alternatives = {alternatives} with a teacher in vLLM: set it to 0, or {section}.scorer = "plain"'
        )


def _of_response(rollout: Rollout, logp: Sequence[float]) -> tuple[float, ...]:
    values = tuple(logp[len(rollout.prompt.token_ids) - 1 :])
    for place, value in enumerate(values):
        if not math.isfinite(value):
            raise FloatingPointError(
                f"row {rollout.prompt.row}: the score of token {place} is {value}; nothing was updated"
            )
    return values
