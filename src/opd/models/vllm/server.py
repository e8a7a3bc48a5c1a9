"""One vLLM, in this process or with others of a team, that computes with the weights of a transformers model.

Shapes: V the tokenizer's ids, R rows of embedding and head, V and padding.

    start       a folder with config.json alone, V for vocab_size ── load_format "dummy" ──► weights of no meaning
    refresh     parameters ── rows beyond V left out ──► load_weights;  prefix cache dropped;  canary
    generate    token ids, SamplingParams ──► outputs; refreshed before, where the weights have moved
    rest        memory given back, where asked for: the weights are gone with it, and the next refresh sends them

vLLM knows ids below V alone. So no padded row of the head has a share of its softmax, in sampling or in scoring, and
none is drawn (faults E33, E34). The folder holds no generation_config.json (E42). Keys and values of a prefix are
kept for the weights that they were computed with (E41), and nothing is generated with weights that were not checked
since they were sent (E39, E40). Each rank of a team sends the whole tensors, one after the other, and its vLLM takes
its part of each.
"""

import copy
import gc
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from opd.models.adapters import has_adapters
from opd.models.load import LanguageModel
from opd.models.logprobs import token_logp
from opd.models.randomness import randomness_kept
from opd.models.sequences import pack
from opd.models.vllm.installed import find_vllm, forget_graph_pool
from opd.models.vllm.memory import BLOCK_TOKENS, Size, memory_arguments
from opd.models.vllm.team import Team, uncut
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import write_json

DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
GRAPHS = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}  # without inductor, which takes a minute and saves 7 %
DISCARD = 2  # level of sleep at which weights are not kept in the host's memory: they are sent anew
CANARY_TOKENS = 17  # the first has no predictor
CANARY_SHARE = 0.05  # of the mean -log-probability, by which its mean may be off, in bf16
CANARY_NATS = 0.1


