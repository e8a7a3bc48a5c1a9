"""One line of a file of samples, whoever wrote it: what a score, a comparison and a report can know of it.

{"question": "q1", "sample": 0, "correct": true}      is enough; "extracted", "cut_short", "tokens", "seed", "gold"
                                                      and "response" are taken where they are there
a line of `samples.jsonl`                             has all of it, with the verdict and who decided

Other keys are passed over. What is not known is None, and no report guesses it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.records.errors import AskedWrongly
from opd.records.files import read_lines
from opd.records.rollouts import StopReason
from opd.records.scores import Opinion, Verdict
from opd.records.settings import validated

FAILED = {
    Verdict.GRADER_FAILED: "the grader failed on it, which says nothing about the answer; grade it again",
    Verdict.JUDGE_FAILED: "the judge gave no verdict on it, which says nothing about the answer; judge it again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A sample as it was found."""

    question: str
    sample: int
    """The number of the sample, or its seed."""
    correct: bool
    seed: int | None = None
    verdict: str | None = None
    by: str | None = None
    """Who decided."""
    reason: str | None = None
    answered: bool | None = None
    """Whether there was an answer to grade."""
    extracted: str | None = None
    inside_reasoning: bool | None = None
    cut_short: bool | None = None
    tokens: int | None = None
    gold: str | None = None
    response: str | None = None
    opinions: tuple[Opinion, ...] = ()
    """Of those who did not decide."""


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSON Lines file, in its order.

    A row whose grader or judge failed gives way to a later one of the same key; without one the file can't be
    counted, and is refused.
    """
    return settled((_key(values, place=place), _row(values, place=place), place) for values, place in _placed(path))


def settled(rows: Iterable[tuple[tuple[str, int], Row | str, str]]) -> list[Row]:
    """The rows that say something, of (key, row or why there is none, place); errors as in `read_rows`."""
    found: list[Row] = []
    waiting: dict[tuple[str, int], str] = {}
    for key, row, place in rows:
        if isinstance(row, str):
            waiting.setdefault(key, f"{place}: {row}")
            continue
        waiting.pop(key, None)
        found.append(row)
    for failure in waiting.values():
        raise AskedWrongly(failure)
    return found


def question_name(value: Any, *, place: str, field: str = "question") -> str:
    """The name of a question: a text or a number, as text that can be written down."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise AskedWrongly(f"{place}: {field} = {value!r}; a question is named by a text or a number")
    return writable(str(value))


def writable(text: str) -> str:
    """The text with a half of a surrogate pair, which no file can hold, as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def optional(values: Mapping[str, Any], key: str, kind: type, *, place: str) -> Any:
    """The value of a key that may be missing or null; `AskedWrongly` when it is something else than it should be."""
    value = values.get(key)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise AskedWrongly(f"{place}: {key} = {value!r:.60}; it should be {_KINDS[kind]}, or left out")
    return writable(value) if isinstance(value, str) else value


_KINDS = {bool: "true or false", int: "a whole number", str: "a text"}


def _placed(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    for number, values in enumerate(read_lines(path), start=1):
        yield values, f"{path}, row {number}"


def _key(row: Mapping[str, Any], *, place: str) -> tuple[str, int]:
    question = question_name(_value(row, "question", place=place), place=place)
    sample = _value(row, "sample", place=place)
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise AskedWrongly(f"{place}: sample = {sample!r}; it is the number of the sample, or its seed, 0 or more")
    return question, sample


def _row(values: Mapping[str, Any], *, place: str) -> Row | str:
    """The row, or why it says nothing."""
    if "correct" not in values and "judgement" in values:
        return _graded(values, place=place)
    correct = _value(values, "correct", place=place)
    if correct not in (True, False):  # which 1 and 0 are as well
        raise AskedWrongly(f"{place}: correct = {correct!r}; write true or false")
    extracted = optional(values, "extracted", str, place=place)
    return Row(
        correct=bool(correct),
        extracted=extracted,
        answered=extracted is not None if "extracted" in values else None,
        cut_short=optional(values, "cut_short", bool, place=place),
        **_common(values, place=place),
    )


def _graded(values: Mapping[str, Any], *, place: str) -> Row | str:
    """A line of `samples.jsonl`."""
    verdict = _verdict(values, place=place)
    if not verdict.settled:
        return FAILED[verdict]
    judgement = values["judgement"]
    extracted = optional(judgement, "extracted", str, place=place)
    return Row(
        correct=verdict.correct,
        verdict=verdict.value,
        by=judgement.get("by", "house"),
        reason=optional(judgement, "reason", str, place=place),
        extracted=extracted,
        answered=extracted is not None,
        inside_reasoning=optional(judgement, "inside_reasoning", bool, place=place) or False,
        cut_short=_cut_short(values, place=place),
        opinions=tuple(validated(Opinion, one, source=place) for one in values.get("opinions", ())),
        **_common(values, place=place),
    )


def _common(values: Mapping[str, Any], *, place: str) -> dict[str, Any]:
    question, sample = _key(values, place=place)
    return {
        "question": question,
        "sample": sample,
        "seed": optional(values, "seed", int, place=place),
        "tokens": optional(values, "tokens", int, place=place),
        "gold": optional(values, "gold", str, place=place),
        "response": optional(values, "response", str, place=place),
    }


def _cut_short(values: Mapping[str, Any], *, place: str) -> bool | None:
    if values.get("stop") is None:
        return None
    try:
        return StopReason(values["stop"]).cut_short
    except ValueError as error:
        raise AskedWrongly(f"{place}: stop = {values['stop']!r}; a response ends by eos or by length") from error


def _verdict(row: Mapping[str, Any], *, place: str) -> Verdict:
    try:
        return Verdict(row["judgement"]["verdict"])
    except (KeyError, TypeError, ValueError) as error:
        raise AskedWrongly(f"{place}: no verdict in its judgement") from error


def _value(row: Mapping[str, Any], key: str, *, place: str) -> Any:
    if key not in row:
        raise AskedWrongly(f"{place}: no {key!r}; a row holds question, sample and correct")
    return row[key]
