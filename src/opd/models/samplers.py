"""Which sampler draws the rollouts of a model: the engine, or transformers' own forward."""

from dataclasses import dataclass
from typing import Literal

from opd.models.engine.sampler import EngineSampler
from opd.models.engine.shape import misfit
from opd.models.interfaces import Sampler, Sampling
from opd.models.load import LanguageModel
from opd.models.plain import PlainSampler

EngineChoice = Literal["auto", "engine", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A sampler, and which it is."""

    sampler: Sampler
    said: str  # `engine`, or `plain` with the reason where it was not asked for


def choose_sampler(model: LanguageModel, sampling: Sampling, *, engine: EngineChoice, largest_batch: int) -> Chosen:
    """The sampler that was asked for; `auto` is the engine for every model that it can run.

    Raises `AskedWrongly` when the engine was asked for and can't run the model.
    """
    reason = misfit(model.module) if engine == "auto" else None
    if engine == "plain" or reason:
        sampler: Sampler = PlainSampler(model, sampling, largest_batch=largest_batch)
        return Chosen(sampler=sampler, said=f"plain: {reason}" if reason else "plain")
    return Chosen(sampler=EngineSampler(model, sampling, largest_batch=largest_batch), said="engine")
