"""vLLM as a `Sampler`. The same seed draws the same noise for a token, whoever is sampled beside it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from opd.models.chat import check_fits
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.vllm.memory import Size
from opd.models.vllm.server import Server, logp_at
from opd.models.vllm.team import Team
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt, Rollout, StopReason

LARGEST_TEMPERATURE = 2.0  # vLLM's own
ENDED = ("stop", "length")  # of vLLM's reasons for an end; the others are of requests that were broken off


class VllmSampler:
    """A `Sampler` for prompts of at most `prompt_tokens` tokens, of which `largest_batch` rollouts run at once.

    `sleeps`: between two calls vLLM's memory is free for the trainer. `team` are the ranks that it spans: each gives
    the prompts that are its own, and gets their rollouts. `vllm` is the module of that name. Raises `AskedWrongly`
    for a model or a distribution that vLLM can't sample as a rollout has to be.
    """

    def __init__(
        self,
        model: LanguageModel,
        sampling: Sampling,
        *,
        prompt_tokens: int,
        largest_batch: int = 256,
        sleeps: bool = False,
        team: Team | None = None,
        vllm: Any = None,
    ) -> None:
        check_sampling(sampling)
        size = Size(rows=largest_batch, sequence_tokens=prompt_tokens + sampling.limit_tokens)
        self._server = Server(model, size, sleeps=sleeps, team=team, vllm=vllm)
        self._model = model
        self._sampling = sampling
        self._version = 0

    def follow(self, version: int) -> None:
        """Rollouts from now on carry this policy version; the next call sends the weights and drops what was kept."""
        self._version = version
        self._server.outdate()

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        """One rollout of each prompt for each seed, prompt by prompt; see `Sampler`."""
        check_fits(self._model, prompts, limit_tokens=self._sampling.limit_tokens)
        asked = [(prompt, sample, seed) for prompt in prompts for sample, seed in enumerate(seeds)]
        requests = [(prompt.token_ids, request_seed(seed, prompt)) for prompt, _, seed in asked]
        outputs = self._server.team.shared(requests, self._drawn)
        return [
            self._rollout(prompt, sample, output.outputs[0])
            for (prompt, sample, _), output in zip(asked, outputs, strict=True)
        ]

    def close(self) -> None:
        """The memory of vLLM is free again, and so it ends."""
        self._server.close()

    def _drawn(self, requests: Sequence[tuple[Sequence[int], int]]) -> list[Any]:
        """What vLLM gives for token ids and their seeds."""
        try:
            return self._server.generate([ids for ids, _ in requests], [self._settings(seed) for _, seed in requests])
        finally:
            self._server.rest()

    def _settings(self, seed: int) -> Any:
        """As vLLM has them: every field that shapes the distribution is given, so that no default does."""
        return self._server.vllm.SamplingParams(
            temperature=self._sampling.temperature,
            top_p=1.0,
            top_k=0,
            min_p=0.0,
            repetition_penalty=1.0,
            presence_penalty=0.0,
            frequency_penalty=0.0,
            seed=seed,
            max_tokens=self._sampling.limit_tokens,
            stop_token_ids=sorted(self._model.stop_ids),
            ignore_eos=True,  # that of the configuration; those of `stop_token_ids` end a response
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
        )

    def _rollout(self, prompt: Prompt, sample: int, output: Any) -> Rollout:
        if output.finish_reason not in ENDED:
            raise RuntimeError(f"row {prompt.row}: vLLM broke off a rollout ({output.finish_reason})")
        ids = tuple(int(token) for token in output.token_ids)
        if beyond := [token for token in ids if token >= self._model.vocabulary]:
            raise RuntimeError(f"row {prompt.row}: vLLM drew {beyond[0]}, which is no id of the tokenizer")
        return Rollout(
            prompt=prompt,
            sample=sample,
            token_ids=ids,
            logp=_sampled_logp(prompt, ids, output.logprobs),
            stop=StopReason.EOS if ids and ids[-1] in self._model.stop_ids else StopReason.LENGTH,
            policy_version=self._version,
        )


def check_sampling(sampling: Sampling) -> None:
    """Nothing, when vLLM can draw from the distribution and say how likely what it drew was; else `AskedWrongly`."""
    if not sampling.full_support:
        raise AskedWrongly(
            f"top_p = {sampling.top_p}, top_k = {sampling.top_k}, min_p = {sampling.min_p} with vLLM: it gives "
            "log-probabilities of what the cut leaves or of the whole softmax, and a rollout has both; sample with "
            'machine.engine = "auto", or cut nothing'
        )
    if sampling.temperature > LARGEST_TEMPERATURE:
        raise AskedWrongly(f"temperature = {sampling.temperature}: vLLM takes at most {LARGEST_TEMPERATURE}")


def request_seed(seed: int, prompt: Prompt) -> int:
    """What vLLM draws the noise of one rollout from: 63 bits of (seed, row, epoch), as `models/noise.py` mixes them.

    vLLM's noise of a token is a function of it and of the position, and not that of `noise.py`: the same seeds give
    other rollouts than the other samplers, from the same distribution.
    """
    mixed = np.random.SeedSequence([seed, prompt.row, prompt.epoch]).generate_state(1, np.uint64)
    return int(mixed[0]) >> 1


def _sampled_logp(prompt: Prompt, ids: Sequence[int], given: Any) -> tuple[float, ...]:
    if given is None or len(given) != len(ids):
        raise RuntimeError(f"row {prompt.row}: vLLM gave no log-probability for each of {len(ids)} tokens")
    values = tuple(logp_at(given, place, token) for place, token in enumerate(ids))
    for place, value in enumerate(values):
        if not math.isfinite(value):
            raise FloatingPointError(
                f"row {prompt.row}: the log-probability of token {place} is {value}: weights or activations "
                "overflow; look at the learning rate and the dtype"
            )
    return values
