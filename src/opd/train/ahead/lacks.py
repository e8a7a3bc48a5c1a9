"""What a recipe needs and this machine does not have, said all at once, before anything is loaded or made."""

from collections.abc import Callable, Mapping
from functools import partial

import torch

from opd.models.adapters import missing_library
from opd.models.layers import missing_compiler
from opd.models.machine import device_meant, memory_bytes
from opd.models.served.scorer import check_here
from opd.models.vllm.installed import vllm_version
from opd.models.vllm.team import unshared
from opd.records.errors import AskedWrongly
from opd.train.ahead.memory import GIB, Found, further_sharing, least_bytes, look, teachers_weights
from opd.train.prompts.data import check_data
from opd.train.recipe import Recipe
from opd.train.reward import unusable_grader
from opd.train.sink import lacking
from opd.train.teachers import TeacherName, role, section


def lacks(recipe: Recipe, *, ranks: int = 1) -> list[str]:
    """Everything that so many ranks of the recipe need and don't have here; empty when the run can start.

    A model on the hub is fetched only when nothing else is lacking.
    """
    student, teachers = look(recipe.student), look_at_teachers(recipe)
    others = _beside_models(recipe, ranks)
    if not others and _least_memory(recipe, student, teachers, ranks) is None:
        student = student if student.here else look(recipe.student, fetch=True)
        fetched = look_at_teachers(recipe, fetch=True)
        teachers = {name: one if one.here else fetched[name] for name, one in teachers.items()}
    return [*_of_models(recipe, student, teachers, ranks), *others]


def missing_here(
    recipe: Recipe, student: Found, teachers: Mapping[TeacherName, Found], *, ranks: int = 1
) -> list[str]:
    """The same with these models as they were found; nothing is fetched."""
    return [*_of_models(recipe, student, teachers, ranks), *_beside_models(recipe, ranks)]


def look_at_teachers(recipe: Recipe, *, fetch: bool = False) -> dict[TeacherName, Found]:
    """What there is of each teacher, by its name; see `look`."""
    return {name: look(one, fetch=fetch, weights=one.reads_weights) for name, one in recipe.all_teachers.items()}


def _of_models(recipe: Recipe, student: Found, teachers: Mapping[TeacherName, Found], ranks: int) -> list[str]:
    found = {"student": student, **{role(name): one for name, one in teachers.items()}}
    faults = [f"{who}: {one.fault}" for who, one in found.items() if one.fault]
    return faults + [fault for fault in [_least_memory(recipe, student, teachers, ranks)] if fault]


def _beside_models(recipe: Recipe, ranks: int) -> list[str]:
    faults = [
        _fault(lambda: check_data(recipe.data), "training data"),
        *lacking(recipe.sinks),
        missing_library() if recipe.lora is not None else None,
        missing_compiler(device_meant(recipe.machine.device)) if recipe.machine.compile else None,
        unusable_grader(recipe.reward),
        _fault(vllm_version, "machine") if recipe.vllms else None,
        unshared(recipe.machine.tensor_parallel, ranks=ranks),
        *(
            _fault(partial(check_here, one.served, section=section(name)), role(name))
            for name, one in recipe.all_teachers.items()
            if one.scorer == "served"
        ),
    ]
    return [fault for fault in faults if fault]


def _least_memory(recipe: Recipe, student: Found, teachers: Mapping[TeacherName, Found], ranks: int) -> str | None:
    """The floor of each rank, which a run refuses to start below: what it has of models and optimizer."""
    device = device_meant(recipe.machine.device)
    needed = None
    # a served one is on another machine, or at least in another process
    here = [one for name, one in teachers.items() if recipe.all_teachers[name].scorer != "served"]
    if student.parameters is not None and all(one.parameters is not None for one in here):
        needed = least_bytes(recipe, student, ranks=ranks)
        needed += sum(part.bytes for part in teachers_weights(recipe, teachers, device=device))
    amount = "" if needed is None else f" with at least {needed / GIB:.0f} GiB"
    if device == "cuda" and not torch.cuda.is_available():
        what = f"a CUDA device{amount}; this machine has none"
        return f"device: the recipe asks for {what}"
    has = memory_bytes(device)
    if needed is not None and needed > has:
        taken = (
            f"weights, optimizer state and gradients take {needed / GIB:.1f} GiB{' of a rank' if ranks > 1 else ''}"
        )
        return "; ".join(
            [f"memory: {taken}, {device} has {has / GIB:.1f} GiB", *further_sharing(recipe, ranks=ranks)]
        )
    return None


def _fault(check: Callable[[], object], what: str) -> str | None:
    try:
        check()
    except AskedWrongly as error:
        return f"{what}: {error}"
    return None
