"""Which sampler draws the rollouts of a model: the engine, transformers' own forward, or vLLM."""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from opd.models.engine.sampler import DraftsChoice, EngineSampler
from opd.models.engine.shape import misfit
from opd.models.interfaces import Sampler, Sampling
from opd.models.load import LanguageModel
from opd.models.plain import PlainSampler
from opd.models.plain import misfit as plain_misfit
from opd.models.vllm.installed import vllm_version
from opd.models.vllm.sampler import VllmSampler
from opd.models.vllm.server import misfit as vllm_misfit
from opd.models.vllm.team import Team, uncut
from opd.records.errors import AskedWrongly
from opd.records.metrics import Drafted

ENGINE = "engine"
OURS = {"auto": None, "engine": None, "persistent": True, "graphs": False}  # whether the persistent kernel has to run
EngineChoice = Literal["auto", "engine", "persistent", "graphs", "plain", "vllm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A sampler, and which it is."""

    sampler: Sampler
    said: str
    """`engine` with its path, `vllm` with its version, or `plain` with the reason where it was not asked for."""
    differs: bool = False
    """Whether its log-probabilities lie further from the trainer's than float32 rounds."""


def choose_sampler(
    model: LanguageModel,
    sampling: Sampling,
    *,
    engine: EngineChoice,
    largest_batch: int,
    drafts: DraftsChoice = "off",
    prompt_tokens: int | None = None,
    sleeps: bool = False,
    team: Team | None = None,
) -> Chosen:
    """The sampler that was asked for; `auto` is the engine for every model that it can run, and `drafts` need it.

    `prompt_tokens` are those of the longest prompt; null: not known, and vLLM makes room for all that the context
    leaves. vLLM has to know, too, whether it `sleeps`
    between two calls, and the ranks that it spans, its `team`. Raises `AskedWrongly` when what was asked for can't
    run the model, or nothing can.
    """
    said = sampler_meant(model.module, engine=engine, drafts=drafts)
    check_graphs(model, engine)
    narrow = torch.finfo(model.module.dtype).bits < 32
    if engine == "vllm":
        if prompt_tokens is None:
            prompt_tokens = model.context_tokens - sampling.limit_tokens
        served = VllmSampler(
            model, sampling, prompt_tokens=prompt_tokens, largest_batch=largest_batch, sleeps=sleeps, team=team
        )
        return Chosen(sampler=served, said=f"{said} {vllm_version()}", differs=True)
    if said == ENGINE:
        own = EngineSampler(
            model,
            sampling,
            largest_batch=largest_batch,
            persistent=OURS[engine],
            drafts=drafts,
            prompt_tokens=prompt_tokens or 1,
        )
        return Chosen(sampler=own, said=own.said, differs=narrow and model.exact is None)
    return Chosen(sampler=PlainSampler(model, sampling, largest_batch=largest_batch), said=said, differs=narrow)


def check_graphs(model: LanguageModel, engine: EngineChoice) -> None:
    """Nothing, unless graphs were asked for by name where there are none: `AskedWrongly`, as for any other path."""
    if engine == "graphs" and model.device.type != "cuda":
        raise AskedWrongly(
            f"{model.path}: machine.engine = {engine!r} can't be had here: CUDA graphs are a GPU's, and the model is "
            f"on the {model.device.type.upper()}; set it to 'auto'"
        )


def sampler_meant(
    module: Any, *, engine: EngineChoice, drafts: DraftsChoice = "off", tensor_parallel: int = 1
) -> str:
    """Which sampler transformers' model gets, as `Chosen.said` begins; its weights need not be there.

    vLLM would cut it into `tensor_parallel` parts. Raises `AskedWrongly` as `choose_sampler` does, as far as the
    model's build shows.
    """
    said = _build_meant(module, engine=engine, tensor_parallel=tensor_parallel)
    if drafts != "off" and said != ENGINE:
        sampler, _, reason = said.partition(": ")
        because = f": {reason}" if reason else ""
        raise AskedWrongly(
            f'machine.drafts = "{drafts}" is for the engine, and here samples {sampler}{because}; set drafts to "off"'
        )
    return said


def _build_meant(module: Any, *, engine: EngineChoice, tensor_parallel: int) -> str:
    if engine == "vllm":
        if fault := vllm_misfit(module) or uncut(module.config, tensor_parallel):
            raise AskedWrongly(f'vLLM can\'t run this model here: {fault}; set machine.engine = "auto"')
        return engine
    reason = None if engine == "plain" else misfit(module)
    if engine != "plain" and reason is None:
        return ENGINE
    if engine in OURS and engine != "auto":
        raise AskedWrongly(f'the engine can\'t run this model: {reason}; set machine.engine = "auto"')
    if fault := plain_misfit(module):
        raise AskedWrongly(f"opd can't sample from {module.config.model_type}: {fault}")
    return f"plain: {reason}" if reason else "plain"


def drafted_by(sampler: Sampler) -> Drafted | None:
    """What guesses came to in a sampler's last call; None where it makes none."""
    return sampler.drafted if isinstance(sampler, EngineSampler) else None
