"""The ranks that are one vLLM together: a GPU each, and on each a part of every tensor (vLLM's tensor parallelism).

    ranks 0 1 2 3 of a run, two of which are a team     [0 1] one vLLM     [2 3] another
    shared     rank 0's and rank 1's requests ──► both ranks' vLLM, in one order ──► each keeps what it asked for

Torchrun has started the processes, so vLLM starts none (its executor `external_launcher`): every rank has an engine
with a schedule of its own, and as all of a team are given the same in the same order, they do the same. Whether they
did is compared. vLLM runs in a thread that is its own, so that a rank that is lost ends the others' wait for it.
"""

import gc
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

import torch

from opd.records.errors import AnswerIsNo, AskedWrongly

T = TypeVar("T")
U = TypeVar("U")


class Ranks(Protocol):
    """The processes of a run, as far as a team speaks to them: `train/ranks/ranks.py`."""

    @property
    def rank(self) -> int:
        """Which of them this is."""

    @property
    def count(self) -> int:
        """How many there are."""

    def everyone(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""

    def while_looking(self, call: Callable[[], T]) -> T:
        """What the call gives; a lost rank ends the wait for it."""


class Team:
    """`size` ranks in a row that are one vLLM; without `ranks`, this process alone.

    All ranks of a run make the same calls in the same order, whatever team they are of. Raises `AskedWrongly` where
    the ranks can't be shared out.
    """

    def __init__(self, ranks: Ranks | None = None, *, size: int = 1) -> None:
        if fault := unshared(size, ranks=1 if ranks is None else ranks.count):
            raise AskedWrongly(fault)
        self.size = size
        self._ranks = None if ranks is None or ranks.count == 1 else ranks
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vllm")  # streams of a GPU are a thread's

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of `vllm.LLM` that make it one of a team; none for a process alone."""
        if self._ranks is None:
            return {}
        return {
            "distributed_executor_backend": "external_launcher",
            "tensor_parallel_size": self.size,
            "disable_custom_all_reduce": True,  # NCCL alone
        }

    def least(self, number: int) -> int:
        """The smallest number of the run's ranks: with caches of other sizes their schedules would part."""
        return number if self._ranks is None else min(self._ranks.everyone(number))

    def shared(self, own: Sequence[T], call: Callable[[list[T]], Sequence[U]]) -> list[U]:
        """What `call` gives for each of this rank's, made for those of the whole team at once.

        It is made on all ranks or, where none has any, on none.
        """
        every = [list(own)] if self._ranks is None else self._ranks.everyone(list(own))
        if not any(every):
            return []
        mates = every[self._first : self._first + self.size]
        before = sum(map(len, mates[: self._place]))
        return list(call(list(chain.from_iterable(mates))))[before : before + len(own)]

    def done(self, call: Callable[[], T]) -> T:
        """What a call of vLLM gives, which waits for the other ranks of the team."""
        if self._ranks is None:
            return call()
        gpu = None
        if torch.cuda.is_initialized():
            gpu = torch.cuda.current_device()
            torch.cuda.synchronize()  # its streams don't wait for this thread's
        return self._ranks.while_looking(self._thread.submit(partial(_on_gpu, call, gpu)).result)

    def check_alike(self, outputs: Sequence[Any]) -> None:
        """Nothing, when all ranks of each team were given the same tokens; else `AnswerIsNo`, on all of them."""
        if self._ranks is None:
            return
        drawn = repr([tuple(one.outputs[0].token_ids) for one in outputs])
        found = self._ranks.everyone(hashlib.sha256(drawn.encode()).digest())
        if apart := [rank for rank, one in enumerate(found) if one != found[rank - rank % self.size]]:
            raise AnswerIsNo(
                f"vLLM's tokens on ranks {apart} are not those of the ranks that they sample with, and each should "
                "draw the same: GPUs of different kinds, or a fault of memory; go on with --resume"
            )

    def end(self, llm: Any) -> None:
        """This vLLM gives back what it holds. A team's leaves the process group as it is: that is the run's."""
        engine = llm.llm_engine.engine_core
        if self._ranks is None:
            engine.shutdown()
            return
        engine.engine_core.model_executor.shutdown()
        engine.engine_core.scheduler.shutdown()
        gc.unfreeze()

    @property
    def _place(self) -> int:
        return 0 if self._ranks is None else self._ranks.rank % self.size

    @property
    def _first(self) -> int:
        return 0 if self._ranks is None else self._ranks.rank - self._place


def unshared(size: int, *, ranks: int) -> str | None:
    """Why so many ranks can't be teams of this size; None when they can."""
    if ranks % size == 0:
        return None
    there = "one process" if ranks == 1 else f"{ranks} processes"
    return (
        f"machine.tensor_parallel = {size} with {there}: vLLM spans {size} GPUs by as many processes, with one each; "
        f"start {size}, or a multiple, by torchrun --nproc-per-node, or set it to "
        f"{1 if ranks == 1 else 'what divides them'}"
    )


def uncut(config: Any, size: int) -> str | None:
    """Why a decoder of this configuration can't be cut into so many parts; None when it can."""
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    if heads % size == 0 and (kv_heads % size == 0 or size % kv_heads == 0):
        return None
    return (
        f"machine.tensor_parallel = {size}: its {heads} heads of queries and {kv_heads} of keys can't be shared "
        f"evenly among {size} GPUs"
    )


def _on_gpu(call: Callable[[], T], gpu: int | None) -> T:
    if gpu is not None:
        torch.cuda.set_device(gpu)
    return call()
