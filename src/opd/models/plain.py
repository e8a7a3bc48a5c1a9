"""Sampler and scorer on transformers' own forward: slow, exact, and what every faster pair is tested against.

Shapes: B sequences still running, T positions in the cache, V real tokens.

    prompts, padded on the left  --prefill once a prompt-->  cache
    repeat the cache once for each seed
    until all have stopped: logits_BV --> log-probabilities --> inversion of a uniform number --> token_B

The log-probability that comes back with a token is that of the distribution that it was drawn from.
"""

import inspect
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import torch
from transformers import DynamicCache

from opd.models.chat import check_fits
from opd.models.head import HEAD_CHUNK_TOKENS, head_logits
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.logprobs import before_kept, likeliest, logp_of
from opd.models.noise import draw, uniforms
from opd.models.sequences import micro_batches, packed
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Alternatives, Prompt, Rollout, ScoredRollout, StopReason


class PlainSampler:
    """A `Sampler` for any causal language model that transformers loads and whose past is keys and values.

    Raises `AskedWrongly` for another one, such as a recurrent model, and for one that does not compute in steps what
    it computes at once.
    """

    def __init__(self, model: LanguageModel, sampling: Sampling, *, largest_batch: int = 256) -> None:
        if largest_batch < 1:
            raise AskedWrongly(f"largest_batch = {largest_batch}: it is at least 1")
        with torch.compiler.set_stance("force_eager"):
            _check_decoder(model)
        self._model = model
        self._sampling = sampling
        self._largest_batch = largest_batch
        self._version = 0

    def follow(self, version: int) -> None:
        """Rollouts from now on carry this policy version; the weights are the trainer's own, nothing is kept."""
        self._version = version

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        """One rollout of each prompt for each seed, prompt by prompt; see `Sampler`."""
        check_fits(self._model, prompts, limit_tokens=self._sampling.limit_tokens)
        if not seeds:
            return []
        with torch.compiler.set_stance("force_eager"):  # compiled layers are for the update's long rows
            return self._sample(prompts, seeds)

    def _sample(self, prompts: Sequence[Prompt], seeds: Sequence[int]) -> list[Rollout]:
        numbered = list(enumerate(seeds))
        at_once = max(1, self._largest_batch // len(seeds))
        rollouts: list[Rollout] = []
        for start in range(0, len(prompts), at_once):
            for first in range(0, len(numbered), self._largest_batch):
                some = numbered[first : first + self._largest_batch]
                rollouts += self._sample_batch(prompts[start : start + at_once], some)
        return rollouts

    @torch.no_grad()
    def _sample_batch(self, prompts: Sequence[Prompt], seeds: Sequence[tuple[int, int]]) -> list[Rollout]:
        running = [
            _Running(prompt=prompt, sample=sample, uniforms=self._noise(prompt, seed))
            for prompt in prompts
            for sample, seed in seeds
        ]
        decoder = _Decoder(self._model, prompts)
        hidden_BH = decoder.repeat(decoder.prefill(), len(seeds))
        everyone = list(running)
        for position in range(self._sampling.limit_tokens):
            raw_logp_BV = raw_logp(head_logits(self._model, hidden_BH), self._sampling)
            logp_BV = raw_logp_BV if self._sampling.full_support else cut(raw_logp_BV, self._sampling)
            uniform_B = torch.stack([one.uniforms[position] for one in running])
            token_B = draw(logp_BV.exp(), uniform_B)
            chosen_B1, raw_B1 = (one.gather(-1, token_B.unsqueeze(-1)) for one in (logp_BV, raw_logp_BV))
            tokens, logps, raw_logps = token_B.tolist(), chosen_B1.flatten().tolist(), raw_B1.flatten().tolist()
            for one, token, logp, raw in zip(running, tokens, logps, raw_logps, strict=True):
                one.take(token, logp, raw, stops=token in self._model.stop_ids)
            alive = [index for index, one in enumerate(running) if not one.stopped]
            if not alive or position + 1 == self._sampling.limit_tokens:
                break
            if len(alive) <= len(running) // 2:  # the finished half would be computed for nothing
                running = [running[index] for index in alive]
                token_B = token_B[alive]
                decoder.keep(alive)
            hidden_BH = decoder.step(token_B)
        return [one.rollout(self._version, cut=not self._sampling.full_support) for one in everyone]

    def _noise(self, prompt: Prompt, seed: int) -> torch.Tensor:
        limit = self._sampling.limit_tokens
        noise = uniforms(seed=seed, row=prompt.row, epoch=prompt.epoch, tokens=limit)
        return noise.to(self._model.device)


class _Head(TypedDict):
    temperature: float
    chunk_tokens: int


class PlainScorer:
    """A `Scorer` by one forward pass over prompt and response."""

    def __init__(
        self,
        model: LanguageModel,
        *,
        temperature: float = 1.0,
        largest_tokens: int = 16_384,
        chunk_tokens: int = HEAD_CHUNK_TOKENS,
        alternatives: int = 0,
    ) -> None:
        self._model = model
        self._largest_tokens = largest_tokens
        self._head: _Head = {"temperature": temperature, "chunk_tokens": chunk_tokens}
        self._alternatives = alternatives

    @torch.no_grad()
    def score(self, rollouts: Sequence[Rollout]) -> list[ScoredRollout]:
        """Each rollout with the model's log-probability (nats) of its tokens; see `Scorer`.

        And with its `alternatives` likeliest tokens at each place, where that is not 0.
        """
        groups = micro_batches(rollouts, largest_tokens=self._largest_tokens, packs=self._model.packs)
        rows = [packed([rollouts[index] for index in group], device=self._model.device) for group in groups]
        found: dict[int, torch.Tensor] = {}  # on the device, so that nothing waits until all is handed over
        others: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for group, sequences in zip(groups, rows, strict=True):
            hidden_NH, ids_N = before_kept(self._model, sequences)
            logp_N = logp_of(self._model, hidden_NH, ids_N, **self._head)
            found |= zip(group, logp_N.split(sequences.responses), strict=True)
            if self._alternatives:
                both = likeliest(self._model, hidden_NH, count=self._alternatives, **self._head)
                apart = (one.split(sequences.responses) for one in both)
                others |= zip(group, zip(*apart, strict=True), strict=True)
        return [
            ScoredRollout(
                rollout=rollout,
                teacher_logp=_finite(rollout, found[index]),
                alternatives=_alternatives(*others[index]) if others else None,
            )
            for index, rollout in enumerate(rollouts)
        ]


def _alternatives(ids_TK: torch.Tensor, logp_TK: torch.Tensor) -> Alternatives:
    return Alternatives(
        count=ids_TK.shape[-1],
        ids=array("i", ids_TK.to("cpu", torch.int32).numpy().tobytes()),
        logp=array("f", logp_TK.to("cpu", torch.float32).numpy().tobytes()),
    )


def misfit(module: Any) -> str | None:
    """Why transformers' model can't be sampled from here, as far as its build shows; None when nothing speaks for it.

    The rollouts of a prompt share its prefill, so a layer's past must be something to repeat and to select from: keys
    and values are, the state of a recurrent layer is not.
    """
    layers = DynamicCache(config=module.config).layers
    if any(not hasattr(layer, "batch_repeat_interleave") or hasattr(layer, "recurrent_states") for layer in layers):
        return "it has recurrent layers, whose state can't be shared by the rollouts of a prompt"
    taken = _arguments(module.get_decoder())
    if not taken & {"past_key_values", "cache"}:
        return "its forward pass takes no keys and values of the past"
    return None


def sampling_logp(logits_BV: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """logp_BV of the distribution that is sampled from: scaled, cut to top-k, top-p and min-p, renormalised."""
    logp_BV = raw_logp(logits_BV, sampling)
    return logp_BV if sampling.full_support else cut(logp_BV, sampling)


def raw_logp(logits_BV: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """logp_BV of softmax(logits / temperature), with nothing cut."""
    return (logits_BV / sampling.temperature).log_softmax(dim=-1)


def cut(logp_BV: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """logp_BV of what top-k, top-p and min-p all leave, renormalised; each is asked of the whole distribution."""
    ordered_BV, order_BV = logp_BV.sort(dim=-1, descending=True, stable=True)
    before_BV = ordered_BV.exp().cumsum(dim=-1) - ordered_BV.exp()  # probability of the likelier tokens
    dropped_BV = before_BV >= (sampling.top_p if sampling.top_p < 1 else torch.inf)  # rounded, a sum reaches 1
    if sampling.top_k:
        dropped_BV[:, sampling.top_k :] = True
    if sampling.min_p:
        dropped_BV |= ordered_BV < ordered_BV[:, :1] + math.log(sampling.min_p)
    dropped_BV[:, 0] = False
    dropped_BV = torch.zeros_like(dropped_BV).scatter(-1, order_BV, dropped_BV)
    return logp_BV.masked_fill(dropped_BV, -torch.inf).log_softmax(dim=-1)


@dataclass(slots=True, kw_only=True)
class _Running:
    """One rollout while it is being sampled."""

    prompt: Prompt
    sample: int
    uniforms: torch.Tensor
    token_ids: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    raw_logp: list[float] = field(default_factory=list)
    stopped: bool = False

    def take(self, token: int, logp: float, raw_logp: float, *, stops: bool) -> None:
        if not self.stopped:
            self.token_ids.append(token)
            self.logp.append(logp)
            self.raw_logp.append(raw_logp)
            self.stopped = stops

    def rollout(self, version: int, *, cut: bool) -> Rollout:
        return Rollout(
            prompt=self.prompt,
            sample=self.sample,
            token_ids=tuple(self.token_ids),
            logp=tuple(self.logp),
            raw_logp=tuple(self.raw_logp) if cut else None,
            stop=StopReason.EOS if self.stopped else StopReason.LENGTH,
            policy_version=version,
        )


class _Decoder:
    """Transformers' decoder with its cache: one hidden state a running sequence, a token at a time."""

    def __init__(self, model: LanguageModel, prompts: Sequence[Prompt]) -> None:
        self._decoder = model.module.get_decoder()
        self._cache = DynamicCache(config=model.module.config)
        self._cache_name = "cache" if "cache" in _arguments(self._decoder) else "past_key_values"
        longest = max(len(prompt.token_ids) for prompt in prompts)
        self._ids_BT = torch.zeros(len(prompts), longest, dtype=torch.long, device=model.device)
        self._real_BT = torch.zeros(len(prompts), longest, dtype=torch.long, device=model.device)
        for b, prompt in enumerate(prompts):
            start = longest - len(prompt.token_ids)
            self._ids_BT[b, start:] = torch.tensor(prompt.token_ids)
            self._real_BT[b, start:] = 1

    def prefill(self) -> torch.Tensor:
        """hidden_BH at the last token of each prompt."""
        position_BT = (self._real_BT.cumsum(dim=-1) - 1).clamp(min=0)
        return self._forward(self._ids_BT, position_BT)

    def repeat(self, hidden_BH: torch.Tensor, times: int) -> torch.Tensor:
        """The same hidden states and cache, each `times` times in a row: rollouts share their prompt's prefill."""
        self._cache.batch_repeat_interleave(times)
        self._real_BT = self._real_BT.repeat_interleave(times, dim=0)
        return hidden_BH.repeat_interleave(times, dim=0)

    def step(self, token_B: torch.Tensor) -> torch.Tensor:
        """hidden_BH after one more token each."""
        position_B1 = self._real_BT.sum(dim=-1, keepdim=True)
        self._real_BT = torch.cat([self._real_BT, torch.ones_like(position_B1)], dim=-1)
        return self._forward(token_B.unsqueeze(-1), position_B1)

    def keep(self, rows: Sequence[int]) -> None:
        """Only these sequences go on."""
        index = torch.tensor(rows, device=self._real_BT.device)
        self._cache.batch_select_indices(index)
        self._real_BT = self._real_BT[index]

    def _forward(self, ids_BT: torch.Tensor, position_BT: torch.Tensor) -> torch.Tensor:
        cache: dict[str, Any] = {self._cache_name: self._cache}
        output = self._decoder(
            input_ids=ids_BT, attention_mask=self._real_BT, position_ids=position_BT, use_cache=True, **cache
        )
        hidden_BH: torch.Tensor = output.last_hidden_state[:, -1]
        return hidden_BH


TRIED = ((2,), (0, 1, 1, 2))  # prompts of the trial, of different lengths, so that one is padded
FURTHER = (1, 2)  # tokens that each of them is gone on with


def _check_decoder(model: LanguageModel) -> None:
    """Nothing, when the decoder gives in steps, padded and repeated, what it gives at once; else `AskedWrongly`."""
    try:
        fault = misfit(model.module) or _trial(model)
    except torch.OutOfMemoryError:
        raise
    except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
    if fault is not None:
        kind = getattr(model.module.config, "model_type", type(model.module).__name__)
        raise AskedWrongly(
            f"{model.path}: opd can't sample from {kind}: {fault}; take a model whose layers all attend, or use this "
            "one as the teacher"
        )


@torch.no_grad()
def _trial(model: LanguageModel) -> str | None:
    """None when two prompts, taken through the decoder as rollouts are, end in the hidden states of each alone."""
    decoder = _Decoder(model, [Prompt(row=n, problem="", answer="", token_ids=ids) for n, ids in enumerate(TRIED)])
    decoder.repeat(decoder.prefill(), 2)
    steps = torch.tensor(FURTHER, device=model.device)
    decoder.step(steps[0].repeat(4))
    decoder.keep([1, 2])  # of each prompt one
    found_BH = decoder.step(steps[1].repeat(2))
    plain = model.module.get_decoder()
    rows = [torch.tensor([(*ids, *FURTHER)], device=model.device) for ids in TRIED]
    expected_BH = torch.stack([plain(input_ids=ids, use_cache=False).last_hidden_state[0, -1] for ids in rows])
    if not torch.isfinite(expected_BH).all():
        return None  # its numbers are broken, not its build; what samples or scores says so, with the row
    largest = float(expected_BH.abs().max())
    apart = float((found_BH - expected_BH).abs().max())
    # a gross error is meant: a narrow dtype and a deep model part by far more than one rounding
    if not apart <= largest * min(0.25, 1_024 * torch.finfo(expected_BH.dtype).eps):
        return f"in steps, its hidden states lie {apart:.2g} from those at once"
    return None


def _arguments(module: Any) -> frozenset[str]:
    """Transformers renamed the cache's argument in 5.24 and warns about the old name."""
    return frozenset(inspect.signature(module.forward).parameters)


def _finite(rollout: Rollout, logp_T: torch.Tensor) -> tuple[float, ...]:
    values = tuple(logp_T.tolist())
    if not bool(torch.isfinite(logp_T).all()):
        bad = next(index for index, value in enumerate(values) if not -float("inf") < value < float("inf"))
        raise FloatingPointError(
            f"row {rollout.prompt.row}: the score of token {bad} is {values[bad]}; nothing was updated"
        )
    return values
