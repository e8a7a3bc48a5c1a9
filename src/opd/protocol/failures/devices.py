"""GPUs, asked from outside the candidate: what the driver's own program says of them, and the kernel's log.

    NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.

Some of the driver's error numbers mean that the machine broke and some that a program did: which are which is in the
table of `causes.py`. A line counts when it came after the newest one that the probe before had seen, by the log's own
numbers and no clock.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from opd.protocol import driver
from opd.records.causes import Device, DeviceProbe

PROBE_SECONDS = 60.0  # a driver that wakes a GPU from sleep takes some ten seconds
QUERY = "--query-gpu=uuid,ecc.errors.uncorrected.volatile.total"

_LOG = Path("/dev/kmsg")
_FIRST_OF_PROGRAMS = 8  # the kernel's own priorities are below
_RECORD_BYTES = 8192  # the kernel's own limit for one line
_XID = re.compile(r"NVRM: Xid \([^)]*\): (\d+)")


def probe(*, after: DeviceProbe | None = None, limit_seconds: float = PROBE_SECONDS, log: Path = _LOG) -> DeviceProbe:
    """The machine's GPUs now; of the log, what came after the earlier probe (without one: nothing yet)."""
    devices, answered, said = _ask(limit_seconds)
    lines = list(log_lines(log))
    seen = after.log_sequence if after else None
    new = [text for sequence, text in lines if seen is not None and sequence > seen]
    return DeviceProbe(
        devices=devices,
        answered=answered,
        said=said,
        log_sequence=lines[-1][0] if lines else None,
        xids=tuple(int(found[1]) for text in new if (found := _XID.search(text))),
    )


def parsed(text: str) -> tuple[Device, ...]:
    """The GPUs of the program's answer, one a line: `GPU-3f2a…, 0`; what isn't a number is not counted."""
    found = []
    for line in text.splitlines():
        uuid, comma, errors = (part.strip() for part in line.partition(","))
        if comma and uuid.startswith("GPU-"):
            found.append(Device(uuid=uuid, uncorrected_errors=int(errors) if errors.isdecimal() else None))
    return tuple(found)


def log_lines(log: Path = _LOG) -> Iterator[tuple[int, str]]:
    """Number and text of each line in the kernel's log; none where it can't be read.

    What a program wrote into the log, which a privileged one can, has no text here: it is told by its priority.
    """
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD_BYTES).decode("utf-8", "replace")
            except BrokenPipeError:  # the line was overwritten before it was read; the next read goes on behind it
                continue
            except (BlockingIOError, PermissionError):  # all was read, or none may be
                return
            if not record:
                return
            for line in record.splitlines():
                prefix, _, text = line.partition(";")
                numbers = prefix.split(",")
                if len(numbers) < 2 or not (numbers[0].isdecimal() and numbers[1].isdecimal()):
                    continue  # a detail of the line before
                yield int(numbers[1]), text if int(numbers[0]) < _FIRST_OF_PROGRAMS else ""
    finally:
        os.close(descriptor)


def _ask(limit_seconds: float) -> tuple[tuple[Device, ...], bool, str]:
    if not driver.is_installed():
        return (), False, f"there is no {driver.PROGRAM}"
    answer = driver.asked(QUERY, limit_seconds=limit_seconds)
    if answer is None:
        return (), False, f"{driver.PROGRAM} did not end within {limit_seconds:g} s"
    said = "" if answer.code == 0 else answer.text.strip().partition("\n")[0][:200]
    return parsed(answer.text), answer.code == 0, said
