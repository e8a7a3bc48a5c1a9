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
from pydantic import TypeAdapter, ValidationError

from opd.records.errors import AskedWrongly
from opd.records.files import whole
from opd.records.rollouts import StopReason

FOLDER = "generations"
_MADE = b"opd"  # key of the file's metadata under which stands who made it
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


class Damaged(AskedWrongly):
    """A file that can't be read as generations; `fault` says in which way, and the message what to do as well."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"{fault}; take it away: what it held is drawn anew, unless it was graded")
        self.fault = fault


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
    """The generations stand in the file, whole or not at all; its folder is there, or it is `FileNotFoundError`."""
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
    with whole(path, parents=False) as temporary:
        # a flipped bit in a page may decompress to other tokens; its checksum notices
        pq.write_table(
            table, temporary, compression="zstd", use_dictionary=["question", "stop"], write_page_checksum=True
        )


def read_generations(path: Path) -> list[Generation]:
    """What the file holds, with float32 log-probabilities; raises `Damaged`."""
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
    """The (question, sample) of each generation in the file, and who made them; raises `Damaged`.

    All of the file is read, so that damage to its tokens is found as well.
    """
    table = _table(path)
    try:
        making = TypeAdapter(Making).validate_json(table.schema.metadata[_MADE])
    except ValidationError as error:
        raise Damaged(f"{path} does not say who made it") from error
    return [(row["question"], row["sample"]) for row in table.select(["question", "sample"]).to_pylist()], making


def _table(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Damaged(f"{path} can't be read ({str(error).partition(chr(10))[0]:.100})") from error
    if not table.schema.equals(_SCHEMA) or _MADE not in (table.schema.metadata or {}):
        raise Damaged(f"{path} is no table of generations")
    return table
