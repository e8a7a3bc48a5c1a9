"""What it costs a step that several processes make it, before any of them is started.

In a ring each rank sends (N - 1) / N of a tensor to add it up into shares, and as much to put shares together; to add
it up everywhere it does both (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", 2009). How fast the links are is assumed, and said to be, until `machine.link_bytes_per_second` says
what `benchmarks/bench_ranks.py` measured.
"""

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from opd.records.settings import Settings
from opd.train.ranks.sharing import Sharing

HOST_RANKS = 8  # GPUs of one machine, at most
LINKS = {  # bytes a second, of a ring; assumed
    "cpu": (1e9, "processes of one machine by gloo"),
    "host": (3e11, "GPUs of one machine over NVLink"),
    "hosts": (5e10, "machines with one port of 400 Gb/s each"),
}
NCCL_BYTES = 1 << 30  # buffers of its channels; assumed


class Sizes(Settings):
    """Of what travels, in bytes, of the whole student: its layers, and what stands around them."""

    layers_gradients: NonNegativeInt
    layers_weights: NonNegativeInt
    around_gradients: NonNegativeInt
    around_weights: NonNegativeInt

    @property
    def gradients(self) -> int:
        """All of them."""
        return self.layers_gradients + self.around_gradients

    @property
    def weights(self) -> int:
        """All of them."""
        return self.layers_weights + self.around_weights


class Reduction(Settings):
    """What ranks send each other in one step: gradients, and weights where they have shares."""

    ranks: PositiveInt
    shard: Sharing = "none"
    gradient_bytes: NonNegativeInt
    """Of one rank and update."""
    sent_bytes: NonNegativeInt
    """By each rank, in the whole step."""
    bytes_per_second: PositiveFloat
    measured: bool = False
    """Whether that is measured; else it is assumed."""
    link: str
    """What it is of."""
    seconds: NonNegativeFloat


def reduction_of(
    sizes: Sizes,
    *,
    ranks: int,
    shard: Sharing = "none",
    updates: int,
    passes: int = 1,
    device: str,
    measured: float | None = None,
) -> Reduction:
    """Of so many updates a step, each of so many passes; `measured`: bytes a second of the links, where known."""
    where = "cpu" if device == "cpu" else "host" if ranks <= HOST_RANKS else "hosts"
    assumed, link = LINKS[where]
    sent = _travelling(sizes, shard, updates=updates, passes=passes) * (ranks - 1) // ranks
    bytes_per_second = measured or assumed
    return Reduction(
        ranks=ranks,
        shard=shard,
        gradient_bytes=sizes.gradients,
        sent_bytes=sent,
        bytes_per_second=bytes_per_second,
        measured=measured is not None,
        link=link,
        seconds=sent / bytes_per_second,
    )


def _travelling(sizes: Sizes, shard: Sharing, *, updates: int, passes: int) -> int:
    """Bytes that are added up into shares or put together in a step, each time counted once."""
    if shard == "none":
        return updates * 2 * sizes.gradients
    if shard == "optimizer":
        return updates * (sizes.gradients + sizes.weights)
    before = passes * updates if updates > 1 else 0  # the old policy's, forward alone
    forward_and_back = passes * updates * (2 * sizes.layers_weights + sizes.layers_gradients)
    layers = before * sizes.layers_weights + forward_and_back + sizes.layers_weights  # whole again, to sample
    return layers + updates * (sizes.around_gradients + sizes.around_weights)
