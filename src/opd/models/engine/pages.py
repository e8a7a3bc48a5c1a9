"""The cache of keys and values: pools of pages, and the account of which are free and which are shared.

Shapes: P pages of S tokens, K key heads, D head size, M pages of a sequence at most.

    a sequence's page table    3 │ 7 │ 1        tokens 0 … S-1 in page 3, the next S in page 7, …
    its sibling's              3 │ 7 │ 4        the prompt's full pages are shared, the last one is a copy

A page goes back to the free ones when its last holder gives it back. The last page of a pool belongs to nobody:
what is computed for rows without a sequence is written there. With one page a slot, page and slot have one number,
so that the keys of the running sequences lie in order and nothing has to be gathered: the CPU's way.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Self

import torch

from opd.models.engine.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The memory: for each layer a pool of keys and one of values, [P, K, S, D] each, the last page nobody's.

    The layers' pools lie one behind the other.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    page_tokens: int

    @classmethod
    def empty(cls, shape: Shape, *, pages: int, page_tokens: int, dtype: torch.dtype, device: torch.device) -> Self:
        """Pools with so many pages that sequences can have, and one more; zeros, so that nothing unwritten is NaN."""
        size = (shape.layers, pages + 1, shape.key_heads, page_tokens, shape.head_size)
        keys, values = (torch.zeros(size, dtype=dtype, device=device).unbind() for _ in "kv")
        return cls(keys=keys, values=values, page_tokens=page_tokens)

    @property
    def nobodys(self) -> int:
        """The page that belongs to nobody."""
        return len(self.keys[0]) - 1

    def copy(self, moves: "Sequence[Move]") -> None:
        """The tokens of pages are in others too; no page is source and target."""
        if moves:
            source = torch.tensor([move.source for move in moves], device=self.keys[0].device)
            target = torch.tensor([move.target for move in moves], device=self.keys[0].device)
            most = max(move.tokens for move in moves)
            for pool in (*self.keys, *self.values):
                pool[:, :, :most].index_copy_(0, target, pool[:, :, :most].index_select(0, source))


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The first tokens of a page, which have to be copied into another one."""

    source: int
    target: int
    tokens: int


class Account:
    """Which pages are free, and how many hold each of the others. The lowest free page is taken first."""

    def __init__(self, pages: int) -> None:
        self._free = list(range(pages))  # a heap
        self._holders: Counter[int] = Counter()

    @property
    def free(self) -> int:
        """Pages that can be taken."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """So many pages with one holder; there have to be as many."""
        if count > len(self._free):
            raise ValueError(f"{count} pages asked for, {len(self._free)} are free")
        taken = [heappop(self._free) for _ in range(count)]
        self._holders.update(taken)
        return taken

    def share(self, pages: Sequence[int]) -> None:
        """Each has one more holder."""
        assert all(self._holders[page] for page in pages), "only a page that is held can be shared"
        self._holders.update(pages)

    def give_back(self, pages: Sequence[int]) -> None:
        """Each has one holder less; those without any are free."""
        for page in pages:
            assert self._holders[page], "a page is given back once by each holder"
            self._holders[page] -= 1
            if not self._holders[page]:
                del self._holders[page]
                heappush(self._free, page)
