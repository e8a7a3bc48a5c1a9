"""Which rows a step sees: a pure function of (rows, seed, step), so resuming needs the step and nothing else."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


class Draw(NamedTuple):
    """A row, and in which epoch it is drawn."""

    epoch: int
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOrder:
    """The order of the rows, epoch after epoch. Without a seed: the file's own order, every epoch the same."""

    rows: int
    seed: int | None

    def at(self, step: int, *, prompts_per_step: int) -> list[Draw]:
        """The draws of a step (1 for the first); a step may end one epoch and begin the next."""
        start = (step - 1) * prompts_per_step
        return [self._draw(index) for index in range(start, start + prompts_per_step)]

    def coverage(self, steps: int, *, prompts_per_step: int) -> float:
        """Share of the rows that this many steps will ever see."""
        return min(1.0, steps * prompts_per_step / self.rows)

    def seen(self, steps: int, *, prompts_per_step: int) -> set[int]:
        """The rows that the first so many steps have drawn."""
        drawn = min(steps * prompts_per_step, self.rows)  # an epoch draws every row once
        return {self._draw(index).row for index in range(drawn)}

    def _draw(self, index: int) -> Draw:
        epoch, place = divmod(index, self.rows)
        row = place if self.seed is None else _shuffled(self.rows, self.seed, epoch)[place]
        return Draw(epoch=epoch, row=row)


@lru_cache(maxsize=4)
def _shuffled(rows: int, seed: int, epoch: int) -> tuple[int, ...]:
    """The rows sorted by the SHA-256 of seed, epoch and row: the same on every machine and in every version."""
    return tuple(sorted(range(rows), key=lambda row: hashlib.sha256(f"{seed}/{epoch}/{row}".encode()).digest()))
