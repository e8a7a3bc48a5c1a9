"""Which sampler draws the rollouts of a model: the engine, or transformers' own forward."""

from dataclasses import dataclass
from typing import Any, Literal

from opd.models.engine.sampler import EngineSampler
from opd.models.engine.shape import misfit
from opd.models.interfaces import Sampler, Sampling
from opd.models.load import LanguageModel
from opd.models.plain import PlainSampler
from opd.models.plain import misfit as plain_misfit
from opd.records.errors import AskedWrongly

ENGINE = "engine"
EngineChoice = Literal["auto", "engine", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A sampler, and which it is."""

    sampler: Sampler
    said: str  # `engine`, or `plain` with the reason where it was not asked for


def choose_sampler(model: LanguageModel, sampling: Sampling, *, engine: EngineChoice, largest_batch: int) -> Chosen:
    """The sampler that was asked for; `auto` is the engine for every model that it can run.

    Raises `AskedWrongly` when the engine was asked for and can't run the model, or nothing can.
    """
    said = sampler_meant(model.module, engine=engine)
    if said == ENGINE:
        return Chosen(sampler=EngineSampler(model, sampling, largest_batch=largest_batch), said=said)
    return Chosen(sampler=PlainSampler(model, sampling, largest_batch=largest_batch), said=said)


def sampler_meant(module: Any, *, engine: EngineChoice) -> str:
    """Which sampler transformers' model gets, as `Chosen.said`; its weights need not be there.

    Raises `AskedWrongly` as `choose_sampler` does, as far as the model's build shows.
    """
    reason = None if engine == "plain" else misfit(module)
    if engine != "plain" and reason is None:
        return ENGINE
    if engine == ENGINE:
        raise AskedWrongly(f'the engine can\'t run this model: {reason}; set machine.engine = "auto"')
    if fault := plain_misfit(module):
        raise AskedWrongly(f"opd can't sample from {module.config.model_type}: {fault}")
    return f"plain: {reason}" if reason else "plain"
