"""All ranks have something to do, were called alike, and begin from the same things.

Else they would train different students, or wait for each other in different places. How they were called is compared
before anything else is said between them; training file and models once they are there.
"""

from collections.abc import Mapping

from opd.models.machine import choose_device
from opd.records.errors import AskedWrongly
from opd.records.files import digest
from opd.records.install import install
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


def check_same_call(recipe: Settings, *, device: str, resumes: bool, rehearses: bool | None, ranks: Ranks) -> None:
    """Nothing, when all ranks were called like rank 0, by the same code; else `AskedWrongly` on all of them.

    `device` is the recipe's; `rehearses` is what was asked for, None where nothing was.
    """
    if ranks.count == 1:
        return
    asked = {None: "not asked", True: "--rehearse", False: "--no-rehearse"}
    own = {
        "resumed": "--resume" if resumes else "a new run",
        "rehearsal": asked[rehearses],
        "recipe": recipe.digest[:12],
        "device": choose_device(device),
        **install(),
    }
    _refuse_differing(own, ranks, do="call all of them with the same words, by the same install")


def check_same_inputs(recipe: Settings, *, data: str, origins: Settings, ranks: Ranks) -> None:
    """Nothing, when all ranks have the recipe, the files and the install of rank 0; else `AskedWrongly` on all."""
    if ranks.count == 1:
        return
    own = {
        "recipe": recipe.digest[:12],
        "training file": data[:12],
        "model files": digest(origins.resolved())[:12],
        **install(),
    }
    _refuse_differing(own, ranks, do="give all machines the same files, recipe and install")


def _refuse_differing(own: Mapping[str, str], ranks: Ranks, *, do: str) -> None:
    first, *others = ranks.everyone(own)
    differing = [
        f"rank {rank} has {what} {other.get(what, 'none')}, rank 0 {first.get(what, 'none')}"
        for rank, other in enumerate(others, start=1)
        for what in {**first, **other}
        if other.get(what) != first.get(what)
    ]
    if differing:
        error = AskedWrongly(f"the ranks don't begin from the same things: {'; '.join(differing)}; {do}")
        error.said_elsewhere = not ranks.writes
        raise error
