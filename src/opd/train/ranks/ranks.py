"""What the ranks of a run say to each other: sums of tensors, small objects, and that one of them has ended.

    everyone(x)   rank 0: [x0, x1, x2]   rank 1: [x0, x1, x2]   rank 2: [x0, x1, x2]
    told(x)               x0                     x0                     x0
    collected(x)          [x0, x1, x2]           None                   None
    add_up([t])           t0 + t1 + t2           t0 + t1 + t2           t0 + t1 + t2
    share_of_sum(t)       first third of it      second third           third third
    put_together(x)       x0, x1, x2             x0, x1, x2             x0, x1, x2, end to end

Every rank makes the same calls in the same order. Waiting is done in Python, a look at a time, so that a signal is
heard, and a rank that is lost ends the others in seconds (`watch.py`). Objects travel as pickles: between processes
that run the same code for the same run, and never from a file.
"""

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from opd.records.errors import AnswerIsNo, AskedWrongly, OpdError
from opd.train.ranks.watch import Watch

SHORTEST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.0002, 0.005  # between two looks while waiting
SLOT_BYTES = 1_016  # of an object that needs no second message
_HEAD_BYTES = 8
BUCKET_BYTES = 256 << 20  # of tensors that travel together: larger ones are no quicker, and take more memory

# torch 2.13 warns of the names that 2.11 has
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

T = TypeVar("T")


class RankLost(AnswerIsNo):
    """Another rank has ended, so that this one can't go on; `why` says which, as far as is known."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; the run ends here, and what it has published is whole")
        self.why = why


class Ranks:
    """This process among those of its run; without a watch it is the only one, and nothing is sent."""

    def __init__(self, *, rank: int = 0, count: int = 1, watch: Watch | None = None) -> None:
        if (watch is None) != (count == 1):
            raise ValueError(f"{count} ranks {'without a watch' if watch is None else 'with one'}")
        self.rank = rank
        self.count = count
        self.waited_seconds = 0.0  # for the others, so far
        self._watch = watch

    @property
    def writes(self) -> bool:
        """Whether this is rank 0: the only one that writes files and speaks to people."""
        return self.rank == 0

    def everyone(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        if self.count == 1:
            return [value]
        sent = pickle.dumps(value)
        rooms = self._gathered(_slot(sent))
        sizes = [_size(room) for room in rooms]
        if max(sizes) > SLOT_BYTES:
            rooms = self._gathered(_padded(sent, max(sizes)))
        else:
            rooms = [room[_HEAD_BYTES:] for room in rooms]
        return list(_read(rooms, sizes))

    def collected(self, value: T) -> list[T] | None:
        """At rank 0 the values of all ranks, in their order; None elsewhere."""
        if self.count == 1:
            return [value]
        sent = pickle.dumps(value)
        sizes = self.everyone(len(sent))
        rooms = [torch.empty(max(sizes), dtype=torch.uint8) for _ in sizes] if self.writes else None
        self._await(dist.gather(_padded(sent, max(sizes)), rooms, dst=0, async_op=True))
        return None if rooms is None else list(_read(rooms, sizes))

    def told(self, value: T) -> T:
        """The value of rank 0."""
        if self.count == 1:
            return value
        sent = pickle.dumps(value) if self.writes else b""
        slot = _slot(sent)
        self._await(dist.broadcast(slot, src=0, async_op=True))
        size, room = _size(slot), slot[_HEAD_BYTES:]
        if size > SLOT_BYTES:
            room = _padded(sent, size)
            self._await(dist.broadcast(room, src=0, async_op=True))
        return next(_read([room], [size]))

    def first(self, call: Callable[[], T]) -> T:
        """What the call gives at rank 0, which alone makes it. Its refusal is every rank's, and rank 0's to say."""
        if self.count == 1:
            return call()
        found: T | None = None
        refused: OpdError | None = None
        if self.writes:
            try:
                found = call()
            except OpdError as error:
                refused = error
        wrong = isinstance(refused, AskedWrongly)
        value, message, wrong = self.told((found, None if refused is None else str(refused), wrong))
        if refused is not None:
            raise refused
        if message is not None:
            there = AskedWrongly(message) if wrong else AnswerIsNo(message)
            there.said_elsewhere = True
            raise there
        return value  # type: ignore[return-value]  # rank 0's call has ended well

    def agree(self, fault: str | None) -> None:
        """Nothing, when no rank has a fault; else `AnswerIsNo` on all of them, with those there are."""
        found = dict.fromkeys(one for one in self.everyone(fault) if one is not None)
        if found:
            raise AnswerIsNo("; ".join(found))

    def totals(self, *numbers: int) -> tuple[int, ...]:
        """The sum over all ranks of each number."""
        return tuple(map(sum, zip(*self.everyone(numbers), strict=True)))

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Each tensor holds the sum over all ranks, the same bits on each of them."""
        if self.count == 1:
            return
        for bucket in buckets(tensors, largest_bytes=BUCKET_BYTES):
            flat = bucket[0].view(-1) if _flat(bucket) else torch.cat([one.reshape(-1) for one in bucket])
            self._await(dist.all_reduce(flat, async_op=True), on=flat)
            if not _flat(bucket):
                torch._foreach_copy_(bucket, list(_pieces(flat, bucket)))
        self._await_device(tensors)

    def share_of_sum(self, flat: torch.Tensor) -> torch.Tensor:
        """This rank's of the equal pieces of the sum over all ranks, for which `flat` is used up."""
        if self.count == 1:
            return flat
        if not flat.is_cuda:  # gloo adds up all of it, and can't be looked at meanwhile
            self._await(dist.all_reduce(flat, async_op=True))
            return flat.chunk(self.count)[self.rank]
        own = flat.new_empty(len(flat) // self.count)
        self._await(_reduce_scatter(own, flat, async_op=True), on=flat)
        return own

    def put_together(self, own: torch.Tensor) -> torch.Tensor:
        """The flat tensors of all ranks, which are of one size, end to end."""
        if self.count == 1:
            return own
        flat = own.new_empty(len(own) * self.count)
        self._await(_all_gather(flat, own, async_op=True), on=flat)
        return flat

    def reached(self, tensors: Sequence[torch.Tensor]) -> None:
        """What was queued for the GPU of these tensors is done, or a rank is lost: before anything waits there."""
        if self.count > 1:
            self._await_device(tensors)

    @contextmanager
    def met_elsewhere(self) -> Iterator[None]:
        """Inside, others' code speaks to the ranks; where it breaks because one is lost, that is what is raised."""
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if self._watch is not None and (why := self._watch.ended_by_now()) is not None:
                raise RankLost(why) from error
            raise

    def while_looking(self, call: Callable[[], T]) -> T:
        """What the call gives, which speaks to all ranks and can't be interrupted; a lost rank ends the wait."""
        if self.count == 1:
            return call()
        # a thread begins on the first GPU
        on_gpu = partial(torch.cuda.set_device, torch.cuda.current_device()) if torch.cuda.is_initialized() else None
        pool = ThreadPoolExecutor(1, initializer=on_gpu)
        doing = pool.submit(call)
        pool.shutdown(wait=False)  # a lost rank leaves it waiting
        with self.met_elsewhere():
            self._look_until(doing.done)
            return doing.result()

    def spread(self, tensors: Sequence[torch.Tensor]) -> None:
        """Each tensor holds what it holds at rank 0."""
        if self.count == 1:
            return
        for tensor in tensors:
            self._await(dist.broadcast(tensor, src=0, async_op=True), on=tensor)
        self._await_device(tensors)

    def _gathered(self, own: torch.Tensor) -> list[torch.Tensor]:
        """The tensors of all ranks, which are of one size."""
        rooms = [torch.empty_like(own) for _ in range(self.count)]
        self._await(dist.all_gather(rooms, own, async_op=True))
        return rooms

    def _await(self, work: dist.Work | None, *, on: torch.Tensor | None = None) -> None:
        """The work is done; on a GPU it is queued, so that nothing after it comes before it."""
        assert work is not None, "asked for as a work"
        try:
            if on is None or not on.is_cuda:
                self._look_until(work.is_completed)
            work.wait()
        except RuntimeError as error:  # a connection was closed, or something took far too long
            raise self._lost(error) from error

    def _await_device(self, tensors: Sequence[torch.Tensor]) -> None:
        """What was queued for these tensors' GPU is done."""
        if not any(one.is_cuda for one in tensors):
            return
        reached = torch.cuda.Event()
        reached.record()
        self._look_until(reached.query)

    def _look_until(self, happens: Callable[[], bool]) -> None:
        assert self._watch is not None, "several ranks have one"
        began = time.perf_counter()
        pause = SHORTEST_LOOK_SECONDS
        while not happens():
            if (ended := self._watch.ended()) is not None:
                raise RankLost(ended)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK_SECONDS)
        self.waited_seconds += time.perf_counter() - began

    def _lost(self, error: RuntimeError) -> RankLost:
        assert self._watch is not None, "several ranks have one"
        why = str(error).partition("\n")[0]
        unknown = f"another rank has ended without a word, by what rank {self.rank} sees ({why:.200})"
        return RankLost(self._watch.ended_by_now() or unknown)


