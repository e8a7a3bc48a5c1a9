"""What an exact forward pass is made of: one order for every sum, the same in sampler and trainer.

Shapes: M rows, N outputs and K columns of a product; S sequences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import torch

Value = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The operations of the trainer, and how the engine does the same. All tensors are on one GPU, in bf16 but for
    the rotation's tables, logits and log-probabilities, which are float32.
    """

    steps: str  # what does the sampler's steps, for the record
    persistent: bool  # whether that is the persistent kernel, which takes at most 8 sequences
    product: Value  # (x_MK, weight_NK, bias_N, *, added_MN, wide): x W^T + b, or with `wide` its float32 sums
    norm: Value  # (x_NH, weight_H, epsilon)
    turn: Value  # (x_NCD, cos_LD, sin_LD, position_N, norm_D, epsilon): heads normalised, where they are, and rotated
    gate: Value  # (gate_NI, up_NI): silu(gate) × up
    attend: Value  # (query_NQD, keys, values, tiles, scale): each query over the keys of its sequence up to itself
    tile_queries: int  # of `Tiles`
    token_logp: Callable[..., tuple[torch.Tensor, torch.Tensor]]  # see `chained/operations.py`
    ways: Callable[[Any], tuple[Any, Any]]  # of a room: operations of a prefill, and a step; `engine/sampler.py`
    trial: Callable[[Any], str | None]  # of a model made exact: why the sums differ on this chip; see `trial.py`

    def tiles(self, queries: Sequence[int], *, device: torch.device) -> "Tiles":
        """Of sequences one behind the other, all of whose tokens are queries."""
        return Tiles.of(queries, size=self.tile_queries, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Which queries a program of the attention has: some of one sequence, one behind the other."""

    tile_sequence: torch.Tensor  # int32, of each program
    tile_first: torch.Tensor  # int32: its first query in the sequence
    query_row: torch.Tensor  # int32, of each sequence: the row of its first query
    queries: torch.Tensor  # int32
    first_position: torch.Tensor  # int32: of its first query
    key_row: torch.Tensor  # int32: the row of its first key, where keys lie in rows

    @classmethod
    def of(
        cls,
        queries: Sequence[int],
        *,
        size: int,
        device: torch.device,
        query_row: Sequence[int] | None = None,
        first_position: Sequence[int] | None = None,
    ) -> Self:
        """So many queries of each sequence, `size` a program; by default all of it, one behind the other."""
        rows = query_row or (0, *accumulate(queries))[:-1]
        tiles = [(s, first) for s, count in enumerate(queries) for first in range(0, count, size)]

        def numbers(values: Sequence[int]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int32).to(device, non_blocking=True)

        return cls(
            tile_sequence=numbers([sequence for sequence, _ in tiles]),
            tile_first=numbers([first for _, first in tiles]),
            query_row=numbers(rows),
            queries=numbers(queries),
            first_position=numbers(first_position or [0] * len(queries)),
            key_row=numbers(rows),
        )

    @classmethod
    def of_prefill(
        cls, starts: Sequence[int], counts: Sequence[int], *, padded: int, size: int, device: torch.device
    ) -> Self:
        """Of so many tokens of each sequence from a position on, padded behind the last to rows of one length."""
        rows = [row * padded for row in range(len(counts))]
        return cls.of(counts, size=size, device=device, query_row=rows, first_position=starts)
