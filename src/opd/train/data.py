"""Rows of a file → prompts.

JSON Lines or parquet; a row has at least a problem and an answer. A row is named by its place in the file, so
that a filter changes no row's sampling noise.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import PositiveInt

from opd.models.chat import prompt_ids, user_text
from opd.records.errors import AskedWrongly
from opd.records.files import sha256
from opd.records.places import locate
from opd.records.rollouts import Prompt
from opd.records.settings import Settings
from opd.train.corpus.duplicates import Repetition, repetition
from opd.train.rows import read_rows

SHOWN = 60  # characters of a problem in a message


class DataSettings(Settings):
    """The problems that a run trains on."""

    path: str
    """`opd:<task>/<file>`, or the path of a JSON Lines or parquet file."""
    sha256: str | None = None
    """Of the file's bytes; another file is refused."""
    where: dict[str, str] = {}
    """Only rows in which each of these fields has this value."""
    problem_field: str = "problem"
    """The field with the problem's text."""
    answer_field: str = "answer"
    """The field with the answer; distillation does not use it, graders and pages do."""
    prompt: str = "{problem}"
    """The user's turn; the chat template of the student's tokenizer goes around it."""
    shuffle: bool = True
    """A new order every epoch, from the recipe's seed; otherwise the order of the file."""
    limit_prompt_tokens: PositiveInt = 1_024
    """Longest prompt, template included. A prompt is never cut."""
    too_long: Literal["refuse", "drop"] = "refuse"
    """What happens to a row whose prompt is longer: the run does not start, or goes without the row."""
    repeats: Literal["refuse", "allow"] = "refuse"
    """Whether more than 1 % of the problems may repeat an earlier one, which is then trained on that much more."""


def check_data(settings: DataSettings) -> Path:
    """The data file, when it is there and is the one that the settings name; else `AskedWrongly`."""
    path = locate(settings.path)
    if not path.is_file():
        raise AskedWrongly(f"data {settings.path!r}: no such file")
    if settings.sha256 is not None and (found := sha256(path)) != settings.sha256:
        raise AskedWrongly(f"data {settings.path!r} has SHA-256 {found}, the recipe asks for {settings.sha256}")
    return path


def numbered_rows(settings: DataSettings) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows that the filter leaves, in the order of the file, each with its place there.

    Raises `AskedWrongly` when a row lacks the text of its problem or its answer.
    """
    for row, values in enumerate(read_rows(check_data(settings))):
        if any(values.get(field) != value for field, value in settings.where.items()):
            continue
        for field in (settings.problem_field, settings.answer_field):
            if not isinstance(values.get(field), str):
                raise AskedWrongly(
                    f"row {row} of {settings.path}: no text in field {field!r}; it has {sorted(values)}"
                )
        yield row, values


def read_prompts(settings: DataSettings, tokenizer: Any) -> list[Prompt]:
    """The prompts, in the order of the file.

    Raises `AskedWrongly` when there are none, a field is missing, or a prompt is too long and may not be dropped.
    """
    prompts: list[Prompt] = []
    for row, values in numbered_rows(settings):
        prompt = _prompt(settings, tokenizer, row, values)
        if len(prompt.token_ids) <= settings.limit_prompt_tokens:
            prompts.append(prompt)
        elif settings.too_long == "refuse":
            raise AskedWrongly(
                f"row {row} of {settings.path}: its prompt has {len(prompt.token_ids)} tokens, the limit is "
                f'{settings.limit_prompt_tokens}; raise data.limit_prompt_tokens, or set data.too_long = "drop"'
            )
    if not prompts:
        filtered = f" that has {settings.where}" if settings.where else ""
        raise AskedWrongly(f"{settings.path} has no row{filtered} to train on")
    return prompts


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


def _prompt(settings: DataSettings, tokenizer: Any, row: int, values: dict[str, Any]) -> Prompt:
    problem = values[settings.problem_field]
    return Prompt(
        row=row,
        problem=problem,
        answer=values[settings.answer_field],
        token_ids=prompt_ids(tokenizer, user_text(settings.prompt, problem)),
    )
