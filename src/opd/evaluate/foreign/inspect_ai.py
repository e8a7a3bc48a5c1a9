"""A log of inspect_ai: one JSON object, or a `.eval` archive with the same in parts.

x.json      {"status": "success", "eval": {"task": …, "model": …}, "results": {"total_samples": 8}, "samples": […]}
x.eval      a zip archive, deflated or in Zstandard
            header.json                    the same without samples; only there when the evaluation finished
            samples/<id>_epoch_<n>.json    a sample each

A sample: {"id": 1, "epoch": 1, "target": "5", "output": {"choices": [{"message": …, "stop_reason": "stop"}],
"usage": {"output_tokens": 9}}, "scores": {"match": {"value": "C", "answer": "5"}}}
"""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.evaluate.foreign.choice import Choice, at, is_correct, only, text_or_none
from opd.evaluate.rows import Row, optional, question_name, writable
from opd.records.errors import AskedWrongly
from opd.records.files import read_json

_HEADER = "header.json"
_SAMPLES = "samples/"
_CUT_SHORT = {"max_tokens", "model_length"}  # stop reasons
_LIMITS = {"token", "context"}  # limits on a sample that end it in the same way
_ZSTANDARD = 93  # the compression's number in a zip archive
_LOCAL_HEADER_BYTES = 30  # before a file's name and extra field, whose lengths are its last two numbers
_NOT_JSON = (ValueError, RecursionError)
_CONVERT = "`inspect log convert --to json` writes it as JSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A finished log."""

    task: str | None
    model: str | None
    rows: list[Row]


def is_archive(path: Path) -> bool:
    """Whether the file is an archive, whatever its name."""
    return path.is_file() and zipfile.is_zipfile(path)


def read_inspect(path: Path, choice: Choice) -> Log:
    """The rows of a log with the scorer that was chosen.

    Raises `AskedWrongly` for what is no such log, for one that did not finish or lacks samples, for a sample that
    failed or has no score, and for a score that is neither right nor wrong.
    """
    header, samples = _of_archive(path) if path.suffix == ".eval" or is_archive(path) else _of_json(path)
    status = header.get("status")
    if status != "success":
        raise AskedWrongly(f"{path}: status = {status!r}; only an evaluation that finished has a score")
    declared = at(header, "results.total_samples")
    if isinstance(declared, int) and declared != len(samples):
        raise AskedWrongly(f"{path} holds {len(samples)} samples and declares {declared}; rows are missing or extra")
    if not samples:
        raise AskedWrongly(f"{path}: no samples; a score needs at least one")
    scorer = only(choice.metric, _scorers(samples), key="metric", place=str(path))
    rows = [
        _row(sample, scorer=scorer, question=choice.question or "id", place=f"{path}, sample {number}")
        for number, sample in enumerate(samples, start=1)
    ]
    task, model = (at(header, f"eval.{key}") for key in ("task", "model"))
    return Log(task=text_or_none(task), model=text_or_none(model), rows=rows)


