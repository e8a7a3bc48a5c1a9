"""What ranks have in common, and what each has a share of: by `machine.shard`."""

from collections.abc import Callable
from typing import Literal

from opd.models.load import LanguageModel
from opd.train.ranks.layers import with_sharded_layers
from opd.train.ranks.ranks import Ranks
from opd.train.ranks.sharded import ShardedMasters

Sharing = Literal["none", "optimizer", "full"]


def shared(
    student: LanguageModel, how: Sharing, ranks: Ranks, *, shape: Callable[[LanguageModel], LanguageModel]
) -> tuple[LanguageModel, LanguageModel, ShardedMasters | None]:
    """The student that samples, the one that learns, and the masters of which this rank has a share, if it has.

    They are one student but where its layers are FSDP2's. `shape` gives a student whose layers run as the recipe
    says; a process alone has nobody to share with.
    """
    if how == "none" or ranks.count == 1:
        student = shape(student)
        return student, student, None
    if how == "optimizer":
        student = shape(student)
        return student, student, ShardedMasters(student.module, ranks=ranks)
    learner = shape(with_sharded_layers(student, ranks))
    return student, learner, ShardedMasters(student.module, ranks=ranks, layers=learner.module)
