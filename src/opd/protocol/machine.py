"""What a stage is given of the machine: a rung of the sandbox ladder, and its GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass

from opd.protocol.gpus import VISIBLE
from opd.protocol.sandbox.ladder import Rung


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Both, for as long as they are the attempt's."""

    rung: Rung
    gpus: Mapping[str, str]  # the variables that show its GPUs to a program


def without_gpus(rung: Rung) -> Machine:
    """The machine of a task that needs no GPU."""
    return Machine(rung=rung, gpus={VISIBLE: ""})
