"""The samples file of lm-evaluation-harness, `samples_<task>_<date>.jsonl`, which `--log_samples` writes.

{"doc_id": 0, "doc": {…}, "target": "5", "arguments": {…}, "resps": [["…5"]], "filtered_resps": ["5"],
 "filter": "strict-match", "metrics": ["exact_match"], "exact_match": 1.0, "doc_hash": …}

A line is one document behind one filter. With several filters a document has several lines, and one filter is
chosen. A metric is one value a document, or a list with one for each repeat. Of a filter that extracts, the filtered
response is the answer, `[invalid]` where it found none. Lengths and reasons to stop are not in the file.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from opd.evaluate.foreign.choice import Choice, at, is_correct, only, text_or_none
from opd.evaluate.rows import Row, question_name
from opd.records.errors import AskedWrongly
from opd.records.files import read_lines

_ABOUT = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash",
}  # fmt: skip
_NO_FILTER = "none"  # its filtered response is the whole response, and no answer
_INVALID = "[invalid]"  # what a filter gives where it finds nothing
_FILE = re.compile(r"samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.-]+\.jsonl")


def is_lm_eval(first: Mapping[str, Any]) -> bool:
    """Whether the first line of a file is one of this harness."""
    return "doc_id" in first and ("resps" in first or "filtered_resps" in first)


def task_of(path: Path) -> str | None:
    """The task, which the file's name alone tells."""
    found = _FILE.fullmatch(path.name)
    return found["task"] if found else None


def read_lm_eval(path: Path, choice: Choice) -> list[Row]:
    """The rows of a samples file, with the metric and the filter that were chosen.

    Raises `AskedWrongly` where several are there and none was chosen, and for a metric that is neither 0 nor 1.
    """
    lines = [(values, f"{path}, row {number}") for number, values in enumerate(read_lines(path), start=1)]
    behind = only(
        choice.filter,
        list(dict.fromkeys(str(values.get("filter", _NO_FILTER)) for values, _ in lines)),
        key="filter",
        place=str(path),
    )
    chosen = [(values, place) for values, place in lines if str(values.get("filter", _NO_FILTER)) == behind]
    metric = only(choice.metric, _metrics(chosen[0][0]), key="metric", place=str(path))
    return [
        row
        for values, place in chosen
        for row in _rows(values, metric=metric, behind=behind, question=choice.question or "doc_id", place=place)
    ]


def _metrics(first: Mapping[str, Any]) -> list[str]:
    """The metrics of a line: as it lists them, or, in older files, every number beside what it says of itself."""
    if isinstance(first.get("metrics"), list):
        return [str(name) for name in first["metrics"] if name in first]
    return [key for key, value in first.items() if key not in _ABOUT and isinstance(value, int | float | list)]


def _rows(values: Mapping[str, Any], *, metric: str, behind: str, question: str, place: str) -> Iterator[Row]:
    if metric not in values:
        raise AskedWrongly(f"{place}: no {metric!r} in it")
    name = question_name(at(values, question), place=place, field=question)
    verdicts = values[metric] if isinstance(values[metric], list) else [values[metric]]
    responses, answers = _texts(values.get("resps")), _texts(values.get("filtered_resps"))
    extracts = behind != _NO_FILTER and len(answers) == len(verdicts)
    for sample, verdict in enumerate(verdicts):
        answer = answers[sample] if extracts else None
        yield Row(
            question=name,
            sample=sample,
            correct=is_correct(verdict, what=metric, place=place),
            by=f"lm-evaluation-harness: {metric}",
            answered=answer != _INVALID if extracts else None,
            extracted=None if answer == _INVALID else answer,
            gold=text_or_none(values.get("target")),
            response=responses[sample] if len(responses) == len(verdicts) else None,
        )


def _texts(value: Any) -> list[str | None]:
    """The responses to one request: `["…"]`, or `[["…", "…"]]` with repeats."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    return [text_or_none(one) for one in value] if isinstance(value, list) else []
