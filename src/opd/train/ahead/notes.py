"""What a person should know about a recipe before the time is spent: options that do nothing, hide something, or
are easily overlooked. None of it stops a run; what must not be is refused where the recipe is read.
"""

import difflib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from opd.models.chat import PROBLEM
from opd.models.load import LanguageModel
from opd.records.metrics import LeftOut
from opd.records.places import SHIPPED
from opd.records.rollouts import Prompt
from opd.train.ahead.rehearsal import Rehearsal
from opd.train.alarms import ending_note
from opd.train.corpus.duplicates import Repetition
from opd.train.objective import TokenObjective
from opd.train.parts import Parts
from opd.train.prompts.order import PromptOrder
from opd.train.recipe import Recipe
from opd.train.teachers import TeacherName, role

BOX = "\\boxed"
DIFFERENT_LINES = 6  # of two templates that are shown

Evaluations = Mapping[str, tuple[str, str]]  # the data and the prompt of each benchmark, by name


def all_notes(
    recipe: Recipe,
    *,
    rows: int | None,
    prompts: Sequence[Prompt],
    repetition: Repetition | None,
    left_out: LeftOut,
    student: Any,
    teachers: Mapping[TeacherName, Any],
    evaluations: Evaluations,
) -> list[str]:
    """All that can be said without a rehearsal: `opd plan` and `opd train` say the same.

    `student` is its tokenizer, `teachers` are theirs. What is not known before models are there is empty or None.
    """
    said = [*notes(recipe, rows=rows), *teaching_notes(prompts), *left_out_notes(left_out), *prompt_notes(prompts)]
    if recipe.data.repeats == "allow" or repetition is None or not repetition.accidental:  # else it is refused
        said += repetition_notes(repetition)
    said += evaluation_notes(recipe, evaluations)
    if student is not None:
        for name, teacher in teachers.items():
            own = recipe.all_teachers[name].chat_template == "own"
            said += template_notes(student, teacher, name=name, own=own)
    return said


def notes_of(recipe: Recipe, parts: Parts, *, evaluations: Evaluations) -> list[str]:
    """All that is said before step one of a run with these parts."""
    said = all_notes(
        recipe,
        rows=len(parts.prompts),
        prompts=parts.prompts,
        repetition=parts.repetition,
        left_out=parts.left_out,
        student=parts.student.tokenizer,
        teachers={name: one.tokenizer for name, one in parts.teachers.items()},
        evaluations=evaluations,
    )
    return said + packing_notes(parts.student, parts.teachers)


def packing_notes(student: LanguageModel, teachers: Mapping[TeacherName, LanguageModel]) -> list[str]:
    """Which of them can't take sequences end to end, and why: its padding is computed too."""
    return [
        f"the {who} is computed over padded rectangles: {model.unpackable}"
        for who, model in {"student": student, **{role(name): one for name, one in teachers.items()}}.items()
        if model.unpackable is not None
    ]


def teaching_notes(prompts: Sequence[Prompt]) -> list[str]:
    """How many rows each of several teachers has."""
    rows = Counter(prompt.teacher for prompt in prompts if prompt.teacher is not None)
    each = ", ".join(f"{name} {count:,}" for name, count in sorted(rows.items()))
    return [f"rows of each teacher: {each}"] if each else []


def notes(recipe: Recipe, *, rows: int | None) -> list[str]:
    """What the recipe alone says, over so many rows; None where they can't be counted."""
    said = [] if rows is None else [_coverage(recipe, rows)]
    said += [*recipe.objective.notes(), *_clip(recipe), *_updates(recipe), *_cut(recipe)]
    said += [*_reward(recipe), *_saves(recipe, rows)]
    if recipe.student.dtype == "bfloat16":
        said.append("the student computes in bfloat16 from float32 master weights")
        if recipe.lora is not None:
            said.append(
                "checkpoints are float32: beside a bfloat16 matrix most of a small product of adapters would be "
                "rounded away; evaluate them in float32 as well"
            )
    return said


def left_out_notes(left_out: LeftOut) -> list[str]:
    """How many rows are not trained on, and why (faults E37, E73)."""
    return [f"data: rows that are left out: {left_out}"] if str(left_out) else []


