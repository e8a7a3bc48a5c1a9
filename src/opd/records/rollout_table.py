"""`rollouts/step-000001.parquet`: every token of a step with both log-probabilities, compactly.

    row  epoch  sample  problem  answer  stop  prompt_ids  token_ids  student_logp  teacher_logp
    int  int    int     text     text    text  [int32]     [int32]    [float32]     [float32]      a row a rollout

`rollouts/tokenizer.json` beside the tables turns ids back into text. Log-probabilities are in nats, the student's of
the distribution that was drawn from. `docs/recipe.md` describes each column.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from opd.records.files import whole
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason

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


def table_path(run: Path, step: int) -> Path:
    """Where a run keeps the rollouts of a step."""
    return run / "rollouts" / f"step-{step:06d}.parquet"


def write_table(path: Path, scored: Sequence[ScoredRollout]) -> None:
    """The rollouts of one step stand in the file, whole or not at all."""
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
        }
        for one in scored
    ]
    with whole(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), temporary, compression="zstd")


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
                ),
                sample=row["sample"],
                token_ids=tuple(row["token_ids"]),
                logp=tuple(row["student_logp"]),
                stop=StopReason(row["stop"]),
            ),
            teacher_logp=tuple(row["teacher_logp"]),
        )
        for row in pq.read_table(path, schema=_SCHEMA).to_pylist()
    ]
