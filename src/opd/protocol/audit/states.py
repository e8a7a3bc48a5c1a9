"""What says, in a file of its own beside the receipts, how far something is: the control files of a harness.

Such a file is written by a program that was still at work, and never again. Here it is only found; what it says is
held against the receipt by `checks/contradictions.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from opd.protocol.audit.evidence import Held
from opd.protocol.audit.reading import Folder
from opd.records.attempts import Stage

KEYS = frozenset(
    {"status", "state", "attempt_status", "run_status", "job_status", "phase_status", "formal_result", "phases"}
)
_LARGEST_BYTES = 1 << 20  # a control file is small
_MOST_FILES = 20_000  # that are looked into
_OWN = frozenset({"outcome.json", "receipt.json", "isolation.json", "opened.json", "retry-order.json"})


def states(folders: Mapping[str, Folder]) -> Iterator[Held[dict[str, Any]]]:
    """The small JSON objects of explorations and formal tries with a key of `KEYS`; not the protocol's own."""
    looked = 0
    for name, folder in folders.items():
        if not name.startswith((f"{Stage.EXPLORE}/", f"{Stage.FORMAL}/")):
            continue
        for file in folder.files():
            path = folder.relative(file)
            if not path.endswith(".json") or path in _OWN or file.bytes > _LARGEST_BYTES or path.startswith("proxy/"):
                continue
            looked += 1
            if looked > _MOST_FILES:
                folder.leave_out(
                    path, f"more than {_MOST_FILES:,} files of JSON; this and later ones were not looked into"
                )
                return
            value = folder.object(file)
            if value is not None and KEYS & value.value.keys():
                yield value