def _of_json(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    log = read_json(path)
    if not isinstance(log, dict) or "eval" not in log:
        raise AskedWrongly(f"{path} is no log of inspect_ai: one JSON object with status, eval and samples")
    samples = log.get("samples") or []
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        raise AskedWrongly(f"{path}: samples should be a list of objects")
    return log, samples


def _of_archive(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    if not path.is_file():
        raise AskedWrongly(f"{path} does not exist")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if _HEADER not in names:
                raise AskedWrongly(
                    f"{path} has no {_HEADER}: that evaluation did not finish, or it is another archive"
                )
            samples = [name for name in names if name.startswith(_SAMPLES) and name.endswith(".json")]
            return _object(archive, path, _HEADER), [_object(archive, path, name) for name in samples]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, *_NOT_JSON) as error:
        if isinstance(error, AskedWrongly):
            raise
        raise AskedWrongly(f"{path} can't be read: {error}; {_CONVERT}") from error


def _object(archive: zipfile.ZipFile, path: Path, name: str) -> dict[str, Any]:
    info = archive.getinfo(name)
    value = json.loads(_unpacked_zstandard(path, info) if info.compress_type == _ZSTANDARD else archive.read(name))
    if not isinstance(value, dict):
        raise ValueError(f"{name} holds no object")
    return value


def _unpacked_zstandard(path: Path, info: zipfile.ZipInfo) -> bytes:
    """A file of an archive in the compression that inspect_ai uses now, which `zipfile` reads from Python 3.14 on."""
    import pyarrow as pa

    with path.open("rb") as file:
        file.seek(info.header_offset)
        name_bytes, extra_bytes = struct.unpack("<HH", file.read(_LOCAL_HEADER_BYTES)[-4:])
        file.seek(name_bytes + extra_bytes, 1)
        packed = file.read(info.compress_size)
    unpacked = bytes(pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read())
    if zlib.crc32(unpacked) != info.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {info.filename}")
    return unpacked


def _scorers(samples: list[Mapping[str, Any]]) -> list[str]:
    """The scorers of a log, in the order in which they are met; a table of values counts as one for each key."""
    names: dict[str, None] = {}
    for sample in samples:
        scores = sample.get("scores")
        for scorer, score in scores.items() if isinstance(scores, dict) else ():
            names |= dict.fromkeys(_keys(scorer, score))
    return list(names)


def _keys(scorer: str, score: Any) -> Iterator[str]:
    value = score.get("value") if isinstance(score, dict) else None
    if isinstance(value, dict):
        yield from (f"{scorer}.{key}" for key in value)
    else:
        yield scorer


def _row(sample: Mapping[str, Any], *, scorer: str, question: str, place: str) -> Row:
    name = question_name(at(sample, question), place=place, field=question)
    if sample.get("error"):
        what = at(sample, "error.message") or sample["error"]
        raise AskedWrongly(f"{place} ({name}): it failed ({what!s:.80}), which says nothing about the answer")
    score, value = _score(sample, scorer)
    if value is None:
        raise AskedWrongly(f"{place} ({name}): no score by {scorer}; a sample without one is neither right nor wrong")
    choices = at(sample, "output.choices") or [{}]
    answer = text_or_none(score.get("answer"))
    return Row(
        question=name,
        sample=optional(sample, "epoch", int, place=place) or 1,
        correct=is_correct(value, what=scorer, place=f"{place} ({name})"),
        by=f"inspect_ai: {scorer}",
        reason=text_or_none(score.get("explanation")),
        answered=bool(answer) if "answer" in score else None,
        extracted=answer or None,
        cut_short=_cut_short(sample, choices[0]),
        tokens=_whole(at(sample, "output.usage.output_tokens")),
        gold=text_or_none(sample.get("target")),
        response=_response(choices[0]),
    )


def _score(sample: Mapping[str, Any], scorer: str) -> tuple[Mapping[str, Any], Any]:
    """A scorer's score of a sample, and its value; None where there is none."""
    scores = sample.get("scores")
    scores = scores if isinstance(scores, dict) else {}
    name, _, key = (scorer, "", "") if scorer in scores else scorer.rpartition(".")
    score = scores.get(name)
    if not isinstance(score, dict):
        return {}, None
    value = score.get("value")
    return score, value.get(key) if isinstance(value, dict) else value


def _cut_short(sample: Mapping[str, Any], choice: Any) -> bool | None:
    if at(sample, "limit.type") in _LIMITS:
        return True
    reason = choice.get("stop_reason") if isinstance(choice, dict) else None
    return None if reason in (None, "unknown") else reason in _CUT_SHORT


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _response(choice: Any) -> str | None:
    """The text of the answer; parts of it that are no text, such as reasoning kept apart, are left out."""
    content = at(choice, "message.content") if isinstance(choice, dict) else None
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "\n".join(part for part in parts if isinstance(part, str))
    return writable(content) if isinstance(content, str) else None
