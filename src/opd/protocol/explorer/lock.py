"""Who has the device: shared by training probes, alone for an evaluation.

device.lock           a shared lock for each training command, the exclusive one for an evaluation
device.lock.holder    who has it exclusively, for whoever is refused
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DeviceTaken(Exception):
    """Somebody else has the device; the message names who."""


class DeviceLock:
    """The lock, made anew in a folder that the explorer can read and not write."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "device.lock"
        self._holder = folder / "device.lock.holder"
        self.path.touch()

    @contextmanager
    def alone(self, holder: str) -> Iterator[None]:
        """Inside, nobody trains on the device; raises `DeviceTaken` when somebody does."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DeviceTaken(self._who()) from None
        self._holder.write_text(holder, encoding="utf-8")
        try:
            yield
        finally:
            self._holder.unlink(missing_ok=True)
            os.close(descriptor)

    def _who(self) -> str:
        if self._holder.exists():
            return self._holder.read_text(encoding="utf-8").strip()
        return "a training command of yours (started by on-device)"
