"""What there is to choose in a file of another harness, and how a value there becomes right or wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from opd.evaluate.rows import writable
from opd.records.errors import AskedWrongly
from opd.records.settings import Settings


class Choice(Settings):
    """`--set metric=…`: which of several verdicts counts. What is not given has to be the only one there is."""

    metric: str | None = None
    """lm-evaluation-harness: the metric; inspect_ai: the scorer, or `scorer.key` where its value is a table."""
    filter: str | None = None
    """lm-evaluation-harness: the filter that the metric was taken behind."""
    question: str | None = None
    """Where the name of a question stands in a sample, dots between: `doc.unique_id`, `metadata.id`. By default
    that is doc_id for lm-evaluation-harness, and id for inspect_ai."""


def only(asked: str | None, there: Sequence[str], *, key: str, place: str) -> str:
    """The one that was asked for, or the only one that there is; else `AskedWrongly` names those there are."""
    names = ", ".join(there) or "none"
    if asked is not None:
        if asked not in there:
            raise AskedWrongly(f"{place}: no {key} {asked!r}; there are: {names}")
        return asked
    if len(there) != 1:
        raise AskedWrongly(f"{place}: which {key} counts? --set {key}=…, one of: {names}")
    return there[0]


def is_correct(value: Any, *, what: str, place: str) -> bool:
    """Whether a value says right; a share between is no verdict on one sample, and is refused."""
    if isinstance(value, str) and value in _LETTERS:
        return _LETTERS[value]
    if isinstance(value, int | float) and value in (0, 1):  # which False and True are as well
        return bool(value)
    raise AskedWrongly(
        f"{place}: {what} = {value!r:.60}; a sample is right (1, true, C) or not (0, false, I, N), nothing between"
    )


_LETTERS = {"C": True, "I": False, "N": False}  # inspect_ai: correct, incorrect, no answer; P is partly correct


def at(values: Mapping[str, Any], name: str) -> Any:
    """The value that a name with dots leads to, or None."""
    value: Any = values
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def text_or_none(value: Any) -> str | None:
    """A text, or the only text of a list; anything else is None."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return writable(value) if isinstance(value, str) else None
