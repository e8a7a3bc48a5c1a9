"""What a run is made of, and how it is built from the recipe: the only place that turns names into objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from opd.models.adapters import attach
from opd.models.chat import check_fits
from opd.models.exact.model import exact_model
from opd.models.interfaces import Sampler, Scorer
from opd.models.layers import compile_layers, recompute_layers
from opd.models.load import LanguageModel, find_model
from opd.models.machine import choose_device
from opd.models.samplers import OURS, Chosen, choose_sampler
from opd.models.vllm.team import Team, unshared
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import sha256
from opd.records.metrics import LeftOut
from opd.records.places import locate
from opd.records.rollouts import Prompt
from opd.train.ahead.memory import further_sharing
from opd.train.clock import Budget
from opd.train.corpus.duplicates import Repetition
from opd.train.pairing import speaker_of
from opd.train.prompts.data import check_repeats, read_prompts
from opd.train.prompts.order import PromptOrder
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.ranks.sharded import ShardedMasters
from opd.train.ranks.sharing import loaded, shared
from opd.train.recipe import Recipe
from opd.train.reward import Reward
from opd.train.saved.origins import Origins, check_same, origins_of
from opd.train.scoring import Scoring, longest_prompt, scorer_of
from opd.train.teachers import (
    TeacherName,
    check_pair,
    check_room,
    load_teacher,
    role,
    seen_by_teachers,
)
from opd.train.update.updater import Updater


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a run is made of."""

    student: LanguageModel
    prompts: list[Prompt]
    order: PromptOrder
    sampler: Sampler
    sampled_by: str  # which sampler it is; with the reason where it is not the engine
    scorer: Scorer
    reward: Reward | None
    updater: Updater
    budget: Budget  # its clock runs from the beginning of the process, so that all of the start is paid for
    device: str
    data_sha256: str
    origins: Origins
    repetition: Repetition
    left_out: LeftOut
    teachers: Mapping[TeacherName, LanguageModel]
    ranks: Ranks = ALONE
    shares: ShardedMasters | None = None  # null: each rank has all of the master weights


def build(
    recipe: Recipe, *, began_with: Origins | None = None, began: float | None = None, ranks: Ranks = ALONE
) -> Parts:
    """The parts of the run, of this rank.

    `began_with` are the models that a run to go on with was made from; `began` is when its process was started, by
    `time.monotonic`; None: now. Raises `AskedWrongly` for a model, teacher or data file that can't be used, or for
    models that are not those.
    """
    if fault := unshared(recipe.machine.tensor_parallel, ranks=ranks.count):
        raise AskedWrongly(fault)
    budget = Budget(recipe.budget, began=began)
    torch.set_num_threads(recipe.machine.threads)
    device = choose_device(recipe.machine.device)
    asked = recipe.all_teachers
    student, teachers, origins = _models(recipe, device, began_with, ranks)
    if recipe.lora is not None:
        attach(student.module, recipe.lora, seed=recipe.seed)
    rows = read_prompts(recipe.data, student.tokenizer, graded=recipe.reward is not None, teachers=asked)
    repetition = check_repeats(recipe.data, rows.prompts)
    prompts = seen_by_teachers(
        rows.prompts,
        asked,
        data_prompt=recipe.data.prompt,
        student=student.tokenizer,
        tokenizers={name: one.tokenizer for name, one in teachers.items()},
    )
    check_fits(student, prompts, limit_tokens=recipe.rollouts.limit_tokens, shorten="data.prompt")
    for name, teacher in teachers.items():
        check_room(name, asked[name], teacher, prompts, recipe.rollouts.limit_tokens)
    sequence_tokens = longest_prompt(prompts) + recipe.rollouts.limit_tokens
    student, learner, shares = shared(
        student,
        recipe.machine.shard,
        ranks,
        shape=lambda one: _shape_layers(recipe, one, teachers, sequence_tokens=sequence_tokens),
    )
    chosen = sampler_of(recipe, student, prompts, ranks=ranks)
    return Parts(
        student=student,
        prompts=prompts,
        order=PromptOrder(rows=len(prompts), seed=recipe.order_seed),
        sampler=chosen.sampler,
        sampled_by=chosen.said,
        scorer=scorer_of(asked, teachers, prompts, _scoring(recipe, device), ranks),
        reward=None if recipe.reward is None else Reward(recipe.reward, student),
        updater=_updater(recipe, learner, teachers, ranks, shares, sampler_differs=chosen.differs),
        budget=budget,
        device=device,
        data_sha256=sha256(locate(recipe.data.path)),
        origins=origins,
        repetition=repetition,
        left_out=rows.left_out,
        teachers=teachers,
        ranks=ranks,
        shares=shares,
    )


