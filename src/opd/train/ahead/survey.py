"""What is here of what a recipe names: models by configuration and tokenizer, and the rows. No weights are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from opd.models.adapters import attach, missing_library
from opd.models.engine.persistent import fit
from opd.models.engine.sampler import WINDOW
from opd.models.exact.model import misfit as exact_misfit
from opd.models.load import LanguageModel, load_skeleton, load_tokenizer, read_stop_ids
from opd.models.machine import device_meant
from opd.models.samplers import check_graphs, sampler_meant
from opd.records.errors import AskedWrongly
from opd.records.metrics import LeftOut
from opd.records.places import locate
from opd.records.rollouts import Prompt
from opd.train.ahead.lacks import look_at_teachers
from opd.train.ahead.memory import Found, look
from opd.train.corpus.duplicates import Repetition, repetition
from opd.train.pairing import Speaker
from opd.train.prompts.data import read_problems, read_prompts, repeats_fault
from opd.train.recipe import Recipe
from opd.train.scoring import longest_prompt
from opd.train.teachers import TeacherName, as_seen, check_pair, role, seen_by_teachers


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold(LanguageModel):
    """A model without weights, for a device that is there."""

    place: str

    @property
    def device(self) -> torch.device:
        """Where its weights will be."""
        return torch.device(self.place)


@dataclass(slots=True, kw_only=True)
class Survey:
    """What was found, and what of it can't be used."""

    student: Found
    teachers: dict[TeacherName, Found]
    student_tokenizer: Any = None
    teacher_tokenizers: dict[TeacherName, Any] = field(default_factory=dict)
    sampler: str | None = None
    prompts: list[Prompt] = field(default_factory=list)
    repetition: Repetition | None = None
    left_out: LeftOut = field(default_factory=LeftOut)
    faults: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int | None:
        """To train on; None where they can't be read."""
        return self.repetition.problems if self.repetition else None

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """A refusal inside becomes one of the faults, and what comes after it goes on."""
        try:
            yield
        except AskedWrongly as error:
            self.faults.append(f"{what}: {error}")


def survey_of(recipe: Recipe) -> Survey:
    """What there is of models and data; nothing is fetched. What `parts.build` would refuse is among the faults."""
    found = Survey(student=look(recipe.student), teachers=look_at_teachers(recipe))
    module = None
    with found.noting("student"):
        module = _survey_student(recipe, found)
    for name, teacher in found.teachers.items():
        if teacher.folder is not None:
            with found.noting(role(name)):
                found.teacher_tokenizers[name] = load_tokenizer(teacher.folder)
        with found.noting("models"):
            _survey_pair(found, name)
    if locate(recipe.data.path).is_file():  # a file that is not there is lacking, and said to be
        with found.noting("training data"):
            _survey_data(recipe, found)
    with found.noting("student"):
        if module is not None:
            _check_paths(recipe, found, module)
    found.faults += _too_long(recipe, found)
    return found


def _survey_student(recipe: Recipe, found: Survey) -> Any:
    """Its tokenizer and who samples are noted; its module without weights, or None where there is no folder."""
    folder = found.student.folder
    if folder is None:
        return None
    found.student_tokenizer = load_tokenizer(folder)
    module = load_skeleton(folder, dtype=recipe.student.dtype)
    if recipe.lora is not None and missing_library() is None:
        attach(module, recipe.lora, seed=recipe.seed)
    machine = recipe.machine
    found.sampler = sampler_meant(
        module, engine=machine.engine, drafts=machine.drafts, tensor_parallel=machine.tensor_parallel
    )
    return module


def _check_paths(recipe: Recipe, found: Survey, module: Any) -> None:
    """Nothing, where the steps that are asked for by name can be had, as far as shows without weights."""
    device, machine, folder = device_meant(recipe.machine.device), recipe.machine, found.student.folder
    if folder is None or (device == "cuda" and not torch.cuda.is_available()):  # said to be lacking
        return
    model = Foretold(
        module=module,
        tokenizer=found.student_tokenizer,
        path=folder,
        vocabulary=len(found.student_tokenizer),
        stop_ids=frozenset(),
        unpackable=None,
        place=device,
    )
    if machine.exact and (reason := exact_misfit(model)):
        raise AskedWrongly(f"{folder}: machine.exact can't be had here: {reason}; set it to false")
    check_graphs(model, machine.engine)
    if machine.engine == "persistent":
        sequence_tokens = longest_prompt(found.prompts) + recipe.rollouts.limit_tokens
        if reason := fit.misfit(model) or fit.length_misfit(sequence_tokens, window=WINDOW["cuda"]):
            raise AskedWrongly(f"{folder}: the persistent kernel can't run this model here: {reason}")


def _survey_pair(found: Survey, name: TeacherName) -> None:
    teachers = found.teacher_tokenizers.get(name)
    if found.student_tokenizer is None or teachers is None:
        return
    pair = ((found.student.folder, found.student_tokenizer), (found.teachers[name].folder, teachers))
    speakers = [
        Speaker(tokenizer=one, stop_ids=read_stop_ids(folder, one)) for folder, one in pair if folder is not None
    ]
    check_pair(name, *speakers)


def _survey_data(recipe: Recipe, found: Survey) -> None:
    """What the rows are; as prompts where there is a tokenizer for it."""
    data, graded, teachers = recipe.data, recipe.reward is not None, recipe.all_teachers
    if found.student_tokenizer is not None:
        rows = read_prompts(data, found.student_tokenizer, graded=graded, teachers=teachers)
        found.prompts, found.left_out = rows.prompts, rows.left_out
        if found.teacher_tokenizers.keys() == teachers.keys():
            found.prompts = seen_by_teachers(
                rows.prompts,
                teachers,
                data_prompt=data.prompt,
                student=found.student_tokenizer,
                tokenizers=found.teacher_tokenizers,
            )
        problems = [(prompt.row, prompt.problem) for prompt in found.prompts]
    else:
        kept, found.left_out = read_problems(data, graded=graded, teachers=teachers)
        problems = [(problem.row, problem.text) for problem in kept]
    found.repetition = repetition([text for _, text in problems])
    if fault := repeats_fault(data, problems, found.repetition):
        raise AskedWrongly(fault)


def _too_long(recipe: Recipe, survey: Survey) -> list[str]:
    limit = recipe.rollouts.limit_tokens
    reading = [("student", survey.student.shape, survey.prompts)]
    reading += [(role(name), one.shape, as_seen(survey.prompts, name)) for name, one in survey.teachers.items()]
    faults = []
    for who, shape, prompts in reading:
        longest = longest_prompt(prompts)
        if prompts and shape and longest + limit > shape.context_tokens:
            faults.append(
                f"{who}: {longest} prompt tokens + rollouts.limit_tokens = {limit} exceed its context of "
                f"{shape.context_tokens} tokens; lower limit_tokens"
            )
    return faults
