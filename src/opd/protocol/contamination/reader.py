"""Opens tables, databases and two compressions in a process of its own: its libraries are not ours, and may crash.

    in     a line of JSON for each file: {"kind": "parquet", "path": "/tmp/…"}
    out    M, lengths, name, bytes     a member, as often as there are any
           E, length, sentence         it can't be read on, and why
           .                           that was the file

Started as a program by `outside.py`. It imports nothing of this package, and each library when it is first needed.
"""

import json
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

WRAPPED = (
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"\x28\xb5\x2f\xfd",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"%PDF",
)
"""How bytes begin that are looked at by themselves where they stand in a table."""
_ROWS = 512  # of a table that are handed over at once
_CHUNK = 1 << 22
_MOST_MEMORY = 16 << 30  # bytes of addresses; a table that asks for more is hostile
_STEPS = 100_000  # of a database's machine between two looks at how many there were
_MOST_STEPS = 20_000  # so often

Members = Iterator[tuple[str, bytes]]


def parquet(path: str) -> Members:
    """The rows of a parquet file as text."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path, memory_map=False) as file:
        kept = [field.name for field in file.schema_arrow if _may_hold_text(field.type)]
        for number, batch in enumerate(file.iter_batches(_ROWS, columns=kept)):
            yield from _rows(batch, number)


def arrow(path: str) -> Members:
    """The rows of an Arrow file or stream as text."""
    import pyarrow.ipc

    with pyarrow.OSFile(path) as file:
        opened = pyarrow.ipc.open_file if file.read(6) == b"ARROW1" else pyarrow.ipc.open_stream
        file.seek(0)
        reader = opened(file)
        several = hasattr(reader, "num_record_batches")
        batches = (reader.get_batch(at) for at in range(reader.num_record_batches)) if several else reader
        for number, batch in enumerate(batches):
            kept = [field.name for field in batch.schema if _may_hold_text(field.type)]
            yield from _rows(batch.select(kept), number)


def sqlite(path: str) -> Members:
    """The rows of a database's tables as text; views and virtual tables, which are programs, are left alone."""
    import sqlite3

    steps = iter(range(_MOST_STEPS))
    connection = sqlite3.connect(f"file:{path}?mode=rw", uri=True)
    connection.text_factory = bytes
    connection.set_progress_handler(lambda: next(steps, None) is None, _STEPS)
    connection.execute("PRAGMA trusted_schema = OFF")
    tables = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
    for number, (name, sql) in enumerate(tables):
        if sql is not None and sql.upper().startswith(b"CREATE VIRTUAL"):
            continue
        quoted = name.decode("utf-8", "surrogateescape").replace('"', '""')
        rows = connection.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608  quoted, and of a copy
        while chunk := rows.fetchmany(_ROWS):
            yield from _texts(f"table {number}", chunk)


def zstd(path: str) -> Members:
    """What was compressed."""
    yield from _compressed(path, "zstd")


def lz4(path: str) -> Members:
    """What was compressed."""
    yield from _compressed(path, "lz4")


KINDS: dict[str, Callable[[str], Members]] = {
    "parquet": parquet, "arrow": arrow, "sqlite": sqlite, "zstd": zstd, "lz4": lz4,
}  # fmt: skip


def _compressed(path: str, kind: str) -> Members:
    """In one piece; the parent ends this process when it becomes too large."""
    import pyarrow as pa

    with pa.OSFile(path) as file, pa.CompressedInputStream(file, kind) as stream:
        parts = []
        try:
            while part := stream.read(_CHUNK):
                parts.append(part)
                if len(parts) * _CHUNK > _MOST_MEMORY // 8:
                    raise ValueError("it grows without end")
        finally:
            yield "contents", b"".join(parts)


def _may_hold_text(kind: Any) -> bool:
    """Whether a column is more than numbers in lists."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _may_hold_text(kind.value_type)
    if types.is_struct(kind) or types.is_map(kind):
        return any(_may_hold_text(kind.field(at).type) for at in range(kind.num_fields))
    if types.is_nested(kind):
        return types.is_nested(kind.value_type) or not types.is_primitive(kind.value_type)
    return True


def _rows(batch: Any, number: int) -> Members:
    yield from _texts(f"rows {number * _ROWS}", (row.values() for row in batch.to_pylist()))


def _texts(name: str, rows: Any) -> Members:
    """The rows' values, one a line; of those that wrap something, a member each."""
    lines, wrapped = [], []
    for row in rows:
        for value in row:
            if isinstance(value, bytes) and value.startswith(WRAPPED):
                wrapped.append(value)
            else:
                lines.append(_text(value))
    yield name, b"\n".join(lines)
    for at, value in enumerate(wrapped):
        yield f"{name} value {at}", value


def _text(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"\n".join(_text(one) for one in value.values())
    if isinstance(value, list | tuple):
        return b"\n".join(_text(one) for one in value)
    return b"" if value is None else str(value).encode("utf-8", "replace")


def main() -> None:
    """Serves files until there are no more lines."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        try:
            for name, data in KINDS[asked["kind"]](asked["path"]):
                out.write(b"M" + struct.pack("<IQ", len(name.encode()), len(data)) + name.encode())
                out.write(data)
        except Exception as error:  # noqa: BLE001  whatever a stranger's bytes make a library raise
            said = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:200]
            out.write(b"E" + struct.pack("<I", len(said)) + said)
        out.write(b".")
        out.flush()


if __name__ == "__main__":
    main()
