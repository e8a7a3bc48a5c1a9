"""All ranks have something to do, and begin from the same things: else they would train different students."""

from collections.abc import Mapping

import torch

import opd
from opd.records.errors import AskedWrongly
from opd.records.files import digest
from opd.records.settings import Settings
from opd.train.ranks.ranks import Ranks


def check_enough(prompts_per_step: int, ranks: Ranks) -> None:
    """Nothing, when each rank gets a prompt in each step."""
    for fault in too_many(ranks.count, prompts_per_step=prompts_per_step):
        raise AskedWrongly(fault)


def too_many(ranks: int, *, prompts_per_step: int) -> list[str]:
    """Why so many ranks can't share a step; empty when they can."""
    if prompts_per_step >= ranks:
        return []
    fault = (
        f"rollouts.prompts_per_step = {prompts_per_step} is fewer than the {ranks} ranks, and a prompt's rollouts "
        f"stay on one: start {prompts_per_step} at most, or raise it"
    )
    return [fault]


def check_same_inputs(recipe: Settings, *, data: str, origins: Settings, ranks: Ranks) -> None:
    """Nothing, when all ranks have the recipe, the files and the versions of rank 0; else `AskedWrongly` on all."""
    own = {
        "recipe": recipe.digest,
        "training file": data,
        "model files": digest(origins.resolved()),
        "opd": opd.__version__,
        "torch": torch.__version__,
    }
    found = ranks.everyone(own)
    differing = [f"rank {rank}: {what}" for rank, one in enumerate(found) for what in _differing(found[0], one)]
    if differing:
        raise AskedWrongly(
            f"the ranks don't begin from the same things ({'; '.join(differing)}, not as at rank 0); give all "
            "machines the same files, recipe and versions"
        )


def _differing(first: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return [what for what in first if first[what] != other[what]]
