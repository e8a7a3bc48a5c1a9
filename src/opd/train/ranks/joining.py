"""From the environment that torchrun gives to the ranks of a run.

    torchrun --nproc-per-node 4 -m opd train RECIPE --out DIR

RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say which process this is and where the others are found;
without them, or with a WORLD_SIZE of 1, it is alone. NCCL sums what lies on GPUs, a GPU a rank, and gloo the rest.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from opd.models.machine import choose_device
from opd.records.errors import AnswerIsNo, AskedWrongly, OpdError
from opd.train.ranks.ranks import ALONE, RankLost, Ranks
from opd.train.ranks.watch import LOST_AFTER_SECONDS, Watch

JOIN_SECONDS = 600.0  # until the last rank has come
SAY_SECONDS = 30.0  # then it is said who has not
LONGEST_WAIT_SECONDS = 3_600.0  # for ranks whose hearts beat: a checkpoint on a slow disk, or a step on a slow GPU
MOST_NAMED = 8
_LOG = logging.getLogger(__name__)
_NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which process this is."""

    rank: int
    count: int
    local_rank: int  # among those of this machine: the number of its GPU


def place_in(environment: Mapping[str, str]) -> Place | None:
    """The place that torchrun gives a process; None for one that is alone.

    Raises `AskedWrongly` for half of such an environment, or one that makes no sense.
    """
    if environment.get("WORLD_SIZE", "1") == "1":
        return None
    if missing := [name for name in _NAMES if not environment.get(name)]:
        raise AskedWrongly(
            f"WORLD_SIZE = {environment['WORLD_SIZE']}, but not {', '.join(missing)}: start the ranks by torchrun, "
            "or unset WORLD_SIZE"
        )
    try:
        rank, count = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        local_rank = int(environment.get("LOCAL_RANK", rank))
    except ValueError as error:
        raise AskedWrongly(
            f"RANK, WORLD_SIZE and LOCAL_RANK must be numbers ({error}); torchrun sets them"
        ) from error
    if not 0 <= rank < count or local_rank < 0:
        raise AskedWrongly(f"RANK = {rank} is not below WORLD_SIZE = {count}; torchrun sets them")
    return Place(rank=rank, count=count, local_rank=local_rank)


@contextmanager
def joined(*, device: str, lost_after_seconds: float = LOST_AFTER_SECONDS) -> Iterator[Ranks]:
    """Inside, the ranks of this run are together. `device` is the recipe's: auto, cpu or cuda.

    An exception that leaves it is told to the others, who end too; the process should then end by `os._exit`,
    because at a usual exit gloo and NCCL wait for ranks that may never answer. Raises `AskedWrongly` for a rank
    without a GPU.
    """
    place = place_in(os.environ)
    if place is None:
        yield ALONE
        return
    on_gpu = choose_device(device) == "cuda"
    if on_gpu:
        take_gpu(place)
    try:
        with who_is_missing_said(place):
            watch = _meet(place, on_gpu=on_gpu, lost_after_seconds=lost_after_seconds)
    except RuntimeError as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        why = str(error).partition("\n")[0]
        raise AnswerIsNo(
            f"rank {place.rank} did not find the other {place.count - 1} at {where} ({why:.200}); see that all of "
            "them run, and that the machines reach each other there"
        ) from error
    ranks = Ranks(rank=place.rank, count=place.count, watch=watch)
    try:
        yield ranks
        ranks.everyone(None)  # nobody leaves while another still asks the store
    except BaseException as error:
        own = f"rank {place.rank} has ended: {type(error).__name__}: {error}"
        watch.note(error.why if isinstance(error, RankLost) else own)
        if place.rank != 0 and isinstance(error, OpdError) and not error.said_elsewhere:
            error.said_elsewhere = watch.first_has_left()  # rank 0 was told, and says it once for all
        watch.leave()
        if place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":  # else torchrun holds it
            watch.see_off()
        raise
    watch.leave()
    dist.destroy_process_group()


@contextmanager
def who_is_missing_said(place: Place) -> Iterator[None]:
    """Inside, a rank that has come says after half a minute which have not, as far as it can know."""
    over = threading.Event()
    threading.Thread(target=_look_for_missing, args=(place, over), name="roll-call", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _look_for_missing(place: Place, over: threading.Event) -> None:
    """Writes this rank into the roll that all share, and later reads it; the lowest that has come speaks."""
    began = time.monotonic()
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun's store outlives the ranks
    keys = [f"opd/come/{start}/{rank}" for rank in range(place.count)]
    missing: list[int] | None = None
    try:
        # a connection of its own: the usual one is not there before all ranks are
        patience = timedelta(seconds=min(SAY_SECONDS, JOIN_SECONDS))
        roll = dist.TCPStore(  # type: ignore[attr-defined]  # the stub lacks it
            address, port, is_master=False, timeout=patience, wait_for_workers=False
        )
        roll.set(keys[place.rank], "1")
        if over.wait(SAY_SECONDS - (time.monotonic() - began)):
            return
        missing = [rank for rank, key in enumerate(keys) if not roll.check([key])]
    except RuntimeError:  # nobody holds the store
        if over.wait(max(0.0, SAY_SECONDS - (time.monotonic() - began))):
            return
    come = [rank for rank in range(place.count) if missing is None or rank not in missing]
    if missing is None or (missing and place.rank == min(come)):
        who = "rank 0, or torchrun," if missing is None else _counted(missing)
        _LOG.warning(
            "%s not come to %s:%d in %.0f s, and is waited for %.0f s in all; see what was said where it was started",
            f"{who} has" if missing is None or len(missing) == 1 else f"each of {who} has",
            address,
            port,
            time.monotonic() - began,
            JOIN_SECONDS,
        )


def _counted(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 3, 5`, and of many the first and how many there are."""
    few = ", ".join(map(str, ranks[:MOST_NAMED]))
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {few}{more}"


def take_gpu(place: Place) -> None:
    """This process computes on the GPU of its number."""
    if place.local_rank >= (there := torch.cuda.device_count()):
        raise AskedWrongly(
            f"rank {place.rank} has no GPU to itself: it is process {place.local_rank + 1} of this machine, which "
            f"has {there}; start as many processes as there are GPUs (torchrun --nproc-per-node {there})"
        )
    torch.cuda.set_device(place.local_rank)


def _meet(place: Place, *, on_gpu: bool, lost_after_seconds: float) -> Watch:
    """All ranks have come, and their hearts beat."""
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # multicast over NVLink needs rights that containers lack
    joining = timedelta(seconds=JOIN_SECONDS)
    store, _, _ = next(iter(rendezvous("env://", place.rank, place.count, timeout=joining)))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        store=PrefixStore("opd/sums", store),
        rank=place.rank,
        world_size=place.count,
        timeout=timedelta(seconds=LONGEST_WAIT_SECONDS),
    )
    watch = Watch(
        PrefixStore("opd/watch", store),
        rank=place.rank,
        count=place.count,
        lost_after_seconds=lost_after_seconds,
    )
    watch.start()
    return watch
