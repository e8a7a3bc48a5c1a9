"""What the sandbox was seen to prevent just before it was used: written into the try, and a condition of it.

isolation.json
"""

import tempfile
from pathlib import Path

from opd.protocol.machine import Machine
from opd.protocol.sandbox.probes import probe
from opd.records.errors import AnswerIsNo
from opd.records.files import write_json

ISOLATION = "isolation.json"


def record_isolation(machine: Machine, folder: Path) -> None:
    """isolation.json is in the folder. Raises `AnswerIsNo` when the sandbox does not prevent what it is for."""
    with tempfile.TemporaryDirectory(prefix="opd-probe-") as away:
        found = probe(machine.rung, Path(away) / "probe", gpu=machine.has_gpus, refused=machine.sandbox.refused)
    write_json(folder / ISOLATION, found.resolved())
    if found.broken:
        raise AnswerIsNo(
            f"the sandbox {machine.rung.name} was seen not to prevent {', '.join(found.broken)} here; nothing was "
            "started in it. `opd doctor` says more, --sandbox takes another rung"
        )
