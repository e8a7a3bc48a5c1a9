"""What the sandbox was seen to prevent just before it was used: written into the try, and a condition of it.

isolation.json
"""

import tempfile
from pathlib import Path

from opd.protocol.sandbox.ladder import Rung
from opd.protocol.sandbox.probes import probe
from opd.records.errors import AnswerIsNo
from opd.records.files import write_json

ISOLATION = "isolation.json"


def record_isolation(rung: Rung, folder: Path) -> None:
    """isolation.json is in the folder. Raises `AnswerIsNo` when the rung does not prevent what it is for."""
    with tempfile.TemporaryDirectory(prefix="opd-probe-") as away:
        found = probe(rung, Path(away) / "probe")
    write_json(folder / ISOLATION, found.resolved())
    if found.broken:
        raise AnswerIsNo(
            f"the sandbox {rung.name} was seen not to prevent {', '.join(found.broken)} on this machine; nothing was "
            "started in it. `opd doctor` says more, --sandbox takes another rung"
        )