def prompt_notes(prompts: Sequence[Prompt]) -> list[str]:
    """What the rows themselves show: doubled braces (faults E38)."""
    doubled = sum("{{" in prompt.problem for prompt in prompts)  # "}}" closes two of LaTeX's groups
    if not doubled:
        return []
    note = (
        f"data: {doubled:,} of {len(prompts):,} problems hold doubled braces ({{{{), which reach the model as they "
        "are; a template that was never filled in leaves them"
    )
    return [note]


def repetition_notes(repetition: Repetition | None) -> list[str]:
    """How many different problems there are, where they are fewer than the rows (faults E62)."""
    if repetition is None or not repetition.repeated:
        return []
    more = "; each is trained on that much more often, and opd data dedupe keeps the first of each"
    return [f"data: {repetition}{more if repetition.accidental else ''}"]


def evaluation_notes(recipe: Recipe, evaluations: Evaluations) -> list[str]:
    """Whether the student is trained on another instruction than it is evaluated on (faults E38).

    `evaluations` has the data and the prompt of each benchmark by name. Data that ship with a task are evaluated by
    that task's benchmarks, any other by those that ship no data.
    """
    asking = {
        prompt: name
        for name, (data, prompt) in evaluations.items()
        if BOX in prompt and _origin(data) == _origin(recipe.data.path)
    }
    if not asking or BOX in recipe.data.prompt:
        return []
    prompt, name = next(iter(asking.items()))
    note = (
        f"data.prompt does not ask for {BOX}{{}}, and {name} does: training says "
        f"{_instruction(recipe.data.prompt)}, {name} says {_instruction(prompt)}"
    )
    return [note]


def template_notes(student: Any, teacher: Any, *, name: TeacherName = None, own: bool = False) -> list[str]:
    """The chat templates of the two tokenizers differ, and where (faults E35).

    Only the student's is used, or with `own` that teacher's own as well.
    """
    ours, theirs = (str(tokenizer.chat_template or "") for tokenizer in (student, teacher))
    if ours == theirs:
        return []
    lines = list(difflib.unified_diff(_pieces(theirs), _pieces(ours), "teacher", "student", lineterm="", n=0))
    changed = [line for line in lines[2:] if not line.startswith("@@")]
    more = f"\n    … and {len(changed) - DIFFERENT_LINES} more" if len(changed) > DIFFERENT_LINES else ""
    shown = "".join(f"\n    {line}" for line in changed[:DIFFERENT_LINES])
    who, whose = role(name), "its own" if own else "the student's"
    said = f"the chat templates of student (+) and {who} (-) differ; the {who} scores prompts in {whose}:"
    return [f"{said}{shown}{more}"]


def rehearsal_notes(recipe: Recipe, rehearsal: Rehearsal, *, steps: int, rows: int) -> list[str]:
    """What only measured times show: rows that are out of reach, saves that come too seldom or find too little time.

    `steps` fit into the wall clock at the measured pace.
    """
    said = []
    asked = recipe.rollouts.prompts_per_step
    if steps < recipe.budget.last_step(rows=rows, prompts_per_step=asked):
        share = min(1.0, steps * asked / rows)
        said.append(f"at the rehearsal's pace the wall clock ends it after {steps:,} steps: {share:.1%} of the rows")
    budget = recipe.budget
    between = recipe.save.every * rehearsal.seconds
    limit = budget.max_wall_seconds
    if limit is not None and budget.reserve_seconds < rehearsal.save_seconds:
        said.append(
            f"budget.reserve_seconds = {budget.reserve_seconds:g}, and a save takes {rehearsal.save_seconds:,.1f} s: "
            "the first one may end after the wall clock; reserve more"
        )
    if limit is not None and between > limit and steps < recipe.save.every:
        said.append(
            f"save.every = {recipe.save.every} steps take {between:,.0f} s of max_wall_seconds = {limit:,.0f}: "
            "nothing is saved before the end; lower save.every"
        )
    ends: list[tuple[TeacherName, float | None]] = [*rehearsal.eos_teachers_logp.items()]
    ends = ends or [(None, rehearsal.eos_teacher_logp)]
    return said + [note for name, logp in ends if (note := ending_note(logp, teacher=name))]


