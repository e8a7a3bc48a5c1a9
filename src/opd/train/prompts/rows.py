"""The rows of a data file, as they stand in it: JSON Lines, or parquet by its ending. No tensors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opd.records.errors import AskedWrongly
from opd.records.files import read_lines, whole, write_text

PARQUET = ".parquet"


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON Lines or parquet file."""
    if path.suffix != PARQUET:
        yield from read_lines(path, whole_text=True)
        return
    if not path.is_file():  # pyarrow would read a folder as one table
        raise AskedWrongly(f"{path} does not exist" if not path.exists() else f"{path} is not a parquet file")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        yield from pq.read_table(path).to_pylist()
    except pa.ArrowInvalid as error:
        raise AskedWrongly(f"{path} is not a parquet file: {error}") from error


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The file holds these rows, in this order, whole or not at all; its ending says in which form.

    Raises `AskedWrongly` for a value that the form cannot hold.
    """
    if path.suffix == PARQUET:
        _write_parquet(path, rows)
        return
    try:
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
    except (TypeError, ValueError) as error:
        raise AskedWrongly(f"{path}: a row does not fit JSON Lines ({error}); name a .parquet file") from error
    write_text(path, "".join(lines))


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = list(dict.fromkeys(name for row in rows for name in row))  # the first row need not have them all
    try:
        table = pa.table({name: pa.array([row.get(name) for row in rows]) for name in columns})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise AskedWrongly(f"{path}: the rows do not fit one table ({error}); name a .jsonl file") from error
    with whole(path) as temporary:
        pq.write_table(table, temporary)
