"""A small vLLM for a CPU: the surface of `vllm.LLM` 0.25 that opd uses, on transformers, with vLLM's own faults.

What it does as vLLM does: it computes with weights of its own, which `load_weights` copies; it draws by a race of
exponential numbers from a request's own generator; its log-probabilities are of the raw softmax unless
`logprobs_mode` says otherwise; it ends at the configuration's end-of-sequence ids unless told to ignore them, and
takes a model's `generation_config.json` for requests without settings; keys and values of a prompt stay until
`reset_prefix_cache`, whatever weights made them; level-2 sleep loses weights and cache, and is of one instance a
process; one that is shut down takes the process group of all with it. An argument or field that 0.25 does not have is
a `TypeError`.

Started by `external_launcher` it is one of `tensor_parallel_size` ranks in a row: it holds its part of each tensor,
cut as vLLM cuts it, and computes with what they all have, which they bring together when they are asked together;
what is drawn each draws for itself.
"""

import copy
import inspect
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakSet

import torch
import torch.distributed as dist
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, GenerationConfig

DEFAULT_LENGTH = 16
CUT_BY_ROWS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "embed_tokens", "lm_head")
CUT_BY_COLUMNS = ("o_proj.weight", "down_proj.weight")


@dataclass(kw_only=True)
class SamplingParams:
    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop_token_ids: list[int] = field(default_factory=list)
    ignore_eos: bool = False
    max_tokens: int = DEFAULT_LENGTH
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    flat_logprobs: bool = False
    detokenize: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature must be in [0, 2], got {self.temperature}.")
        if self.seed == -1:
            self.seed = None


@dataclass(frozen=True)
class Logprob:
    logprob: float


