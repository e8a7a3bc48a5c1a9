"""`generations/000040-000.parquet`: every token that an evaluation drew, with its log-probability, compactly.

    question  sample  seed  stop  prompt_ids  token_ids  logp
    text      int     int   text  [int32]     [int32]    [float32]      a row a generation

A file holds what one group of questions gave, and is named by the first of it: the question's row in the benchmark
and the number of the sample. Log-probabilities are in nats, of the distribution that was sampled from. Some three
and a half bytes a token.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from opd.records.errors import AskedWrongly
from opd.records.files import whole
from opd.records.rollouts import StopReason

FOLDER = "generations"
_MADE = b"opd"  # key of the file's metadata under which stands who made it
_KEY = ["question", "sample"]
_SCHEMA = pa.schema(
    [
        ("question", pa.string()),
        ("sample", pa.int32()),
        ("seed", pa.int64()),
        ("stop", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("token_ids", pa.list_(pa.int32())),
        ("logp", pa.list_(pa.float32())),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What a model wrote to one question, token by token; keyed like a `Sample`."""

    question: str
    sample: int
    seed: int
    stop: StopReason
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]  # with the end-of-sequence token when the model wrote one
    logp: tuple[float, ...]  # nats, one for each token id


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Where the generations of a file were drawn, and in how many seconds."""

    machine: dict[str, str]
    seconds: float


def generations_path(out: Path, *, row: int, sample: int) -> Path:
    """Where an evaluation keeps the generations of which this is the first."""
    return out / FOLDER / f"{row:06d}-{sample:03d}.parquet"


def write_generations(path: Path, generations: Sequence[Generation], making: Making) -> None:
    """The generations stand in the file, whole or not at all."""
    rows = [
        {
            "question": one.question,
            "sample": one.sample,
            "seed": one.seed,
            "stop": one.stop.value,
            "prompt_ids": one.prompt_ids,
            "token_ids": one.token_ids,
            "logp": one.logp,
        }
        for one in generations
    ]
    made = json.dumps({"machine": making.machine, "seconds": making.seconds}).encode()
    table = pa.Table.from_pylist(rows, schema=_SCHEMA.with_metadata({_MADE: made}))
    with whole(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", use_dictionary=["question", "stop"])


def read_generations(path: Path) -> list[Generation]:
    """What the file holds, with float32 log-probabilities; `AskedWrongly` when it is damaged."""
    return [
        Generation(
            question=row["question"],
            sample=row["sample"],
            seed=row["seed"],
            stop=StopReason(row["stop"]),
            prompt_ids=tuple(row["prompt_ids"]),
            token_ids=tuple(row["token_ids"]),
            logp=tuple(row["logp"]),
        )
        for row in _table(path).to_pylist()
    ]


def read_keys(path: Path) -> tuple[list[tuple[str, int]], Making]:
    """The (question, sample) of each generation in the file, without reading their tokens, and who made them."""
    table = _table(path, columns=_KEY)
    made = json.loads(table.schema.metadata[_MADE])
    keys = [(row["question"], row["sample"]) for row in table.to_pylist()]
    return keys, Making(machine=made["machine"], seconds=made["seconds"])


def _table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=columns, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise AskedWrongly(
            f"{path} can't be read ({str(error).partition(chr(10))[0]:.100}); take it away: what it held is drawn "
            "anew, unless it was graded"
        ) from error
    wanted = _SCHEMA if columns is None else pa.schema([_SCHEMA.field(name) for name in columns])
    if not table.schema.equals(wanted) or _MADE not in (table.schema.metadata or {}):
        raise AskedWrongly(f"{path} is no table of generations; take it away")
    return table
