"""What a run needs and what it will see, said before anything is loaded: rows, tokens, memory, disk, time, what is in
the way, and what a person should know before spending the time.
"""

import math
import shutil
from pathlib import Path

import torch
from pydantic import PositiveInt

from opd.models.machine import device_meant, memory_bytes
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import existing_parent
from opd.records.settings import Settings
from opd.train.ahead.lacks import missing_here
from opd.train.ahead.memory import (
    GIB,
    WIDTHS,
    Found,
    Load,
    Part,
    further_sharing,
    layers_parameters,
    loads_of,
    memory_parts,
    peak,
    trained_parameters,
)
from opd.train.ahead.notes import Evaluations, all_notes, rehearsal_notes
from opd.train.ahead.rehearsal import Rehearsal, rehearse
from opd.train.ahead.survey import Survey, survey_of
from opd.train.clock import SLACK
from opd.train.ranks.cost import NCCL_BYTES, Reduction, Sizes, reduction_of
from opd.train.ranks.ranks import BUCKET_BYTES
from opd.train.ranks.sameness import too_many
from opd.train.ranks.shares import most_prompts
from opd.train.recipe import Recipe

TOKEN_BYTES = 12  # of a rollout's table: id, student's and teacher's log-probability; a packed one has 8 to 12
ALTERNATIVE_BYTES = 8  # of the teacher's alternatives to a token, each: id and log-probability


class Space(Settings):
    """Memory or disk: what is needed of what there is."""

    parts: tuple[Part, ...]
    needed_bytes: int
    """At the worst moment."""
    has_bytes: int | None
    """All that the device has, on a CPU for each rank, or what is free on the disk; null without the device."""
    complete: bool
    """Whether every part could be counted; what depends on a model that is not here is left out."""

    @property
    def fits(self) -> bool:
        """Whether there is enough; not known where there is no device."""
        return self.has_bytes is None or self.needed_bytes <= self.has_bytes


class Forecast(Settings):
    """How long the run takes if every rollout reaches the limit."""

    steps: int
    """That fit into the wall clock."""
    seconds: float
    """Until the last checkpoint is whole."""
    max_wall_seconds: float | None


class Plan(Settings):
    """All that can be known before step one."""

    recipe: str
    """Digest of the resolved recipe."""
    device: str
    steps: int | None
    """At most; null without data."""
    rows: int | None
    """To train on; null without data."""
    different: int | None
    """Of them, problems that differ in more than spelling."""
    rows_seen: int | None
    """Of them, at most."""
    sampler: str | None = None
    """Which one the student gets, with the reason where it is not the engine; null without the student."""
    prompt_tokens: int
    """Of the longest prompt; `data.limit_prompt_tokens` where it could not be counted."""
    rollout_tokens: int | None
    """To sample in the whole run, at most."""
    ranks: PositiveInt = 1
    """Processes that make the run, a device each."""
    memory: Space
    """Of each of them."""
    disk: Space
    rehearsal: Rehearsal | None
    forecast: Forecast | None
    """From the rehearsal."""
    reduction: Reduction | None = None
    """What the ranks send each other in a step; null for one, or where the student's size is not known."""
    notes: tuple[str, ...]
    lacks: tuple[str, ...]
    """Why it can't work here; empty when it can."""


