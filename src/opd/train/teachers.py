"""Who teaches: one teacher of all rows, or several of which each row names its own by a field of the data.

    [teacher]                      the only one: its name is None, and machine.scorer says who scores with it
    [teachers.math], …             each has a name, by which data.teacher_field of a row finds it

The student writes every token. A teacher scores them after the student's prompt, or after its own: another user's
turn, another chat template. What follows the prompt is the same tokens either way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator

from opd.models.chat import check_fits, check_template, opens_reasoning, prompt_ids, user_text
from opd.models.load import LanguageModel
from opd.models.scorers import ScorerChoice, to_host_memory
from opd.models.served.outline import outline
from opd.models.served.scorer import check_served
from opd.models.served.settings import ServedSettings
from opd.models.vllm.scorer import check_scoring
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt
from opd.train.model import ModelSettings, load, of_size
from opd.train.pairing import Speaker, mismatch
from opd.train.prompts.templates import template_text

TeacherName = str | None  # None: the only one
NAMES = (
    r"^[^\s.](?:[^.\n\r\t]*[^\s.])?$"  # of several; a dot leads into a section: --set teachers.math.dtype=bfloat16
)


class TeacherSettings(ModelSettings):
    """One of several teachers, by its name: the model, what it sees of a row, and where it scores."""

    prompt: str | None = None
    """The user's turn that it sees, as `data.prompt` is written; null: the student's."""
    chat_template: Literal["student", "own"] = "student"
    """Whose chat template goes around it."""
    scorer: ScorerChoice = "plain"
    """What scores with it, as `machine.scorer`."""
    served: ServedSettings | None = None
    """Its servers, as `machine.served`; no other scorer asks them."""
    device: Literal["machine", "in_turn", "cpu"] = "machine"
    """Of the plain scorer: that of `machine.device`; `in_turn`: the same, but while others score, and all through
    sampling and update, its weights lie in the host's memory; `cpu`."""

    @field_validator("prompt")
    @classmethod
    def _by_name(cls, given: str | None) -> str | None:
        if given is None:
            return None
        text = template_text(given)
        check_template(text)
        return text

    @property
    def reads_weights(self) -> bool:
        """Whether its weights have to be here: not for servers that a recorded probe is compared with."""
        return self.scorer != "served" or self.served is None or self.served.probe is None


def role(name: TeacherName) -> str:
    """What a teacher is called in messages."""
    return "teacher" if name is None else f"teacher {name}"


def section(name: TeacherName) -> str:
    """Of the recipe, where it says who scores with this teacher."""
    return "machine" if name is None else f"teachers.{name}"


def check_taught(
    teacher: ModelSettings | None,
    teachers: Mapping[str, TeacherSettings],
    *,
    field: str | None,
    elsewhere: bool,
) -> None:
    """Nothing, when there is one teacher, or several that are told apart by a field of a row; else `AskedWrongly`.

    `elsewhere`: the section machine says who scores.
    """
    several = ", ".join(teachers)
    if teacher is None and not teachers:
        raise AskedWrongly("'teacher' is required: [teacher], or a [teachers.NAME] for each of several")
    if teacher is not None and teachers:
        raise AskedWrongly(f"teacher beside teachers ({several}): give it a name, as [teachers.NAME]")
    if teacher is not None and field is not None:
        raise AskedWrongly(
            f"data.teacher_field = {field!r} with one [teacher], who teaches all rows; leave it out, or write "
            "[teachers.NAME]"
        )
    if len(teachers) > 1 and field is None:
        raise AskedWrongly(
            f"teachers ({several}) without data.teacher_field: it says in which field a row names its teacher"
        )
    if teachers and elsewhere:
        raise AskedWrongly("machine.scorer and machine.served are of one [teacher]; write teachers.NAME.scorer")


