"""What runs hold as tables of pyarrow, which pandas and polars take as they are."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from opd.records.errors import AskedWrongly
from opd.records.files import COMPLETE, PARTIAL, read_lines
from opd.view.runs.differences import flat
from opd.view.runs.folders import read_object, tries

SAMPLES = pa.schema(
    [
        ("question", pa.string()),
        ("sample", pa.int32()),
        ("seed", pa.int64()),
        ("correct", pa.bool_()),
        ("verdict", pa.string()),
        ("by", pa.string()),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("extracted", pa.string()),
        ("gold", pa.string()),
        ("tokens", pa.int64()),
        ("stop", pa.string()),
        ("response", pa.string()),
    ]
)
_OF_JUDGEMENT = ("verdict", "by", "stage", "reason", "extracted")


_STAGES = pa.schema(
    [
        ("stage", pa.string()),
        ("name", pa.string()),
        ("sealed", pa.bool_()),
        ("outcome", pa.string()),
        ("because", pa.string()),
        ("began_utc", pa.string()),
        ("ended_utc", pa.string()),
        ("active_seconds", pa.float64()),
    ]
)


def metrics_table(path: Path) -> pa.Table:
    """A row for each whole line of a run's metrics, with every key of any; a section's keys are joined by a dot."""
    rows = [flat(line) for line in read_lines(path, torn_end=True)]
    keys = dict.fromkeys(key for row in rows for key in row)
    return pa.table({key: _column([row.get(key) for row in rows]) for key in keys})


def samples_table(path: Path) -> pa.Table:
    """A row for each sample; one that was graded again stands once, as it was settled."""
    rows = [_sample(line, path) for line in read_lines(path, torn_end=True)]
    latest = {(row["question"], row["sample"]): row for row in rows}
    return pa.Table.from_pylist(list(latest.values()), schema=SAMPLES)


def stages_table(attempt: Path) -> pa.Table:
    """A row for each try of each stage of an attempt."""
    rows = []
    for folder in tries(attempt):
        sealed = (folder / COMPLETE).is_file()
        receipt = read_object(folder / "receipt.json") if sealed else {}
        name = folder.relative_to(attempt).as_posix().removesuffix(PARTIAL)
        rows.append(
            {"stage": name.partition("/")[0], "name": name, "sealed": sealed}
            | {key: receipt.get(key) for key in ("outcome", "because", "began_utc", "ended_utc", "active_seconds")}
        )
    return pa.Table.from_pylist(rows, schema=_STAGES)


def _column(values: Sequence[Any]) -> pa.Array:
    """Numbers are floats where any is one, and where there is none yet; lists hold texts."""
    known = [value for value in values if value is not None]
    if not known or any(isinstance(value, float) for value in known):
        return pa.array([None if value is None else float(value) for value in values], type=pa.float64())
    return pa.array(values, type=pa.list_(pa.string()) if isinstance(known[0], list) else None)


def _sample(line: Mapping[str, Any], path: Path) -> dict[str, Any]:
    try:
        judgement = line["judgement"]
        own = {name: line[name] for name in SAMPLES.names if name in line}
        return own | {name: judgement.get(name) for name in _OF_JUDGEMENT} | {
            "correct": judgement["verdict"] == "correct"
        }  # fmt: skip
    except (KeyError, TypeError, AttributeError) as error:
        raise AskedWrongly(f"{path} has a line that is no sample: {error}") from error
