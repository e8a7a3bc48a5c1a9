"""Tensors of which each rank has some rows, on the disk, by torch.distributed.checkpoint: a file of each rank.

    shard-00001-….safetensors    rows 0 to 99 of master/a, rows 0 to 3 of master/b, …       by rank 0
    shard-00002-….safetensors    rows 100 to 199 of master/a, rows 4 to 7 of master/b, …    by rank 1

Whoever reads asks for the rows that it has, and need not be one of as many; one process asks for all of them. The
files are safetensors, whose headers say which rows they hold: no pickle is written or opened.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from opd.train.ranks.ranks import Ranks


def write_rows(folder: Path, tensors: Mapping[str, torch.Tensor], ranks: Ranks) -> None:
    """The folder, which all ranks see, has a file with the rows of each rank.

    Raises what broke it, at whichever rank, on all of them.
    """
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        ranks.while_looking(lambda: save(dict(tensors), storage_writer=writer))
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items())
        raise cause if isinstance(cause, Exception) else RuntimeError(f"rank {rank}: {cause}") from None


def kinds_in(folder: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Shape and dtype of each tensor in the folder, of all its rows."""
    found = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    return {
        name: (one.size, one.properties.dtype)
        for name, one in found.items()
        if isinstance(one, TensorStorageMetadata)  # there is nothing else in safetensors
    }


def read_rows(folder: Path, into: Mapping[str, torch.Tensor]) -> None:
    """These tensors hold what the folder has of them, or of their rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # nobody has to be asked
        load(dict(into), storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)


def read_whole(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of the folder with all their rows, on the CPU."""
    tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in kinds_in(folder).items()}
    read_rows(folder, tensors)
    return tensors
