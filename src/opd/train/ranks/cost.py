"""What it costs a step that several processes make it, before any of them is started.

In a ring each rank sends 2 (N - 1) / N of the gradients (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
for clusters of workstations", 2009). How fast the links are is assumed, and said to be; `benchmarks/bench_ranks.py`
measures it.
"""

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from opd.records.settings import Settings

HOST_RANKS = 8  # GPUs of one machine, at most
LINKS = {  # bytes a second, of a ring; assumed
    "cpu": (1e9, "processes of one machine by gloo"),
    "host": (3e11, "GPUs of one machine over NVLink"),
    "hosts": (5e10, "machines with one port of 400 Gb/s each"),
}
NCCL_BYTES = 1 << 30  # buffers of its channels; assumed


class Reduction(Settings):
    """Adding up the gradients of all ranks, in one step."""

    ranks: PositiveInt
    gradient_bytes: NonNegativeInt
    """Of one rank and update."""
    sent_bytes: NonNegativeInt
    """By each rank, in the whole step."""
    bytes_per_second: PositiveFloat
    """Assumed."""
    link: str
    """What that is assumed of."""
    seconds: NonNegativeFloat


def reduction_of(gradient_bytes: int, *, ranks: int, updates: int, device: str) -> Reduction:
    """Of so many updates a step, with gradients of so many bytes on each rank."""
    where = "cpu" if device == "cpu" else "host" if ranks <= HOST_RANKS else "hosts"
    bytes_per_second, link = LINKS[where]
    sent = updates * 2 * gradient_bytes * (ranks - 1) // ranks
    return Reduction(
        ranks=ranks,
        gradient_bytes=gradient_bytes,
        sent_bytes=sent,
        bytes_per_second=bytes_per_second,
        link=link,
        seconds=sent / bytes_per_second,
    )
