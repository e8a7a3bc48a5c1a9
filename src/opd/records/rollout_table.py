"""`rollouts/step-000001.parquet`: every token of a step with both log-probabilities, compactly.

    row  epoch  sample  problem  answer  stop  prompt_ids  token_ids  student_logp  teacher_logp
    int  int    int     text     text    text  [int32]     [int32]    [float32]     [float32]      a row a rollout

Where rows name their teacher, two more columns follow: `teacher`, its name, and `teacher_prompt_ids` [int32], null
where it sees the prompt as the student does. Where a recipe asks for the teacher's alternatives, so do two others:
`alternative_ids` [int32] and `alternative_logp` [float32], K for each token, one token's after the other's, the
likeliest first.
`rollouts/tokenizer.json` beside the tables turns ids back into text. Log-probabilities are in nats, the student's of
the distribution that was drawn from. `docs/recipe.md` describes each column.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from opd.records.files import whole
from opd.records.rollouts import Alternatives, Prompt, Rollout, ScoredRollout, StopReason

_SCHEMA = pa.schema(
    [
        ("row", pa.int32()),
        ("epoch", pa.int32()),
        ("sample", pa.int32()),
        ("problem", pa.string()),
        ("answer", pa.string()),
        ("stop", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("token_ids", pa.list_(pa.int32())),
        ("student_logp", pa.list_(pa.float32())),
        ("teacher_logp", pa.list_(pa.float32())),
    ]
)
_TAUGHT = pa.schema([("teacher", pa.string()), ("teacher_prompt_ids", pa.list_(pa.int32()))])
_IDS = pa.field("alternative_ids", pa.list_(pa.int32()))
_LOGP = pa.field("alternative_logp", pa.list_(pa.float32()))


def table_path(run: Path, step: int) -> Path:
    """Where a run keeps the rollouts of a step."""
    return run / "rollouts" / f"step-{step:06d}.parquet"


def write_table(path: Path, scored: Sequence[ScoredRollout]) -> None:
    """The rollouts of one step stand in the file, whole or not at all."""
    _write(path, _table(scored))


def encoded(scored: Sequence[ScoredRollout]) -> bytes:
    """The table of these rollouts, for another process that writes it with others."""
    table = _table(scored)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def write_encoded(path: Path, tables: Sequence[bytes], *, order: Sequence[int]) -> None:
    """The rows of these tables, one table behind the other and then in this order, stand in the file."""
    read = []
    for table in tables:
        with pa.ipc.open_stream(table) as stream:
            read.append(stream.read_all())
    _write(path, pa.concat_tables(read).take(list(order)).combine_chunks())


def _table(scored: Sequence[ScoredRollout]) -> pa.Table:
    named = any(one.rollout.prompt.teacher is not None for one in scored)
    rows = [
        {
            "row": one.rollout.prompt.row,
            "epoch": one.rollout.prompt.epoch,
            "sample": one.rollout.sample,
            "problem": one.rollout.prompt.problem,
            "answer": one.rollout.prompt.answer,
            "stop": one.rollout.stop.value,
            "prompt_ids": one.rollout.prompt.token_ids,
            "token_ids": one.rollout.token_ids,
            "student_logp": one.rollout.logp,
            "teacher_logp": one.teacher_logp,
            "teacher": one.rollout.prompt.teacher,
            "teacher_prompt_ids": one.rollout.prompt.teacher_ids,
        }
        for one in scored
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema([*_SCHEMA, *_TAUGHT]) if named else _SCHEMA)
    others = [one.alternatives for one in scored if one.alternatives is not None]
    if others:
        if len(others) != len(scored):
            raise ValueError(f"{len(others)} of the step's {len(scored)} rollouts have alternatives")
        table = table.append_column(_IDS, _lists([one.ids for one in others], of=pa.int32()))
        table = table.append_column(_LOGP, _lists([one.logp for one in others], of=pa.float32()))
    return table


def _write(path: Path, table: pa.Table) -> None:
    with whole(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_table(path: Path) -> list[ScoredRollout]:
    """The rollouts that a step wrote, with float32 log-probabilities."""
    return [
        ScoredRollout(
            rollout=Rollout(
                prompt=Prompt(
                    row=row["row"],
                    epoch=row["epoch"],
                    problem=row["problem"],
                    answer=row["answer"],
                    token_ids=tuple(row["prompt_ids"]),
                    teacher=row.get("teacher"),
                    teacher_ids=_tuple(row.get("teacher_prompt_ids")),
                ),
                sample=row["sample"],
                token_ids=tuple(row["token_ids"]),
                logp=tuple(row["student_logp"]),
                stop=StopReason(row["stop"]),
            ),
            teacher_logp=tuple(row["teacher_logp"]),
            alternatives=_alternatives(row),
        )
        for row in pq.read_table(path, schema=_schema_of(path)).to_pylist()
    ]


def _lists(values: "Sequence[array[Any]]", *, of: pa.DataType) -> pa.ListArray:
    """A row for each array, which are millions of numbers: their bytes are taken as they are."""
    flat = b"".join(one.tobytes() for one in values)
    ends = [0]
    for one in values:
        ends.append(ends[-1] + len(one))
    return pa.ListArray.from_arrays(ends, pa.Array.from_buffers(of, ends[-1], [None, pa.py_buffer(flat)]))


def _schema_of(path: Path) -> pa.Schema:
    there = pq.read_schema(path).names
    return pa.schema([*_SCHEMA, *(one for one in (*_TAUGHT, _IDS, _LOGP) if one.name in there)])


def _tuple(ids: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(ids)


def _alternatives(row: dict[str, Any]) -> Alternatives | None:
    if _IDS.name not in row:
        return None
    count = len(row[_IDS.name]) // max(1, len(row["token_ids"]))
    return Alternatives(count=count, ids=array("i", row[_IDS.name]), logp=array("f", row[_LOGP.name]))