def make_plan(
    recipe: Recipe,
    *,
    out: Path,
    evaluations: Evaluations | None = None,
    rehearsed: bool = False,
    ranks: int = 1,
) -> Plan:
    """The plan of a run in the folder `out`, which need not be there, by so many processes.

    `evaluations` are the data and the prompt of each benchmark, by name. `rehearsed` asks for two real steps where
    nothing is lacking; their faults become part of the plan.
    """
    place = existing_parent(out)
    device = device_meant(recipe.machine.device)
    survey = survey_of(recipe)
    prompt_tokens = max((len(one.token_ids) for one in survey.prompts), default=recipe.data.limit_prompt_tokens)
    steps, rows_seen, tokens = _amounts(recipe, survey.rows)
    own = recipe_of_a_rank(recipe, ranks)
    loads = loads_of(own, survey.prompts)
    reduction = _reduction(recipe, survey.student, loads[0], device, ranks)
    memory = _memory_space(own, survey, loads, device, reduction, ranks=ranks)
    disk = _disk_space(recipe, survey, place, steps=steps or recipe.budget.steps)
    missing = missing_here(recipe, survey.student, survey.teachers, ranks=ranks)
    missing += [*survey.faults, *_short(recipe, memory, disk, device, ranks)]
    missing += too_many(ranks, prompts_per_step=recipe.rollouts.prompts_per_step)
    said = _said(recipe, survey, evaluations or {})
    rehearsal = forecast = None
    if rehearsed and reduction is not None and reduction.shard != "none":
        missing.append("rehearsal: ranks that have shares rehearse together: torchrun … -m opd train … --rehearse")
    if rehearsed and not missing:
        try:
            rehearsal = rehearse(own, place=place)
            between = reduction.seconds if reduction else 0.0
            forecast = forecast_of(recipe, rehearsal, last_step=steps or recipe.budget.steps, between=between)
            said += rehearsal_notes(recipe, rehearsal, steps=forecast.steps, rows=survey.rows or 1)
        except (AnswerIsNo, AskedWrongly) as error:
            missing.append(f"rehearsal: {error}")
    return Plan(
        recipe=recipe.digest,
        device=device,
        steps=steps,
        rows=survey.rows,
        different=survey.repetition.problems - survey.repetition.repeated if survey.repetition else None,
        rows_seen=rows_seen,
        sampler=_sampler(survey.sampler, recipe, ranks),
        prompt_tokens=prompt_tokens,
        rollout_tokens=tokens,
        ranks=ranks,
        memory=memory,
        disk=disk,
        rehearsal=rehearsal,
        forecast=forecast,
        reduction=reduction,
        notes=tuple(said),
        lacks=tuple(missing),
    )


def forecast_of(recipe: Recipe, rehearsal: Rehearsal, *, last_step: int, between: float = 0.0) -> Forecast:
    """The steps that the wall clock leaves, by the rule of `clock.Budget.cause`, and when the last one is saved.

    `between` are the seconds of a step that ranks take to add up their gradients: one that rehearses has no others.
    """
    budget, step, save = recipe.budget, rehearsal.seconds + between, rehearsal.save_seconds
    each = step + save / recipe.save.every
    steps = last_step
    if budget.max_wall_seconds is not None:
        free = budget.max_wall_seconds - budget.reserve_seconds - rehearsal.start_seconds - SLACK * (step + 2 * save)
        steps = min(last_step, max(1, math.ceil(free / each)))
    return Forecast(
        steps=steps,
        seconds=rehearsal.start_seconds + steps * step + math.ceil(steps / recipe.save.every) * save,
        max_wall_seconds=budget.max_wall_seconds,
    )


def _sampler(said: str | None, recipe: Recipe, ranks: int) -> str | None:
    """Which it is; of several vLLMs, how many there are."""
    each = recipe.machine.tensor_parallel
    if said != "vllm" or ranks == 1 or ranks % each:
        return said
    return f"{said}: {ranks // each} of them, each on {each} GPU{'s' if each > 1 else ''}"


def _amounts(recipe: Recipe, rows: int | None) -> tuple[int | None, int | None, int | None]:
    """Steps, rows seen and tokens sampled, at most; None without rows."""
    if not rows:
        return None, None, None
    asked = recipe.rollouts
    steps = recipe.budget.last_step(rows=rows, prompts_per_step=asked.prompts_per_step)
    drawn = steps * asked.prompts_per_step
    return steps, min(rows, drawn), drawn * asked.per_prompt * asked.limit_tokens


def recipe_of_a_rank(recipe: Recipe, ranks: int) -> Recipe:
    """The recipe as if a rank were alone, with the most prompts of a step that one of so many gets."""
    share = most_prompts(recipe.rollouts.prompts_per_step, ranks=ranks)
    return recipe if ranks == 1 else recipe.changed([f"rollouts.prompts_per_step={share}"])


def _reduction(recipe: Recipe, student: Found, load: Load, device: str, ranks: int) -> Reduction | None:
    """What the ranks send each other; `load` is of one of them."""
    if ranks == 1 or student.parameters is None:
        return None
    width, machine, updates = WIDTHS[recipe.student.dtype], recipe.machine, recipe.optimizer.minibatches
    trained = trained_parameters(recipe, student)
    layers = layers_parameters(student.shape) if machine.shard == "full" and student.shape else 0
    sizes = Sizes(
        layers_gradients=max(4, width) * layers,
        layers_weights=width * layers,
        around_gradients=max(4, width) * (trained - layers),
        around_weights=width * (trained - layers),
    )
    positions = load.sequences * load.sequence_tokens
    return reduction_of(
        sizes,
        ranks=ranks,
        shard=machine.shard,
        updates=updates,
        passes=math.ceil(positions / updates / load.micro_batch_tokens),
        device=device,
        measured=machine.link_bytes_per_second,
    )