def check_teacher(
    name: TeacherName, teacher: TeacherSettings, *, temperature: float, alternatives: int, compares: str | None
) -> None:
    """Nothing, when what is to score with the teacher can; else `AskedWrongly`.

    `compares` is the name of the objective, where that compares whole distributions.
    """
    place, scorer = section(name), teacher.scorer
    if scorer == "vllm":
        check_scoring(temperature=temperature, alternatives=alternatives, section=place)
    if scorer == "served":
        check_served(teacher.served, temperature=temperature, section=place)
    if scorer != "plain" and compares is not None:
        raise AskedWrongly(
            f'{place}.scorer = "{scorer}" with objective {compares}, which compares whole distributions: vLLM gives '
            f'the sampled tokens\' alone; set {place}.scorer = "plain"'
        )
    if teacher.device == "machine":
        return
    if scorer != "plain":
        raise AskedWrongly(f'{place}.device = "{teacher.device}" with {place}.scorer = "{scorer}"; leave it out')
    if compares is not None:
        raise AskedWrongly(
            f'{place}.device = "{teacher.device}" with objective {compares}: whole distributions are compared in the '
            "update, where the teacher has to be at hand; leave it out"
        )


def load_teacher(teacher: TeacherSettings, path: Path, *, device: str) -> LanguageModel:
    """The frozen teacher; without its weights where servers have them.

    Raises `AskedWrongly` for a model that can't be used.
    """
    if teacher.scorer == "served":
        found = of_size(teacher, outline(path, dtype=teacher.dtype))
    else:
        elsewhere = teacher.scorer == "vllm" or teacher.device == "cpu"  # vLLM has a copy of its own
        found = load(teacher, path, "cpu" if elsewhere else device)
    found.module.requires_grad_(False)
    if teacher.device == "in_turn":
        to_host_memory(found.module)  # before the next one comes
    return found


def check_pair(name: TeacherName, student: Speaker, teacher: Speaker) -> None:
    """Nothing, when the teacher can score what the student writes; else `AskedWrongly`."""
    if fault := mismatch(student, teacher):
        raise AskedWrongly(fault if name is None else f"teacher {name}: {fault}")


def seen_by_teachers(
    prompts: Sequence[Prompt],
    teachers: Mapping[TeacherName, TeacherSettings],
    *,
    data_prompt: str,
    student: Any,
    tokenizers: Mapping[TeacherName, Any],
) -> list[Prompt]:
    """The prompts, each with what its teacher sees of it, where that differs from what the student sees.

    `student` is the student's tokenizer, `tokenizers` are the teachers'. Raises `AskedWrongly` when the student
    begins inside the reasoning and its teacher outside, or the other way round (faults E36).
    """
    differing = {name for name, one in teachers.items() if one.prompt is not None or one.chat_template == "own"}
    checked: set[TeacherName] = set()
    found = []
    for prompt in prompts:
        name = prompt.teacher
        if name not in differing:
            found.append(prompt)
            continue
        teacher = teachers[name]
        speaks = tokenizers[name] if teacher.chat_template == "own" else student
        ids = prompt_ids(speaks, user_text(teacher.prompt or data_prompt, prompt.problem))
        if name not in checked:  # the end of a prompt is the template's
            _check_opening(name, prompt, ids, student)
            checked.add(name)
        found.append(prompt if ids == prompt.token_ids else replace(prompt, teacher_ids=ids))
    return found


def _check_opening(name: TeacherName, prompt: Prompt, seen: Sequence[int], student: Any) -> None:
    ours, theirs = opens_reasoning(student, prompt.token_ids), opens_reasoning(student, seen)
    if ours != theirs:
        who, other = ("student", "teacher") if ours else ("teacher", "student")
        raise AskedWrongly(
            f"{role(name)}: the {who}'s prompt ends inside the reasoning (<think>) and the {other}'s does not, so "
            f'that no token would mean the same to both; set {section(name)}.chat_template = "student"'
        )


def check_room(
    name: TeacherName, settings: TeacherSettings, teacher: LanguageModel, prompts: Sequence[Prompt], limit_tokens: int
) -> None:
    """Nothing, when what the teacher sees leaves it room for every rollout; else `AskedWrongly`, which names it."""
    prompt = "data.prompt" if settings.prompt is None else f"{section(name)}.prompt"
    try:
        check_fits(
            teacher, as_seen(prompts, name), limit_tokens=limit_tokens, shorten=f"{prompt} or the row's problem"
        )
    except AskedWrongly as error:
        raise AskedWrongly(f"{role(name)}: {error}") from error


def as_seen(prompts: Sequence[Prompt], name: TeacherName) -> list[Prompt]:
    """The prompts of this teacher, as it sees them."""
    return [replace(one, token_ids=one.teacher_ids or one.token_ids) for one in prompts if one.teacher == name]
