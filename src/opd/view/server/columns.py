"""Numbers by line of a file, as columns, and as few points of them as a picture can show.

A bucket stands for some neighbouring lines: their mean, and the least and the greatest of them. So a spike is seen at
every width, and a curve of few lines is those lines.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opd.view.server.lines import Mark, beginning, lines_from, mark_at, object_in, opened
from opd.view.server.places import Place, stamp_of

MOST_NAMES = 400  # columns; a file of a stranger may hold any
_DEEPEST = 3  # names in names: seconds/update, gpus/0/busy

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What a file of lines held: a key for each row, rising, and the numbers beside it; NaN where there is none."""

    keys: Floats
    values: Mapping[str, Floats]
    passed_over: int  # lines that are no rows
    mark: Mark

    def after(self, key: float) -> "Columns":
        """The rows with a greater key."""
        begin = int(np.searchsorted(self.keys, key, side="right"))
        values = {name: column[begin:] for name, column in self.values.items()}
        return Columns(keys=self.keys[begin:], values=values, passed_over=self.passed_over, mark=self.mark)


def read_columns(
    place: Place, before: Columns | None, *, key: Callable[[Mapping[str, Any]], float | None]
) -> Columns:
    """The rows of a file of JSON lines; of those that were read before, only what came since is read.

    `key` gives a row's place; None for a line that is no row. Of several rows with one key the last counts.
    """
    with opened(place) as file:
        stamp = stamp_of(file)
        start = beginning(file, None if before is None else before.mark)
        known = before if start else None
        rows: list[tuple[float, dict[str, float]]] = []
        passed_over, end = (known.passed_over if known else 0), start
        for at, line in lines_from(file, start):
            end = at + len(line) if line is not None else file.tell()
            value = object_in(line)
            where = None if value is None else key(value)
            if value is None or where is None:
                passed_over += bool(line is None or line.strip())
                continue
            rows.append((where, numbers(value)))
        mark = mark_at(file, end, stamp)
    return _together(known, rows, passed_over=passed_over, mark=mark)


def numbers(values: Mapping[str, Any], *, prefix: str = "", left: int = _DEEPEST) -> dict[str, float]:
    """Each number by its name, of a section with the section's before it: `seconds/update`."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, float):
            found[f"{prefix}{name}"] = value
        elif isinstance(value, int):  # yes and no as well
            found[f"{prefix}{name}"] = _nearest(value)
        elif left > 1 and isinstance(value, dict | list):
            inside = value if isinstance(value, dict) else {str(place): one for place, one in enumerate(value)}
            found |= numbers(inside, prefix=f"{prefix}{name}/", left=left - 1)
    return found


def bucketed(columns: Columns, names: Sequence[str], *, most: int) -> dict[str, Any]:
    """The rows in at most so many buckets, of about as many rows each, as the API gives them."""
    rows = len(columns.keys)
    count = min(rows, most)
    begins = (np.arange(count) * rows) // max(count, 1)
    sizes = np.diff(np.append(begins, rows))
    return {
        "buckets": {
            "first": plain(columns.keys[begins]),
            "until": plain(columns.keys[begins + sizes - 1]),
            "rows": [int(size) for size in sizes],
        },
        "series": {name: _series(columns.values[name], begins) for name in names if name in columns.values},
    }


def plain(column: Floats) -> list[float | int | None]:
    """The numbers for JSON: whole ones without a point, and null for NaN."""
    return [None if math.isnan(one) else int(one) if one.is_integer() else one for one in column.tolist()]


def _series(column: Floats, begins: NDArray[np.int64]) -> dict[str, Any]:
    if not len(begins):
        return {"mean": [], "low": [], "high": []}
    there = ~np.isnan(column)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        sums = np.add.reduceat(np.where(there, column, 0.0), begins)
        mean = sums / np.add.reduceat(there.astype(np.int64), begins)  # 0 / 0 is NaN: there was none
    low, high = np.fmin.reduceat(column, begins), np.fmax.reduceat(column, begins)
    return {"mean": _undefined_null(mean), "low": _undefined_null(low), "high": _undefined_null(high)}


def _undefined_null(column: Floats) -> list[float | None]:
    return [one if math.isfinite(one) else None for one in column.tolist()]


def _nearest(value: int) -> float:
    """The number as a float; NaN for one that no float holds."""
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _together(
    known: Columns | None, rows: Sequence[tuple[float, Mapping[str, float]]], *, passed_over: int, mark: Mark
) -> Columns:
    names = dict.fromkeys([*(known.values if known else ()), *(name for _, row in rows for name in row)])
    old = len(known.keys) if known else 0
    keys = np.concatenate([known.keys if known else np.empty(0), np.array([where for where, _ in rows], dtype=float)])
    order = np.argsort(keys, kind="stable")  # of equal ones the last stays last
    kept = order[np.append(np.diff(keys[order]) > 0, True)] if len(order) else order
    values = {}
    for name in list(names)[:MOST_NAMES]:
        before = known.values[name] if known and name in known.values else np.full(old, np.nan)
        since = np.array([row.get(name, math.nan) for _, row in rows], dtype=float)
        since[np.isinf(since)] = np.nan
        values[name] = np.concatenate([before, since])[kept]
    return Columns(keys=keys[kept], values=values, passed_over=passed_over, mark=mark)
