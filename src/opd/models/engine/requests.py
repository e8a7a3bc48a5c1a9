"""What the engine is asked for: one request a rollout, from the queue to its last token."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class State(StrEnum):
    """Where a request is."""

    WAITING = "waiting"  # in the queue, new or preempted; holds no pages
    RUNNING = "running"  # has a row and pages
    STOPPED = "stopped"  # drew a stop id
    LIMITED = "limited"  # drew its last allowed token
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more will be drawn."""
        return self not in {State.WAITING, State.RUNNING}


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """One rollout to be drawn, and what was drawn of it so far."""

    name: str  # for messages
    prompt_ids: tuple[int, ...]
    uniforms_T: NDArray[np.float64]  # one a token that may be drawn: their number is the limit
    token_ids: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)  # nats, of the distribution that was drawn from
    raw_logp: list[float] = field(default_factory=list)  # nats, before any cut
    state: State = State.WAITING
    pages: list[int] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Of prompt and response so far. All but the newest have keys and values in the cache while it runs."""
        return len(self.prompt_ids) + len(self.token_ids)

    @property
    def left_tokens(self) -> int:
        """Tokens that may still be drawn."""
        return len(self.uniforms_T) - len(self.token_ids)

    @property
    def most_tokens(self) -> int:
        """Of prompt and response, at the limit."""
        return len(self.prompt_ids) + len(self.uniforms_T)

    @property
    def newest_id(self) -> int:
        """The token whose successor is drawn next."""
        return self.token_ids[-1] if self.token_ids else self.prompt_ids[-1]

    def ids(self, start: int, end: int) -> tuple[int, ...]:
        """Some of the tokens of prompt and response."""
        return (*self.prompt_ids, *self.token_ids)[start:end]
