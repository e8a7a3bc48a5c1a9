"""What a step works in: weights, cache, board, all of which stay where they are while the room exists."""

from dataclasses import dataclass
from typing import Self

import torch

from opd.models.engine.board import Board
from opd.models.engine.pages import Pools
from opd.models.engine.shape import Shape
from opd.models.engine.weights import Weights, rotation
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a room is."""

    rows: int  # sequences that run at once
    sequence_tokens: int  # of the longest sequence: whole pages, or all that the persistent kernel takes
    page_tokens: int
    pages: int  # that sequences can have, all together
    window: int  # decode steps between two looks of the host
    in_order: bool  # row b's keys are page b: one page a row, and no page table has to be looked at

    @property
    def pages_each(self) -> int:
        """Pages of the longest sequence."""
        return -(-self.sequence_tokens // self.page_tokens)

    def holds(self, sequence_tokens: int) -> bool:
        """Whether a sequence of so many tokens has room, if need be alone."""
        return sequence_tokens <= min(self.sequence_tokens, self.pages * self.page_tokens)

    def covers(self, other: Self) -> bool:
        """Whether what has room in the other has it here."""
        return self.rows >= other.rows and self.pages >= other.pages and self.sequence_tokens >= other.sequence_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The memory of a step. L: positions of the rotation's tables, V: the tokenizer's ids."""

    size: Size
    shape: Shape
    weights: Weights
    cos_LD: torch.Tensor
    sin_LD: torch.Tensor  # its first half negated, see `operations.Places`
    pools: Pools
    board: Board
    stop_V: torch.Tensor  # bool: ids that end a response
    sampling: Sampling

    @classmethod
    def of(cls, model: LanguageModel, sampling: Sampling, size: Size) -> Self:
        """An empty room for a model that the engine can run, whose parameters share their memory from here on."""
        shape, device, dtype = Shape.of(model), model.device, model.module.dtype
        pools = Pools.empty(shape, pages=size.pages, page_tokens=size.page_tokens, dtype=dtype, device=device)
        board = Board.empty(
            rows=size.rows,
            window=size.window,
            pages=size.pages_each,
            nobodys=pools.nobodys,
            dtype=torch.float64 if dtype == torch.float64 else torch.float32,
            device=device,
        )
        stop_V = torch.zeros(shape.vocabulary, dtype=torch.bool)
        stop_V[[token for token in model.stop_ids if token < shape.vocabulary]] = True
        cos_LD, sin_LD = rotation(model.module.model.rotary_emb, size.sequence_tokens, dtype=dtype)
        return cls(
            size=size,
            shape=shape,
            weights=Weights.of(model),
            cos_LD=cos_LD,
            sin_LD=sin_LD,
            pools=pools,
            board=board,
            stop_V=stop_V.to(device),
            sampling=sampling,
        )