def _coverage(recipe: Recipe, rows: int) -> str:
    asked = recipe.rollouts
    steps = recipe.budget.last_step(rows=rows, prompts_per_step=asked.prompts_per_step)
    share = PromptOrder(rows=rows, seed=recipe.order_seed).coverage(steps, prompts_per_step=asked.prompts_per_step)
    fixed = "" if recipe.data.shuffle or share == 1 else ", always the same first ones (data.shuffle = false)"
    seen = f"{round(share * rows):,} of {rows:,} rows ({share:.1%}) will be seen{fixed}"
    return f"at most {steps:,} steps × {asked.prompts_per_step} prompts: {seen}"


def _clip(recipe: Recipe) -> list[str]:
    clip = getattr(recipe.objective, "clip", None)
    if clip is None or recipe.optimizer.minibatches > 1:
        return []
    return [
        f"objective.clip = {clip:g} never acts: with one update a step (optimizer.minibatches = 1) the ratio is 1"
    ]


def _updates(recipe: Recipe) -> list[str]:
    """Of several updates a step: too many for the rollouts, or an objective that does not know of them."""
    count, asked = recipe.optimizer.minibatches, recipe.rollouts
    rollouts = asked.prompts_per_step * asked.per_prompt
    said = []
    if count > rollouts:
        said.append(
            f"optimizer.minibatches = {count:,} is more than the {rollouts:,} rollouts of a step: each has an "
            "update to itself"
        )
    if min(count, rollouts) > 1 and isinstance(recipe.objective, TokenObjective) and not recipe.objective.has_ratio:
        said.append(
            f"{recipe.objective.name} has no ratio: with optimizer.minibatches = {count:,} all updates of a step "
            "but the first learn from rollouts of a policy that has moved; k1_policy_gradient corrects for it"
        )
    return said


def _cut(recipe: Recipe) -> list[str]:
    """What top-p and top-k take away from the metrics (faults E43)."""
    if recipe.rollouts.sampling.full_support:
        return []
    note = (
        f"rollouts: top_p = {recipe.rollouts.top_p:g}, top_k = {recipe.rollouts.top_k}: tokens are not drawn from "
        "the softmax that is scored, so the metrics' kl and surprise are means over them, and estimate neither a "
        "KL nor an entropy"
    )
    return [note]


def _reward(recipe: Recipe) -> list[str]:
    reward = recipe.reward
    if reward is None:
        return []
    if recipe.rollouts.per_prompt == 1:
        return ["the task reward does nothing: with rollouts.per_prompt = 1 there is no sibling to be better than"]
    if reward.correct == reward.wrong:
        return [f"the task reward does nothing: correct = wrong = {reward.correct:g}"]
    count, scaled = recipe.rollouts.per_prompt, reward.normalise == "group_std"
    # one right among n: (n - 1) / sqrt(n) standard deviations above the mean
    largest = (count - 1) / math.sqrt(count) if scaled else abs(reward.correct - reward.wrong) * (1 - 1 / count)
    clamp = getattr(recipe.objective, "largest_k1", None)
    beside = "" if clamp is None else f", beside the teacher's of at most {clamp:g}"
    note = (
        f"the task reward adds up to {reward.weight * largest:.2g} to a token's advantage (reward.weight = "
        f"{reward.weight:g}){beside}; the metrics' gradient_norm_k1 and gradient_norm_reward say which of them rules"
    )
    return [note]


def _saves(recipe: Recipe, rows: int | None) -> list[str]:
    last = recipe.budget.steps
    if rows is not None:
        last = recipe.budget.last_step(rows=rows, prompts_per_step=recipe.rollouts.prompts_per_step)
    if recipe.save.every <= last:
        return []
    return [f"save.every = {recipe.save.every} lies beyond the last step ({last}): only the end is saved"]


def _origin(data: str) -> str | None:
    """The task that data ship with; None for any other."""
    return data.removeprefix(SHIPPED).partition("/")[0] if data.startswith(SHIPPED) else None


def _instruction(template: str) -> str:
    """What stands behind the problem; before it where nothing does."""
    before, _, behind = template.partition(PROBLEM)
    return repr(behind.strip() or before.strip() or template)


def _pieces(template: str) -> list[str]:
    """A template in lines; one that is a single line is cut at its tags."""
    lines = template.splitlines()
    return lines if len(lines) > 3 else template.replace("{%", "\n{%").splitlines()
