"""The trainer's state of ranks that have a share each: written by all of them, and published by rank 0.

So all ranks must see the run's folder. A state goes on on any number of ranks, shared or not, whoever wrote it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError

from opd.records.errors import AskedWrongly
from opd.records.files import PARTIAL
from opd.train.ranks.ranks import Ranks
from opd.train.ranks.sharded import ShardedMasters
from opd.train.ranks.shelf import kinds_in, read_rows, write_rows
from opd.train.saved.retries import retried
from opd.train.saved.state import States, check_same

T = TypeVar("T")


def check_seen(out: Path, ranks: Ranks) -> None:
    """Nothing, when all ranks see what rank 0 writes into the run's folder; else `AskedWrongly` on all."""
    mark = out / f"recipe.json{PARTIAL}"  # with which a folder is still free, should this be killed
    ranks.first(mark.touch)
    seen = ranks.everyone(mark.is_file())
    if ranks.writes:
        mark.unlink()
    if blind := [rank for rank, sees in enumerate(seen) if not sees]:
        raise AskedWrongly(
            f"ranks {blind} don't see {out}, where each rank writes its share of the trainer's state; name a folder "
            'on a file system that all machines share, or set machine.shard = "none"'
        )


def first(call: Callable[[], T], shares: ShardedMasters | None, ranks: Ranks) -> T:
    """What the call gives at rank 0, which alone makes it, and may write a checkpoint of a student that is shared."""
    return ranks.first(call) if shares is None else shares.first(call)


def save_shares(states: States, step: int, tensors: Mapping[str, torch.Tensor], shares: ShardedMasters) -> None:
    """The tensors of a step's state, of which this rank has its rows, are on the disk; `States.save` publishes them.

    Raises `AnswerIsNo` on all ranks when one of them can't write.
    """
    ranks = shares.ranks
    folder = ranks.first(lambda: states.begin(step))
    try:
        retried(lambda: write_rows(folder, shares.placed(tensors), ranks))
    except (OSError, SafetensorError) as error:
        if ranks.writes:
            states.drop(step)
        raise states.not_written(step, error) from error


def read_shares(folder: Path, shares: ShardedMasters) -> dict[str, torch.Tensor]:
    """The tensors of a state, of each the rows that this rank has, on the CPU.

    Raises `AnswerIsNo` when they are of another model.
    """
    kinds = kinds_in(folder)
    check_same(kinds, shares.kinds)
    rows = {key: shares.room_for(key, dtype) for key, (_, dtype) in kinds.items()}
    read_rows(folder, shares.placed(rows))
    return rows
