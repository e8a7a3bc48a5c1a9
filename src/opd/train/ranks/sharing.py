"""What ranks have in common, and what each has a share of: by `machine.shard`."""

from collections.abc import Callable
from typing import Literal

from opd.models.load import LanguageModel
from opd.records.errors import AskedWrongly
from opd.train.ranks.layers import with_sharded_layers
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


def shared(
    student: LanguageModel,
    how: Sharing,
    ranks: Ranks,
    *,
    shape: Callable[[LanguageModel], LanguageModel],
    apart: bool = False,
) -> tuple[LanguageModel, LanguageModel, ShardedMasters | None]:
    """The student that samples, the one that learns, and the masters of which this rank has a share, if it has.

    They are one student but where its layers are FSDP2's. `shape` gives a student whose layers run as the recipe
    says; a process alone has nobody to share with. `apart`: nothing samples with the first one's layers.
    """
    if how == "none" or ranks.count == 1:
        student = shape(student)
        return student, student, None
    if how == "optimizer":
        student = shape(student)
        return student, student, ShardedMasters(student.module, ranks=ranks)
    learner = shape(with_sharded_layers(student, ranks))
    return student, learner, ShardedMasters(student.module, ranks=ranks, layers=learner.module, apart=apart)
