"""`events.jsonl`: what happened to a run beside its steps, a line each. None of it ended the run."""

from typing import Literal

from pydantic import NonNegativeInt

from opd.records.failures import Raised
from opd.records.settings import Settings


class Event(Settings):
    """A line of `events.jsonl`."""

    event: Literal["sink_dropped"]
    step: NonNegativeInt
    """The last step with a line in `metrics.jsonl` when it was noticed; 0 before the first."""
    sink: str
    message: str
    """One line, for people."""
    exceptions: tuple[Raised, ...] = ()
    """From the one that ended the sink down to its first cause; empty where it ended without one."""