ALONE = Ranks()


def buckets(tensors: Sequence[torch.Tensor], *, largest_bytes: int) -> Iterator[list[torch.Tensor]]:
    """The tensors in order, in groups of one dtype of at most so many bytes; a larger one is a group of its own."""
    bucket: list[torch.Tensor] = []
    room = largest_bytes
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if bucket and (size > room or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, room = [], largest_bytes
        bucket.append(tensor)
        room -= size
    if bucket:
        yield bucket


def _flat(bucket: Sequence[torch.Tensor]) -> bool:
    """Whether it is one tensor that can be sent as it lies."""
    return len(bucket) == 1 and bucket[0].is_contiguous()


def _pieces(flat: torch.Tensor, bucket: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    split = flat.split([one.numel() for one in bucket])
    return starmap(lambda piece, one: piece.view(one.shape), zip(split, bucket, strict=True))


def _slot(sent: bytes) -> torch.Tensor:
    """How many bytes there are, and the bytes themselves where they fit: most objects travel with their size."""
    body = sent if len(sent) <= SLOT_BYTES else b""
    return _padded(len(sent).to_bytes(_HEAD_BYTES, "big") + body, _HEAD_BYTES + SLOT_BYTES)


def _size(slot: torch.Tensor) -> int:
    return int.from_bytes(slot[:_HEAD_BYTES].numpy().tobytes(), "big")


def _padded(sent: bytes, size: int) -> torch.Tensor:
    room = torch.zeros(size, dtype=torch.uint8)
    if sent:
        room[: len(sent)] = torch.frombuffer(bytearray(sent), dtype=torch.uint8)
    return room


def _read(rooms: Sequence[torch.Tensor], sizes: Sequence[int]) -> Iterator[T]:
    for room, size in zip(rooms, sizes, strict=True):
        yield pickle.loads(room[:size].numpy().tobytes())  # noqa: S301  # of this run's own ranks
