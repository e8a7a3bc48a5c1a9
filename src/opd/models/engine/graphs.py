"""Decode steps as CUDA graphs: a step is started with one call, and the host is out of the way.

    rows running      1   2   3   4   5 … 8   9 … 12  …        the ladder's rungs: 1, 2, 4, 8, 12, 16, 24, 32, 48, …
    rows of a graph   1   2   4   4   8   8   12  12  …        rows beyond the running ones are not active

A graph holds all that a step does: 28 layers, the draw, and the board's moving on. What it reads and writes has a
fixed place (`Room`), so it is captured once a rung and replayed for as long as the room exists, whatever weights
the trainer writes into the same memory. The first step of a rung is run as it is, which also compiles its kernels;
the graph is captured behind it, and from then on replayed.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

import torch

from opd.models.engine.drafts.steps import ROWS
from opd.models.engine.operations import TORCH, Operations
from opd.models.engine.room import Room
from opd.models.engine.step import Step, decode_step


def ways_on_cuda(room: Room) -> tuple[Operations, Step]:
    """The operations and the step of a room on a GPU: torch's operations where the kernels don't fit."""
    ops, shape, size = TORCH, room.shape, room.size
    if find_spec("triton") is not None:
        from opd.models.engine.kernels import table

        if table.misfit(head_size=shape.head_size, dtype=room.pools.keys[0].dtype) is None:
            ops = table.operations(room.weights, key_heads=shape.key_heads, rows=max(size.rows, ROWS))

    def step(rung: int) -> None:
        decode_step(room, ops, rows=rung, longest=size.sequence_tokens)

    return ops, StepGraphs(rungs(size.rows), step)


class StepGraphs:
    """A `Step` for CUDA: `step` does it for as many rows as one of the rungs."""

    def __init__(self, rungs: Sequence[int], step: Callable[[int], None]) -> None:
        self._rungs = rungs
        self._step = step
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._memory = torch.cuda.graph_pool_handle()  # one for all: a step needs nothing of the last one

    def __call__(self, rows: int, longest: int) -> None:  # noqa: ARG002  a graph is for all lengths
        """One step of the board's first rows, and of the inactive ones up to the next rung."""
        rung = next(rung for rung in self._rungs if rung >= rows)
        if rung in self._graphs:
            self._graphs[rung].replay()
        else:
            self._graphs[rung] = self._run_and_capture(rung)

    def _run_and_capture(self, rung: int) -> torch.cuda.CUDAGraph:
        beside = torch.cuda.Stream()  # libraries may set themselves up at first use, which no capture allows
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            self._step(rung)
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory):
            self._step(rung)
        return graph


def rungs(rows: int) -> tuple[int, ...]:
    """The batch sizes that graphs are captured for: powers of two, from 8 on those between them too, and `rows`."""
    ladder = {1 << power for power in range(rows.bit_length())}
    ladder |= {3 << power for power in range(2, rows.bit_length())}
    return tuple(sorted({rung for rung in ladder if rung < rows} | {rows}))
