"""What a recipe needs and this machine does not have, said all at once, before anything is loaded or made."""

from collections.abc import Callable
from functools import partial

import torch

from opd.models.adapters import missing_library
from opd.models.layers import missing_compiler
from opd.models.machine import device_meant, memory_bytes
from opd.models.served.scorer import check_here
from opd.models.vllm.installed import vllm_version
from opd.records.errors import AskedWrongly
from opd.train.data import check_data
from opd.train.memory import GIB, Found, look, state_bytes, trained_parameters
from opd.train.recipe import Recipe
from opd.train.reward import unusable_grader
from opd.train.sink import lacking


def lacks(recipe: Recipe) -> list[str]:
    """Everything that the recipe needs and this machine does not have; empty when the run can start.

    A model on the hub is fetched only when nothing else is lacking.
    """
    weights = recipe.reads_teacher
    student, teacher = look(recipe.student), look(recipe.teacher, weights=weights)
    others = _beside_models(recipe)
    if not others and _least_memory(recipe, student, teacher) is None:
        student = student if student.here else look(recipe.student, fetch=True)
        teacher = teacher if teacher.here else look(recipe.teacher, fetch=True, weights=weights)
    return [*_of_models(recipe, student, teacher), *others]


def missing_here(recipe: Recipe, student: Found, teacher: Found) -> list[str]:
    """The same with these two models as they were found; nothing is fetched."""
    return [*_of_models(recipe, student, teacher), *_beside_models(recipe)]


def _of_models(recipe: Recipe, student: Found, teacher: Found) -> list[str]:
    faults = [f"{role}: {one.fault}" for role, one in (("student", student), ("teacher", teacher)) if one.fault]
    return faults + [fault for fault in [_least_memory(recipe, student, teacher)] if fault]


def _beside_models(recipe: Recipe) -> list[str]:
    faults = [
        _fault(lambda: check_data(recipe.data), "training data"),
        *lacking(recipe.sinks),
        missing_library() if recipe.lora is not None else None,
        missing_compiler(device_meant(recipe.machine.device)) if recipe.machine.compile else None,
        unusable_grader(recipe.reward),
        _fault(vllm_version, "machine") if "vllm" in (recipe.machine.engine, recipe.machine.scorer) else None,
        _fault(partial(check_here, recipe.machine.served), "teacher") if recipe.machine.scorer == "served" else None,
    ]
    return [fault for fault in faults if fault]


def _least_memory(recipe: Recipe, student: Found, teacher: Found) -> str | None:
    """The floor that no setting of the machine lowers, which a run refuses to start below."""
    device = device_meant(recipe.machine.device)
    needed = None
    served = recipe.machine.scorer == "served"  # on another machine, or at least in another process
    if student.parameters is not None and (served or teacher.parameters is not None):
        needed = state_bytes(recipe.student, student.parameters, trained=trained_parameters(recipe, student))
    if needed is not None and teacher.parameters is not None and not served:
        needed += state_bytes(recipe.teacher, teacher.parameters, trained=0)
    amount = "" if needed is None else f" with at least {needed / GIB:.0f} GiB"
    if device == "cuda" and not torch.cuda.is_available():
        what = f"a CUDA device{amount}; this machine has none"
        return f"device: the recipe asks for {what}"
    has = memory_bytes(device)
    if needed is not None and needed > has:
        return (
            f"memory: weights, optimizer state and gradients take {needed / GIB:.1f} GiB, "
            f"{device} has {has / GIB:.1f} GiB"
        )
    return None


def _fault(check: Callable[[], object], what: str) -> str | None:
    try:
        check()
    except AskedWrongly as error:
        return f"{what}: {error}"
    return None
