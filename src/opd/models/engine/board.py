"""The tensors that a captured step reads and writes: they stay where they are, and only their values change.

Shapes: B rows, one a running sequence; W steps between two looks of the host; M pages of a sequence at most.

    the host, every W steps        the device, W times in between
    fills rows, pages, uniforms    column `tick` of uniform_BW ──► the step ──► column `tick` of token_BW, logp_BW
    reads token_BW and logp_BW     a row that has ended stays where it is, and its columns stay NONE

A row without a sequence is not active; its page table points at the page that belongs to nobody, so that what a
step computes for it does no harm.
"""

from dataclasses import dataclass, fields
from typing import Self

import torch

NONE = -1  # no token: the row was not active
BROKEN = -2  # no token: the probabilities were not finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The state of the running sequences, on the device."""

    ids_B: torch.Tensor  # int64: the newest token of each, whose keys the next step writes
    position_B: torch.Tensor  # int64: where that token stands in its sequence
    left_B: torch.Tensor  # int64: tokens that may still be drawn
    active_B: torch.Tensor  # bool
    table_BM: torch.Tensor  # int32: the sequence's pages, in order
    uniform_BW: torch.Tensor  # float64, in [0, 1)
    token_BW: torch.Tensor  # int64
    logp_BW: torch.Tensor  # nats, of the distribution that was drawn from
    raw_logp_BW: torch.Tensor  # nats, before any cut
    tick: torch.Tensor  # int64, one element: the column that is next; the same for all rows

    @classmethod
    def empty(
        cls, *, rows: int, window: int, pages: int, nobodys: int, dtype: torch.dtype, device: torch.device
    ) -> Self:
        """A board on which nothing runs; `nobodys` is the page that belongs to nobody, `dtype` that of logp."""

        def zeros(*shape: int, of: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(*shape, dtype=of, device=device)

        return cls(
            ids_B=zeros(rows),
            position_B=zeros(rows),
            left_B=zeros(rows),
            active_B=zeros(rows, of=torch.bool),
            table_BM=zeros(rows, pages, of=torch.int32).fill_(nobodys),
            uniform_BW=zeros(rows, window, of=torch.float64),
            token_BW=zeros(rows, window).fill_(NONE),
            logp_BW=zeros(rows, window, of=dtype),
            raw_logp_BW=zeros(rows, window, of=dtype),
            tick=zeros(1),
        )

    def first(self, rows: int) -> Self:
        """The first rows alone, as views: a step over them changes this board."""
        views = {field.name: getattr(self, field.name)[:rows] for field in fields(self) if field.name != "tick"}
        return type(self)(**views, tick=self.tick)