@dataclass(frozen=True)
class Parallel:
    """The ranks that this one computes with; the process has one such group, whatever runs in it."""

    size: int
    place: int
    group: Any

    def part(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """This rank's of a tensor."""
        by = _cut_by(name)
        return whole if by is None else whole.tensor_split(self.size, dim=by)[self.place]

    def whole(self, name: str, part: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """The tensor of which all have a part."""
        by = _cut_by(name)
        if by is None:
            return part
        parts = [one.contiguous() for one in torch.empty(shape, dtype=part.dtype).tensor_split(self.size, dim=by)]
        dist.all_gather(parts, part, group=self.group)
        return torch.cat(parts, dim=by)


class LLM:
    """The engine, in this process."""

    alive: ClassVar["WeakSet[LLM]"] = WeakSet()
    parallel: ClassVar[Parallel | None] = None

    def __init__(
        self,
        model: str,
        *,
        skip_tokenizer_init: bool = False,
        dtype: str = "auto",
        load_format: str = "auto",
        seed: int = 0,
        max_model_len: int | None = None,
        max_num_seqs: int = 256,
        max_num_batched_tokens: int = 8_192,
        enable_chunked_prefill: bool = True,
        enable_prefix_caching: bool = True,
        block_size: int = 16,
        gpu_memory_utilization: float = 0.92,
        kv_cache_memory_bytes: int | None = None,
        generation_config: str = "auto",
        logprobs_mode: str = "raw_logprobs",
        enable_sleep_mode: bool = False,
        compilation_config: Any = None,
        attention_backend: str | None = None,
        tensor_parallel_size: int = 1,
        distributed_executor_backend: str | None = None,
        disable_custom_all_reduce: bool = False,
    ) -> None:
        self.folder = Path(model)
        self.config = AutoConfig.from_pretrained(model)
        torch.manual_seed(seed)  # vLLM seeds every generator of its process
        if load_format != "dummy" or not skip_tokenizer_init:
            raise ValueError("the double has weights and tokenizer from nobody")
        self.max_model_len = max_model_len or self.config.max_position_embeddings
        if self.max_model_len > self.config.max_position_embeddings:
            raise ValueError(
                f"max_model_len ({max_model_len}) is greater than the derived max_model_len\nsecond line"
            )
        self.module = AutoModelForCausalLM.from_config(self.config, dtype=getattr(torch, dtype)).eval()
        self.parts: dict[str, torch.Tensor] = dict(self.module.named_parameters())
        if distributed_executor_backend == "external_launcher":
            self._join(tensor_parallel_size)
        elif tensor_parallel_size > 1:
            raise ValueError(f"World size ({tensor_parallel_size}) is larger than the number of available GPUs (1)")
        self.logprobs_mode = logprobs_mode
        self.generation_config = generation_config
        self.caches = enable_prefix_caching
        self.sleeps = enable_sleep_mode
        self.asleep = False
        self.prefixes: dict[tuple[int, ...], DynamicCache] = {}
        self.seen: list[SamplingParams] = []
        self.prefills = 0
        self.grouped = True
        if enable_sleep_mode and any(one.sleeps and not one.closed for one in LLM.alive if one is not self):
            raise AssertionError("CuMem allocator can only be used for one instance per process.")
        LLM.alive.add(self)
        self.closed = False
        executor, scheduler = SimpleNamespace(shutdown=self._give_back), SimpleNamespace(shutdown=lambda: None)
        engine = SimpleNamespace(model_executor=executor, scheduler=scheduler)
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(engine_core=engine, shutdown=self._shutdown))

    # --- what opd calls ---------------------------------------------------------------------------------

    def apply_model(self, func: Any) -> list[Any]:
        return [func(_Worker(self))]

    def reset_prefix_cache(self) -> bool:
        self.prefixes.clear()
        return True

    def sleep(self, level: int = 1) -> None:
        if not self.sleeps:
            raise ValueError("Sleep mode is not enabled. Please set `enable_sleep_mode=True`")
        self.asleep = True
        self.prefixes.clear()
        if level == 2:
            with torch.no_grad():
                for parameter in (*self.module.parameters(), *self.parts.values()):
                    parameter.zero_()  # whatever lies in the memory that is mapped again

    def wake_up(self) -> None:
        self.asleep = False

    @torch.no_grad()
    def generate(self, prompts: Any, sampling_params: Any = None, *, use_tqdm: bool = True) -> list[Any]:
        assert self.grouped, "tensor model parallel group is not initialized"
        if self.asleep or self.closed:
            raise RuntimeError("the engine is asleep")
        if sampling_params is None:
            sampling_params = [self._default_settings() for _ in prompts]
        assert len(prompts) == len(sampling_params)
        self._bring_together()
        self.seen += sampling_params
        pairs = zip(prompts, sampling_params, strict=True)
        return [self._request(prompt["prompt_token_ids"], settings) for prompt, settings in pairs]

    # --- how -------------------------------------------------------------------------------------------

    def _with(self, cache: DynamicCache) -> dict[str, Any]:
        """Transformers renamed the argument in 5.24."""
        names = inspect.signature(self.module.forward).parameters
        return {"cache" if "cache" in names else "past_key_values": cache, "use_cache": True}

    def _join(self, size: int) -> None:
        rank, _ = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        if not dist.is_initialized():
            dist.init_process_group("gloo", init_method="env://")
        if LLM.parallel is None:
            firsts = range(0, dist.get_world_size(), size)
            groups = [dist.new_group(list(range(first, first + size)), backend="gloo") for first in firsts]
            LLM.parallel = Parallel(size, rank % size, groups[rank // size])
        assert LLM.parallel.size == size, "tensor parallel group already initialized with a different size"
        for name, parameter in self.module.named_parameters():
            self.parts[name] = LLM.parallel.part(name, parameter.detach()).clone()

    def _bring_together(self) -> None:
        if LLM.parallel is None:
            return
        for name, parameter in self.module.named_parameters():
            parameter.copy_(LLM.parallel.whole(name, self.parts[name], parameter.shape))

    def _give_back(self) -> None:
        self.closed = True

    def _shutdown(self) -> None:
        self.closed = True
        if LLM.parallel is not None:
            dist.destroy_process_group()
        for one in LLM.alive:  # it destroys the process group, which is that of all
            one.grouped = False

    def _default_settings(self) -> SamplingParams:
        own = self.folder / "generation_config.json"
        if self.generation_config != "auto" or not own.is_file():
            return SamplingParams()
        values = GenerationConfig.from_pretrained(self.folder).to_diff_dict()
        names = ("repetition_penalty", "temperature", "top_p", "top_k")
        return SamplingParams(**{name: values[name] for name in names if values.get(name) is not None})

    def _end_ids(self) -> set[int]:
        try:
            ids = GenerationConfig.from_pretrained(self.folder).eos_token_id
        except OSError:
            ids = self.config.eos_token_id
        return set(ids if isinstance(ids, list) else [] if ids is None else [ids])

    def _request(self, ids: list[int], settings: SamplingParams) -> Any:
        if len(ids) >= self.max_model_len:
            raise ValueError(f"The decoder prompt (length {len(ids)}) is longer than the maximum model length")
        generator = torch.Generator().manual_seed(settings.seed) if settings.seed is not None else None
        ends = set(settings.stop_token_ids) | (set() if settings.ignore_eos else self._end_ids())
        cache, logits_V = self._prefill(ids, settings)
        drawn: list[int] = []
        logprobs: list[dict[int, Logprob]] = []
        reason = "length"
        while True:
            token, logp = self._draw(logits_V.float(), settings, generator)
            drawn.append(token)
            logprobs.append({token: Logprob(logp)})
            if token in ends:
                reason = "stop"
                break
            if len(drawn) >= settings.max_tokens or len(ids) + len(drawn) >= self.max_model_len:
                break
            output = self.module(input_ids=torch.tensor([[token]]), **self._with(cache))
            logits_V = output.logits[0, -1]
        return SimpleNamespace(
            prompt_logprobs=self._of_prompt(ids, settings),
            outputs=[
                SimpleNamespace(
                    token_ids=drawn,
                    logprobs=None if settings.logprobs is None else logprobs,
                    finish_reason=reason,
                )
            ],
        )

    def _prefill(self, ids: list[int], settings: SamplingParams) -> tuple[DynamicCache, torch.Tensor]:
        """Cache and logits after the prompt; all but its last token may come from the prefix cache."""
        prefix = tuple(ids[:-1])
        reads = self.caches and settings.prompt_logprobs is None
        if reads and prefix in self.prefixes:
            cache = copy.deepcopy(self.prefixes[prefix])
        else:
            cache = DynamicCache(config=self.config)
            self.prefills += 1
            if prefix:
                self.module(input_ids=torch.tensor([prefix]), **self._with(cache))
            if self.caches and prefix:
                self.prefixes[prefix] = copy.deepcopy(cache)
        output = self.module(input_ids=torch.tensor([ids[-1:]]), **self._with(cache))
        return cache, output.logits[0, -1]

    def _draw(
        self, raw_V: torch.Tensor, settings: SamplingParams, generator: torch.Generator | None
    ) -> tuple[int, float]:
        greedy = settings.temperature < 1e-5
        logits_V = raw_V if greedy else raw_V / settings.temperature
        logits_V = _cut(logits_V, settings)
        noise_V = torch.empty_like(logits_V).exponential_(generator=generator)
        race_V = logits_V if greedy else logits_V.softmax(-1) / noise_V
        token = int(race_V.argmax())
        reported_V = logits_V if self.logprobs_mode == "processed_logprobs" else raw_V
        return token, float(reported_V.log_softmax(-1)[token])

    def _of_prompt(self, ids: list[int], settings: SamplingParams) -> list[Any] | None:
        if settings.prompt_logprobs is None:
            return None
        logp_TV = self.module(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        return [None, *({token: Logprob(float(logp_TV[place, token]))} for place, token in enumerate(ids[1:]))]


class _Worker:
    """The model as vLLM's worker shows it: with a loader that takes a checkpoint's names, tied head or not."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def named_parameters(self) -> Any:
        return self._llm.parts.items()

    @torch.no_grad()
    def load_weights(self, weights: Any) -> set[str]:
        """What arrives are whole tensors, one at a time: its own part of each is copied."""
        whole = dict(self._llm.module.named_parameters())
        loaded = set()
        for name, tensor in weights:
            assert whole[name].shape == tensor.shape, (name, whole[name].shape, tensor.shape)
            part = tensor if LLM.parallel is None else LLM.parallel.part(name, tensor)
            self._llm.parts[name].copy_(part)
            loaded.add(name)
        return loaded


def _cut_by(name: str) -> int | None:
    """The dimension in which the ranks share a tensor; None for one that each has whole."""
    if name.endswith(CUT_BY_COLUMNS):
        return 1
    return 0 if any(one in name for one in CUT_BY_ROWS) else None


def _cut(logits_V: torch.Tensor, settings: SamplingParams) -> torch.Tensor:
    if settings.top_k > 0:
        least = logits_V.topk(settings.top_k).values[-1]
        logits_V = logits_V.masked_fill(logits_V < least, -torch.inf)
    if settings.top_p < 1:
        sorted_V, order_V = logits_V.sort()
        dropped_V = sorted_V.softmax(-1).cumsum(-1) <= 1 - settings.top_p
        dropped_V[-1] = False
        logits_V = logits_V.clone().masked_fill_(
            torch.zeros_like(dropped_V).scatter(-1, order_V, dropped_V), -torch.inf
        )
    return logits_V
