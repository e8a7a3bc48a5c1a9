"""Samples as a plain table, a row each, for other programs: CSV, parquet, or JSON Lines that `opd score` reads."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opd.evaluate.rows import Row
from opd.records.files import whole

ENDINGS = (".csv", ".parquet", ".jsonl")
COLUMNS = (
    "question", "sample", "correct", "seed", "verdict", "by", "reason", "extracted", "gold", "inside_reasoning",
    "cut_short", "tokens", "response", "opinions",
)  # fmt: skip


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """The file holds the rows, in their order, whole or not at all; its ending says in which form.

    What is not known is empty in CSV, and null in the others. Opinions are one text, `by: verdict; …`.
    """
    values = [_values(row) for row in rows]
    with whole(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(temporary, values)
        elif path.suffix == ".csv":
            _write_csv(temporary, values)
        else:
            lines = (json.dumps(one, ensure_ascii=False, allow_nan=False) + "\n" for one in values)
            temporary.write_text("".join(lines), encoding="utf-8")


def _values(row: Row) -> dict[str, Any]:
    opinions = "; ".join(f"{one.by}: {one.verdict.value}" for one in row.opinions) or None
    return {name: opinions if name == "opinions" else getattr(row, name) for name in COLUMNS}


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({key: _spelled(value) for key, value in row.items()} for row in rows)


def _spelled(value: Any) -> Any:
    """A truth value as JSON spells it, not as Python does."""
    return str(value).lower() if isinstance(value, bool) else value


def _write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"sample": pa.int64(), "seed": pa.int64(), "tokens": pa.int64()}
    kinds |= dict.fromkeys(("correct", "inside_reasoning", "cut_short"), pa.bool_())
    columns = {name: pa.array([row[name] for row in rows], type=kinds.get(name, pa.string())) for name in COLUMNS}
    pq.write_table(pa.table(columns), path)