class Server:
    """vLLM with the weights of `model`, started when it is first used.

    `sleeps`: `rest` gives its memory back. `shares_prefixes`: keys and values of a prompt are computed once for all
    of its rollouts. `team` are the ranks that it spans. `compilation` is vLLM's own setting. `vllm` is the module of
    that name. Raises `AskedWrongly` for a model that is a misfit.
    """

    def __init__(
        self,
        model: LanguageModel,
        size: Size,
        *,
        sleeps: bool = False,
        shares_prefixes: bool = True,
        team: Team | None = None,
        compilation: Mapping[str, Any] = GRAPHS,
        vllm: Any = None,
    ) -> None:
        self.team = Team() if team is None else team
        if reason := misfit(model.module) or uncut(model.module.config, self.team.size):
            raise AskedWrongly(f"{model.path}: vLLM can't run this model here: {reason}")
        self.vllm = find_vllm() if vllm is None else vllm
        self.size = size
        self._model = model
        self._sleeps = sleeps
        self._shares_prefixes = shares_prefixes
        self._compilation = dict(compilation)
        self._llm: Any = None
        self._stop: Callable[[], object] = lambda: None  # what ends it, when nobody has this server any more
        self._fresh = False
        self._asleep = False

    def outdate(self) -> None:
        """The model's weights have changed, or will have before the next call."""
        self._fresh = False

    def generate(self, token_ids: Sequence[Sequence[int]], settings: Sequence[Any]) -> list[Any]:
        """A `RequestOutput` for each of these token ids under its `SamplingParams`, by the weights as they are now.

        All ranks of a team are given the same, and get the same, or `AnswerIsNo`. Raises `AskedWrongly` when one
        could grow longer than the server was made for: vLLM would cut it short.
        """
        longest = max((len(ids) + one.max_tokens for ids, one in zip(token_ids, settings, strict=True)), default=0)
        if longest > self.size.sequence_tokens:
            raise AskedWrongly(
                f"{longest} tokens of a prompt and its limit: vLLM was started for sequences of "
                f"{self.size.sequence_tokens}"
            )
        with randomness_kept():  # vLLM seeds the generators of its process when it starts, and draws from them
            if not self._fresh:
                self._refresh()
            outputs = self._generated(token_ids, settings)
        self.team.check_alike(outputs)
        return outputs

    def rest(self) -> None:
        """Memory of weights and cache is given back, where the server sleeps."""
        if self._sleeps and self._llm is not None and not self._asleep:
            self.team.done(partial(self._llm.sleep, level=DISCARD))
            self._asleep, self._fresh = True, False

    def close(self) -> None:
        """The memory of vLLM is free again once no other runs in the process; another call would start it anew."""
        self._llm = None
        self._stop()
        self._stop = lambda: None
        self._fresh = self._asleep = False
        if torch.cuda.is_available():
            gc.collect()  # its parts know each other
            torch.cuda.empty_cache()

    def _refresh(self) -> None:
        if self._llm is None:
            self._llm = self._start()
        if self._asleep:
            self.team.done(self._llm.wake_up)
            self._asleep = False
        (left,) = self.team.done(partial(self._llm.apply_model, self._load))
        if left:
            raise AskedWrongly(
                f"{self._model.path}: of vLLM's tensors {len(left)} are in none of the model's, {left[0]} first"
            )
        if not self.team.done(self._llm.reset_prefix_cache):
            raise RuntimeError("vLLM did not drop its prefix cache, with no request running")
        self._check_canary()
        self._fresh = True

    @torch.no_grad()
    def _load(self, module: Any) -> list[str]:
        """Names of vLLM's parameters that were not loaded, after the others were."""
        loaded = module.load_weights(checkpoint_weights(self._model))
        return sorted({name for name, _ in module.named_parameters()} - set(loaded or ()))

    def _generated(self, token_ids: Sequence[Sequence[int]], settings: Sequence[Any]) -> list[Any]:
        prompts = [{"prompt_token_ids": list(ids)} for ids in token_ids]
        if not prompts:
            return []
        outputs: list[Any] = self.team.done(partial(self._llm.generate, prompts, list(settings), use_tqdm=False))
        return outputs

    def _start(self) -> Any:
        folder = Path(tempfile.mkdtemp(prefix="opd-vllm-"))
        write_json(folder / "config.json", served_config(self._model))
        arguments = {
            "dtype": DTYPES[self._model.module.dtype],
            "load_format": "dummy",
            "skip_tokenizer_init": True,
            "generation_config": "vllm",
            "seed": 0,
            "max_model_len": self.size.sequence_tokens,
            "max_num_seqs": self.size.rows,
            "max_num_batched_tokens": max(self.size.batch_tokens, self.size.rows),
            "enable_chunked_prefill": True,
            "enable_prefix_caching": self._shares_prefixes,
            "block_size": BLOCK_TOKENS,
            "logprobs_mode": "processed_logprobs",
            "enable_sleep_mode": self._sleeps,
            "compilation_config": self._compilation,
            **memory_arguments(self._model.module, self.size, self.team),
            **self.team.arguments,
        }
        try:
            llm = self.team.done(partial(self.vllm.LLM, str(folder), **arguments))
        except (ValueError, RuntimeError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, torch.OutOfMemoryError):
                raise
            first = str(error).strip().partition("\n")[0]
            raise AskedWrongly(f"{self._model.path}: vLLM does not start with it: {first:.300}") from error
        _running.append(llm)
        self._stop = weakref.finalize(self, _stop, llm, folder, self.team.end)
        return llm

    def _check_canary(self) -> None:
        """Nothing, when vLLM finds sixteen tokens as likely as the model itself does; else `AnswerIsNo`."""
        if self._model.context_tokens <= CANARY_TOKENS or self.size.sequence_tokens <= CANARY_TOKENS:
            return
        ids = [(1 + 7_919 * place) % self._model.vocabulary for place in range(CANARY_TOKENS)]
        found = prompt_logp(self._generated([ids], [scoring_settings(self.vllm)])[0], ids)
        expected = self.team.done(partial(_own_logp, self._model, ids))  # layers may be brought together for it
        if not all(map(math.isfinite, expected)):
            return  # the model's own numbers are broken: what is sampled says so, with the row
        apart = math.fsum(abs(a - b) for a, b in zip(found, expected, strict=True)) / len(expected)
        allowed = CANARY_NATS + CANARY_SHARE * abs(math.fsum(expected)) / len(expected)
        if not apart <= allowed:
            raise AnswerIsNo(
                f"vLLM's log-probabilities of {len(ids) - 1} tokens lie {apart:.3g} nats a token from the trainer's, "
                f"and {allowed:.3g} would be rounding: the weights that it computes with are not those it was sent"
            )


