"""Rows of a file → prompts.

JSON Lines or parquet; a row has at least a problem and an answer, each as text or inside another value. A row is
named by its place in the file, so that a filter changes no row's sampling noise.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveInt, field_validator

from opd.grading.grader import check_gold
from opd.models.chat import prompt_ids, user_text
from opd.records.errors import AskedWrongly
from opd.records.fields import roles, users_turn, value_in, written
from opd.records.files import sha256
from opd.records.metrics import LeftOut
from opd.records.places import locate
from opd.records.rollouts import Prompt
from opd.records.settings import Settings
from opd.train.corpus.duplicates import Repetition, repetition
from opd.train.corpus.problems import Problem
from opd.train.prompts.rows import read_rows
from opd.train.prompts.templates import template_text

SHOWN = 60  # characters of a problem in a message
ONLY: tuple[str | None, ...] = (None,)  # the names of teachers, where there is one without a name


class DataSettings(Settings):
    """The problems that a run trains on."""

    path: str
    """`opd:<task>/<file>`, or the path of a JSON Lines or parquet file."""
    sha256: str | None = None
    """Of the file's bytes; another file is refused."""
    where: dict[str, str] = {}
    """Only rows in which each of these fields has this value, a number as it is written. A dot leads into a value."""
    problem_field: str = "problem"
    """The field with the problem: a text, or a chat of one user's turn. A dot leads into a value."""
    answer_field: str = "answer"
    """The field with the answer, a text or a number; distillation does not use it, graders and pages do."""
    teacher_field: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """The field with the name of the row's teacher, where a recipe has several. A dot leads into a value."""
    prompt: str = "{problem}"
    """The user's turn, or the name of a template: plain, boxed, dapo. The student's chat template goes around it."""
    shuffle: bool = True
    """A new order every epoch, from the recipe's seed; otherwise the order of the file."""
    limit_prompt_tokens: PositiveInt = 1_024
    """Longest prompt, template included. A prompt is never cut."""
    too_long: Literal["refuse", "drop"] = "refuse"
    """What happens to a row whose prompt is longer: the run does not start, or goes without the row."""
    repeats: Literal["refuse", "allow"] = "refuse"
    """Whether more than 1 % of the problems may repeat an earlier one, which is then trained on that much more."""

    @field_validator("prompt")
    @classmethod
    def _by_name(cls, given: str) -> str:
        return template_text(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRows:
    """What a run trains on, in the order of the file."""

    prompts: list[Prompt]
    left_out: LeftOut


def check_data(settings: DataSettings) -> Path:
    """The data file, when it is there and is the one that the settings name; else `AskedWrongly`."""
    path = locate(settings.path)
    if not path.is_file():
        raise AskedWrongly(f"data {settings.path!r}: no such file")
    if settings.sha256 is not None and (found := sha256(path)) != settings.sha256:
        raise AskedWrongly(f"data {settings.path!r} has SHA-256 {found}, the recipe asks for {settings.sha256}")
    return path


def read_problems(
    settings: DataSettings, *, graded: bool, teachers: Collection[str | None] = ONLY
) -> tuple[list[Problem], LeftOut]:
    """The problems to train on, in the order of the file, and what was left out; `graded`: there is a task reward.

    Raises `AskedWrongly` when there are none, when a row lacks its problem, its answer or its teacher, or when one of
    the teachers has no row.
    """
    found = list(_problems(settings, teachers))
    asking = [problem for problem in found if problem.text.strip()]
    kept = [problem for problem in asking if not graded or _can_be_right(problem)]
    left_out = LeftOut(blank=len(found) - len(asking), unanswered=len(asking) - len(kept))
    _check_any(settings, [problem.teacher for problem in kept], left_out, teachers)
    return kept, left_out


def read_prompts(
    settings: DataSettings, tokenizer: Any, *, graded: bool = False, teachers: Collection[str | None] = ONLY
) -> TrainingRows:
    """The problems as prompts.

    Raises `AskedWrongly` as `read_problems` does, and when a prompt is too long and may not be dropped.
    """
    problems, left_out = read_problems(settings, graded=graded, teachers=teachers)
    prompts: list[Prompt] = []
    for problem in problems:
        prompt = _prompt(settings, tokenizer, problem)
        if len(prompt.token_ids) <= settings.limit_prompt_tokens:
            prompts.append(prompt)
        elif settings.too_long == "refuse":
            raise AskedWrongly(
                f"row {prompt.row} of {settings.path}: its prompt has {len(prompt.token_ids)} tokens, the limit is "
                f'{settings.limit_prompt_tokens}; raise data.limit_prompt_tokens, or set data.too_long = "drop"'
            )
    left_out = left_out.model_copy(update={"too_long": len(problems) - len(prompts)})
    _check_any(settings, [prompt.teacher for prompt in prompts], left_out, teachers)
    return TrainingRows(prompts=prompts, left_out=left_out)


def check_repeats(settings: DataSettings, prompts: Sequence[Prompt]) -> Repetition:
    """How often the prompts repeat themselves; `AskedWrongly` when that is more than the settings allow."""
    problems = [(prompt.row, prompt.problem) for prompt in prompts]
    found = repetition([text for _, text in problems])
    if fault := repeats_fault(settings, problems, found):
        raise AskedWrongly(fault)
    return found


def repeats_fault(settings: DataSettings, problems: Sequence[tuple[int, str]], found: Repetition) -> str | None:
    """Why these problems, with their rows, are not to be trained on as they are; None when they are (faults E62)."""
    if settings.repeats == "allow" or not found.accidental or found.example is None:
        return None
    (row, text), (first, _) = (problems[place] for place in found.example)
    return (
        f"data {settings.path!r}: {found}; row {row} asks what row {first} does ({text[:SHOWN]!r}…). "
        '`opd data dedupe` keeps the first of each; or set data.repeats = "allow"'
    )


def _problems(settings: DataSettings, teachers: Collection[str | None]) -> Iterator[Problem]:
    """The rows that the filter leaves."""
    for row, values in enumerate(read_rows(check_data(settings))):
        if any(written(value_in(values, field)) != value for field, value in settings.where.items()):
            continue
        place = f"row {row} of {settings.path}"
        text = _problem(values, settings.problem_field, place=place)
        if (answer := written(value_in(values, settings.answer_field))) is None:
            raise AskedWrongly(_no_text(place, settings.answer_field, values))
        teacher = _teacher(values, settings.teacher_field, teachers, place=place)
        yield Problem(row=row, name=f"row {row}", text=text, answer=answer, teacher=teacher)


def _teacher(
    values: Mapping[str, Any], field: str | None, known: Collection[str | None], *, place: str
) -> str | None:
    """The name of the row's teacher; None for the only one that has none. One that is not known is refused."""
    if field is None:
        (only,) = known
        return only
    value = value_in(values, field)
    named = written(value)
    if named in known:
        return named
    there_are = f"there are: {', '.join(sorted(filter(None, known)))}"
    if value is None and field not in values:
        raise AskedWrongly(
            f"{place}: no field {field!r} to name its teacher; it has {sorted(values)}. Set data.teacher_field to "
            "that which does, or write the name into the row"
        )
    if named is None or not named.strip():
        raise AskedWrongly(
            f"{place}: field {field!r} names no teacher: {_shown(value)}; {there_are}. Write one of these names into "
            "the row, or leave such rows out by data.where"
        )
    raise AskedWrongly(
        f"{place}: field {field!r} names teacher {named!r}; {there_are}. Add [teachers.{named}], or leave such rows "
        "out by data.where"
    )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _problem(values: Mapping[str, Any], field: str, *, place: str) -> str:
    """The problem of a row. A chat with more than the user's turn would be asked without what else it says."""
    value = value_in(values, field)
    if len(speaking := roles(value)) > 1:
        raise AskedWrongly(
            f"{place}: field {field!r} is a chat of {len(speaking)} turns ({', '.join(speaking)}), and a problem is "
            "asked in one user's turn; keep that turn alone, and put what a system's turn says into data.prompt"
        )
    if (text := users_turn(value)) is None:
        raise AskedWrongly(_no_text(place, field, values))
    return text


def _no_text(place: str, field: str, values: Mapping[str, Any]) -> str:
    return f"{place}: no text in field {field!r}; it has {sorted(values)}"


def _can_be_right(problem: Problem) -> bool:
    """Whether any response could be, by the rules of the room `grading`."""
    try:
        check_gold(problem.answer or "")
    except AskedWrongly:
        return False
    return True


def _check_any(
    settings: DataSettings, named: Sequence[str | None], left_out: LeftOut, teachers: Collection[str | None]
) -> None:
    """There are rows, which name these teachers, and every teacher has some (faults E53)."""
    filtered = f" that has {settings.where}" if settings.where else ""
    because = f" ({left_out})" if str(left_out) else ""
    if not named:
        raise AskedWrongly(f"{settings.path} has no row{filtered} to train on{because}")
    for teacher in teachers:
        if teacher not in named:
            raise AskedWrongly(
                f"{settings.path} has no row{filtered} to train on{because} that names teacher {teacher!r} in field "
                f"{settings.teacher_field!r}; leave [teachers.{teacher}] out, which would only take memory"
            )


def _prompt(settings: DataSettings, tokenizer: Any, problem: Problem) -> Prompt:
    return Prompt(
        row=problem.row,
        problem=problem.text,
        answer=problem.answer or "",
        token_ids=prompt_ids(tokenizer, user_text(settings.prompt, problem.text)),
        teacher=problem.teacher,
    )