def _memory_space(
    recipe: Recipe, survey: Survey, loads: tuple[Load, Load], device: str, reduction: Reduction | None, *, ranks: int
) -> Space:
    """Of one rank, whose recipe and loads they are; on a CPU the ranks have the machine's memory among them."""
    student, teachers = survey.student, survey.teachers
    parts = memory_parts(
        recipe, loads[0], device=device, student=student, teachers=teachers, scored=loads[1], ranks=ranks
    )
    if reduction is not None:
        size = min(BUCKET_BYTES, reduction.gradient_bytes)
        parts.append(Part(name="gradients on their way", bytes=size, phase="update"))
    if reduction is not None and device == "cuda":
        parts.append(Part(name="NCCL's buffers, assumed", bytes=NCCL_BYTES))
    there = device == "cpu" or torch.cuda.is_available()
    return Space(
        parts=tuple(parts),
        needed_bytes=peak(parts, device=device),
        has_bytes=memory_bytes(device) // (ranks if device == "cpu" else 1) if there else None,
        complete=all(one.shape is not None for one in (survey.student, *survey.teachers.values())),
    )


def _disk_space(recipe: Recipe, survey: Survey, place: Path, *, steps: int) -> Space:
    """An older checkpoint or state goes when the newer one is whole, so there is one more of each for a while.

    A rollout's table has its prompt as the student sees it and, where that differs, as its teacher does.
    """
    save, asked, student = recipe.save, recipe.rollouts, survey.student
    count = student.parameters
    parts = []
    if count is not None:
        regular = min(save.keep + save.keep_best, math.ceil(steps / save.every)) + 1
        milestones = steps // save.keep_every if save.keep_every else 0
        width = WIDTHS[recipe.student.dtype]
        stored = width if recipe.lora is None else max(4, width)  # with adapters never narrower than float32
        parts.append(
            Part(name=f"checkpoints, {regular + milestones} at once", bytes=(regular + milestones) * stored * count)
        )
        if save.state_every != 0:
            state = 3 * max(4, width) * trained_parameters(recipe, student)
            parts.append(Part(name="trainer states, 2 at once", bytes=2 * state))
    if save.rollouts:
        token_bytes = TOKEN_BYTES + save.alternatives * ALTERNATIVE_BYTES
        prompts = [len(one.token_ids) + len(one.teacher_ids or ()) for one in survey.prompts]
        each = asked.limit_tokens * token_bytes + 4 * max(prompts, default=recipe.data.limit_prompt_tokens)
        rollouts = steps * asked.prompts_per_step * asked.per_prompt
        parts.append(Part(name="rollouts, at most", bytes=rollouts * each))
    return Space(
        parts=tuple(parts),
        needed_bytes=sum(part.bytes for part in parts),
        has_bytes=shutil.disk_usage(place).free,
        complete=count is not None,
    )


def _short(recipe: Recipe, memory: Space, disk: Space, device: str, ranks: int) -> list[str]:
    faults = []
    if not memory.fits and memory.has_bytes is not None:
        who, fewer = ("the run", "") if ranks == 1 else ("a rank", "start fewer ranks, or ")
        each = f" for each of {ranks} ranks" if ranks > 1 and device == "cpu" else ""
        faults.append(
            f"memory: {who} takes about {memory.needed_bytes / GIB:.1f} GiB, {device} has "
            f"{memory.has_bytes / GIB:.1f} GiB{each}; {fewer if each else ''}lower machine.micro_batch_tokens, "
            "rollouts.largest_batch or rollouts.limit_tokens"
            + "".join(f"; or {what}" for what in further_sharing(recipe, ranks=ranks) if device == "cuda")
        )
    if not disk.fits and disk.has_bytes is not None:
        faults.append(
            f"disk: the run writes up to {disk.needed_bytes / GIB:.1f} GiB, {disk.has_bytes / GIB:.1f} GiB are free; "
            "lower save.keep, set save.rollouts = false, or name another --out"
        )
    return faults


def _said(recipe: Recipe, survey: Survey, evaluations: Evaluations) -> list[str]:
    return all_notes(
        recipe,
        rows=survey.rows or None,
        prompts=survey.prompts,
        repetition=survey.repetition,
        left_out=survey.left_out,
        student=survey.student_tokenizer,
        teachers=survey.teacher_tokenizers,
        evaluations=evaluations,
    )
