"""What a sink is: a place where a run is shown beside its own `metrics.jsonl`.

`train/sinks/<name>.py` with `SINK = TheClass` *is* the sink `<name>`. It is imported by a follower alone
(`train/follower.py`), never by the run; the package that it needs has the same name, and so has the extra of this
package that brings it.

Every sink gets the same: the numbers of a line under their names, `gap/mean` for `mean` in `gap`; the step as x;
the resolved recipe as configuration.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field, field_validator

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings
from opd.train import sinks


class SinkSettings(Settings):
    """Where the metrics are shown beside `metrics.jsonl`, which is always written."""

    to: tuple[str, ...] = ()
    """Any of tensorboard, trackio, wandb; each needs its package."""
    project: Annotated[str, Field(min_length=1)] = "opd"
    """What trackio and W&B put the run under."""

    @field_validator("to")
    @classmethod
    def _known(cls, to: tuple[str, ...]) -> tuple[str, ...]:
        for name in to:
            if name not in names():
                raise AskedWrongly(f"no sink {name!r}; there are: {', '.join(names())}")
        if len(set(to)) < len(to):
            raise AskedWrongly("a sink is named twice; once is enough")
        return to


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The run that a sink shows."""

    out: Path
    project: str
    name: str  # of the run's folder when it was first shown
    id: str  # hexadecimal; stays with the folder
    recipe: dict[str, Any]  # resolved
    after_step: int  # the sink has, or keeps, the steps up to this one; 0 for none


class Sink(Protocol):
    """One library at work. Whatever it raises ends its follower, and nothing else."""

    takes_back: ClassVar[bool]
    """Whether steps beyond `after_step` are taken back, for a resumed run to make them again.

    Where they can't be, they stay as they were first sent.
    """

    def __init__(self, run: Shown) -> None:
        """The sink is open, and goes on with what it had of this run."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Takes the numbers of a step; steps come in order."""

    def flush(self) -> None:
        """Whoever looks on sees what was written so far."""

    def close(self, *, whole: bool) -> None:
        """Nothing that was written is lost; `whole` says whether the run came to its end."""


def names() -> list[str]:
    """The sinks there are: the files of the folder."""
    return sorted(module.name for module in pkgutil.iter_modules(sinks.__path__))


def find(name: str) -> type[Sink]:
    """The sink of that name; its package is imported."""
    found: type[Sink] = importlib.import_module(f"{sinks.__name__}.{name}").SINK
    return found


def lacking(settings: SinkSettings) -> list[str]:
    """A line for each sink whose package isn't installed, with what to do; nothing is imported."""
    return [
        f"sinks: {name} is not installed; pip install 'opd[{name}]', or leave it out of sinks.to"
        for name in settings.to
        if not _installed(name)
    ]


def numbers(line: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a line of `metrics.jsonl` by their names; `step` and what is null are left out."""
    for key, value in line.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not (prefix == "" and key == "step"):
            yield f"{prefix}{key}", value


def _installed(name: str) -> bool:
    """A folder `wandb/` that a run left in the working directory is a namespace, and no package."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None