_running: list[Any] = []  # every vLLM of this process
_ended: list[tuple[Any, Callable[[Any], object]]] = []  # those of them that nobody needs any more, and what ends them


def _stop(llm: Any, folder: Path, end: Callable[[Any], object]) -> None:
    """It ends with the last of the process: each that ends takes the process group with it, which all of them use."""
    shutil.rmtree(folder, ignore_errors=True)
    _ended.append((llm, end))
    if {id(one) for one in _running} <= {id(one) for one, _ in _ended}:
        for one, its_end in _ended:
            its_end(one)
        _running.clear()
        _ended.clear()
        forget_graph_pool()


def misfit(module: Any) -> str | None:
    """Why vLLM can't compute with the weights of this transformers model, as far as its build shows; else None."""
    if has_adapters(module):
        return "it has adapters, and their product would have to be merged for every update; leave lora out"
    if module.dtype not in DTYPES:
        return f"it computes in {str(module.dtype).removeprefix('torch.')}, and vLLM has {', '.join(DTYPES.values())}"
    if module.config.get_text_config() is not module.config:
        return f"{module.config.model_type} holds a decoder inside another model"
    if getattr(module.config, "quantization_config", None):
        return "its weights are quantised"
    return None


def served_config(model: LanguageModel) -> dict[str, Any]:
    """The `config.json` of the model with the tokenizer's ids alone, and nothing that ends or shapes a response."""
    config = copy.deepcopy(model.module.config)
    config.vocab_size = model.vocabulary
    config.architectures = [type(model.module).__name__]
    values: dict[str, Any] = config.to_dict()
    return values | {"eos_token_id": None}


def checkpoint_weights(model: LanguageModel) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters by a checkpoint's names, tied ones once; of embedding and head the tokenizer's rows.

    One of which each rank has rows (`train/ranks/layers.py`) is brought together as it is asked for, by all of them.
    """
    module = model.module
    padded = {id(one.weight) for one in (module.get_input_embeddings(), module.get_output_embeddings())}
    for name, parameter in module.named_parameters():
        live = _whole(parameter.detach(), module.dtype)
        yield name, live[: model.vocabulary] if id(parameter) in padded else live


def _whole(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not isinstance(tensor, DTensor):
        return tensor
    rows: Any = tensor.to(dtype)
    whole: torch.Tensor = rows.full_tensor()
    return whole


@torch.no_grad()
def _own_logp(model: LanguageModel, ids: list[int]) -> list[float]:
    """Nats of each of the token ids but the first, by the model's own module."""
    found: list[float] = token_logp(model, pack([(ids[:1], ids[1:])], device=model.device)).tolist()
    return found


def scoring_settings(vllm: Any) -> Any:
    """`SamplingParams` for the log-probabilities of what is given; the one token that is made is thrown away."""
    return vllm.SamplingParams(
        temperature=0.0, max_tokens=1, ignore_eos=True, prompt_logprobs=0, detokenize=False, flat_logprobs=True
    )


def prompt_logp(output: Any, token_ids: Sequence[int]) -> list[float]:
    """Nats of each of the token ids but the first, which nothing predicts.

    Raises `RuntimeError` when vLLM gave none of one of them: a score that can't be had is never a zero (faults E45).
    """
    given = output.prompt_logprobs
    if given is None or len(given) != len(token_ids):
        count = "no" if given is None else len(given)
        raise RuntimeError(f"vLLM gave {count} log-probabilities for {len(token_ids)} tokens")
    return [logp_at(given, place, token_ids[place]) for place in range(1, len(token_ids))]


def logp_at(given: Any, place: int, token: int) -> float:
    """Nats of the token at this place of what vLLM gave."""
    here = given[place]
    if not here or token not in here:
        raise RuntimeError(f"vLLM gave no log-probability of token {token} at place {place}")
    return float(here[token].logprob)
