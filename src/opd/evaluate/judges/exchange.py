"""The nouns between a judge and what answers for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from opd.records.settings import Settings


class JudgeModel(Settings):
    """Who replied: part of the identity of a judge, and of each recorded reply."""

    name: str
    """The last part of a model directory's path, or the model's name at a server."""
    model_digest: str | None = None
    """SHA-256 over the digests of the model's files; null where a server holds them."""
    dtype: str | None = None
    """What the model computed in; null where a server decides."""
    limit_tokens: int | None = None
    """Cap on the tokens of a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A turn that waits for a reply."""

    key: str  # of question, gold, answer part and template
    turn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a judge wrote, as it came."""

    text: str
    cut_short: bool = False  # the limit ended it


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReply:
    """Why there is no reply: nobody answered, the answer was no reply, or none was recorded."""

    reason: str


class Backend(Protocol):
    """Whoever replies. What goes wrong with one turn is that turn's `NoReply` and stops no other."""

    @property
    def model(self) -> JudgeModel:
        """Who replies."""

    def replies(self, turns: Sequence[Asked]) -> list[Reply | NoReply]:
        """A reply to each turn, in order. Greedy: the same turn gets the same reply, but for rounding."""

    def close(self) -> None:
        """Lets go of connections."""
