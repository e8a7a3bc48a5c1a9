"""What ranks have in common, and what each has a share of: by `machine.shard`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from torch.distributed.tensor import DTensor

from opd.models.load import LanguageModel
from opd.records.errors import AskedWrongly
from opd.train.model import ModelSettings, load, of_size
from opd.train.ranks.gathering import Gathering
from opd.train.ranks.layers import with_sharded_layers
from opd.train.ranks.loading import load_by_rows
from opd.train.ranks.ranks import Ranks
from opd.train.ranks.sharded import ShardedMasters

Sharing = Literal["none", "optimizer", "full"]


def check_sharing(how: Sharing, *, exact: bool, adapters: bool) -> None:
    """Nothing, when such a student can be shared; else `AskedWrongly`."""
    if how == "full" and (exact or adapters):
        raise AskedWrongly(
            f'machine.shard = "full" with {"machine.exact" if exact else "lora"}: its layers are FSDP2\'s, of whole '
            'weights, and compute as torch does; set machine.shard = "optimizer" or "none"'
        )


def loaded(
    settings: ModelSettings, path: Path, *, device: str, how: Sharing, sent: bool, ranks: Ranks
) -> LanguageModel:
    """The student of a directory; by rows, where ranks share all of it and its sampler is `sent` the weights.

    Any other sampler reads them where they are, and so they are loaded whole. Raises `AskedWrongly` as `load_model`
    and `load_by_rows` do.
    """
    if how == "full" and sent and ranks.count > 1:
        return of_size(settings, load_by_rows(path, dtype=settings.dtype, device=device, ranks=ranks))
    return load(settings, path, device)


def shared(
    student: LanguageModel, how: Sharing, ranks: Ranks, *, shape: Callable[[LanguageModel], LanguageModel]
) -> tuple[LanguageModel, LanguageModel, ShardedMasters | None]:
    """The student that samples, the one that learns, and the masters of which this rank has a share, if it has.

    They are one student, but where its layers are FSDP2's and it was loaded whole. `shape` gives a student whose
    layers run as the recipe says; a process alone has nobody to share with.
    """
    if how == "none" or ranks.count == 1:
        student = shape(student)
        return student, student, None
    if how == "optimizer":
        student = shape(student)
        return student, student, ShardedMasters(student.module, ranks=ranks)
    if any(isinstance(one, DTensor) for one in student.module.parameters()):
        gathering = Gathering(student.module, ranks)
        student = replace(shape(student), gathered=gathering.tensor)
        shares = ShardedMasters(student.module, ranks=ranks, layers=student.module, gathering=gathering)
        return student, student, shares
    learner = shape(with_sharded_layers(student, ranks))
    return student, learner, ShardedMasters(student.module, ranks=ranks, layers=learner.module)
