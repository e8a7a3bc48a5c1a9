"""What a stage is given of the machine: a rung of the sandbox ladder, and its GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass

from opd.protocol.gpus import VISIBLE
from opd.protocol.sandbox.ladder import Chosen, Rung


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Both, for as long as they are the attempt's."""

    sandbox: Chosen
    gpus: Mapping[str, str]  # the variables that show its GPUs to a program

    @property
    def rung(self) -> Rung:
        """How a program is started in a view."""
        return self.sandbox.rung

    @property
    def uuids(self) -> tuple[str, ...]:
        """Of its GPUs."""
        return tuple(filter(None, self.gpus[VISIBLE].split(",")))

    @property
    def has_gpus(self) -> bool:
        """Whether any GPU is the attempt's."""
        return bool(self.uuids)
