"""What a run needs and what it will see, said before anything is loaded.

`lacks` is what makes the run impossible here; `notes` is what a person should know before spending the time.
"""

from collections.abc import Callable

import torch

from opd.models.load import find_model
from opd.models.machine import choose_device, memory_bytes
from opd.models.weights import parameters_in
from opd.records.errors import AskedWrongly
from opd.train.data import check_data
from opd.train.order import PromptOrder
from opd.train.recipe import ModelSettings, Recipe

GIB = 1 << 30
_BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}


def lacks(recipe: Recipe) -> list[str]:
    """Everything that the recipe needs and this machine does not have; empty when the run can start.

    A model on the hub is fetched only when nothing else is lacking.
    """
    here = [
        _fault(lambda: check_data(recipe.data), "training data"),
        _memory(recipe),
    ]
    fetch = not any(here)
    models = [
        _fault(lambda: find_model(recipe.student.model, recipe.student.revision, fetch=fetch), "student"),
        _fault(lambda: find_model(recipe.teacher.model, recipe.teacher.revision, fetch=fetch), "teacher"),
    ]
    return [fault for fault in (*models, *here) if fault]


def notes(recipe: Recipe, *, rows: int) -> list[str]:
    """What is worth knowing before step one."""
    asked = recipe.rollouts
    steps = recipe.budget.last_step(rows=rows, prompts_per_step=asked.prompts_per_step)
    order = PromptOrder(rows=rows, seed=recipe.order_seed)
    share = order.coverage(steps, prompts_per_step=asked.prompts_per_step)
    said = [
        f"at most {steps:,} steps × {asked.prompts_per_step} prompts: {round(share * rows):,} of {rows:,} rows "
        f"({share:.1%}) will be seen"
        + ("" if recipe.data.shuffle or share == 1 else ", always the same first ones (data.shuffle = false)")
    ]
    if recipe.student.dtype == "bfloat16":
        said.append("the student computes in bfloat16 from float32 master weights")
    return said


def state_bytes(settings: ModelSettings, parameters: int, *, trained: bool) -> int:
    """Bytes of a model's weights and, when it is trained, of masters, gradients and AdamW's two moments.

    All of them are float32 when the model computes in bfloat16; otherwise the weights are their own masters.
    """
    width = _BYTES[settings.dtype]
    if not trained:
        return width * parameters
    state = max(width, 4)
    masters = state if width < 4 else 0
    return (width + masters + 3 * state) * parameters


def _memory(recipe: Recipe) -> str | None:
    student, teacher = _parameters(recipe.student), _parameters(recipe.teacher)
    needed = (
        None
        if student is None or teacher is None
        else state_bytes(recipe.student, student, trained=True) + state_bytes(recipe.teacher, teacher, trained=False)
    )
    if recipe.machine.device == "cuda" and not torch.cuda.is_available():
        amount = "" if needed is None else f" with at least {needed / GIB:.0f} GiB"
        return f"device: the recipe asks for a CUDA device{amount}; this machine has none"
    device = choose_device(recipe.machine.device)
    has = memory_bytes(device)
    if needed is not None and needed > has:
        return (
            f"memory: weights, optimizer state and gradients take {needed / GIB:.1f} GiB, "
            f"{device} has {has / GIB:.1f} GiB"
        )
    return None


def _parameters(settings: ModelSettings) -> int | None:
    """Counted from the headers of the model's weights; as the recipe says where there are none on this machine."""
    try:
        return parameters_in(find_model(settings.model, settings.revision, fetch=False))
    except AskedWrongly:
        return settings.parameters


def _fault(check: Callable[[], object], what: str) -> str | None:
    try:
        check()
    except AskedWrongly as error:
        return f"{what}: {error}"
    return None