def _models(
    recipe: Recipe, device: str, began_with: Origins | None, ranks: Ranks
) -> tuple[LanguageModel, dict[TeacherName, LanguageModel], Origins]:
    """Student and teachers, which fit each other, and the digests of their files."""
    asked = recipe.all_teachers
    student_at = find_model(recipe.student.model, recipe.student.revision)
    teachers_at = {
        name: find_model(one.model, one.revision, weights=one.reads_weights) for name, one in asked.items()
    }
    origins = origins_of(student_at, teachers_at)
    if began_with is not None:
        named = {"student": recipe.student.model, **{role(name): one.model for name, one in asked.items()}}
        check_same(began_with, origins, places=named)
    how, sent = recipe.machine.shard, recipe.machine.engine == "vllm"
    try:
        student = loaded(recipe.student, student_at, device=device, how=how, sent=sent, ranks=ranks)
    except torch.OutOfMemoryError as error:
        more = further_sharing(recipe, ranks=ranks.count)
        raise AnswerIsNo("; ".join([f"out of device memory as the student was loaded ({error})", *more])) from error
    teachers = {name: load_teacher(one, teachers_at[name], device=device) for name, one in asked.items()}
    for name, teacher in teachers.items():
        check_pair(name, speaker_of(student), speaker_of(teacher))
    return student, teachers, origins


def sampler_of(recipe: Recipe, student: LanguageModel, prompts: Sequence[Prompt], *, ranks: Ranks = ALONE) -> Chosen:
    """What draws the rollouts of these prompts from the student, as the recipe asks for it."""
    return choose_sampler(
        student,
        recipe.rollouts.sampling,
        engine=recipe.machine.engine,
        largest_batch=recipe.rollouts.largest_batch,
        drafts=recipe.machine.drafts,
        prompt_tokens=longest_prompt(prompts),
        sleeps=recipe.machine.vllm_sleeps,
        team=Team(ranks, size=recipe.machine.tensor_parallel),
    )


def _scoring(recipe: Recipe, device: str) -> Scoring:
    return Scoring(
        temperature=recipe.rollouts.temperature,
        limit_tokens=recipe.rollouts.limit_tokens,
        largest_tokens=recipe.machine.micro_batch_tokens,
        chunk_tokens=recipe.machine.head_chunk_tokens,
        alternatives=recipe.save.alternatives,
        sleeps=recipe.machine.vllm_sleeps,
        tensor_parallel=recipe.machine.tensor_parallel,
        device=device,
    )


def _updater(
    recipe: Recipe,
    student: LanguageModel,
    teachers: Mapping[TeacherName, LanguageModel],
    ranks: Ranks,
    shares: ShardedMasters | None,
    *,
    sampler_differs: bool,
) -> Updater:
    return Updater(
        student,
        recipe.objective,
        recipe.optimizer,
        teachers=teachers,
        temperature=recipe.rollouts.temperature,
        largest_tokens=recipe.machine.micro_batch_tokens,
        chunk_tokens=recipe.machine.head_chunk_tokens,
        sampler_differs=sampler_differs,
        ranks=ranks,
        masters=shares,
    )


def _shape_layers(
    recipe: Recipe,
    student: LanguageModel,
    teachers: Mapping[TeacherName, LanguageModel],
    *,
    sequence_tokens: int,
) -> LanguageModel:
    """The student, whose layers and the teachers' are run as the recipe says; no sequence has more tokens."""
    machine = recipe.machine
    if machine.compile:
        for teacher in teachers.values():
            compile_layers(teacher.module)
    if machine.exact:
        student = exact_model(student, persistent=OURS[machine.engine], sequence_tokens=sequence_tokens)
    elif machine.compile:
        compile_layers(student.module)
    if machine.recompute_layers:
        recompute_layers(student.module)
    return student
