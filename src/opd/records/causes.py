"""Whose failure it was that a formal try did not complete: what was seen, and what follows from it.

What the candidate's own program says of its end is a claim. It is never believed alone: printed text is not looked
at, and a typed statement counts only where something that the candidate can't bring about says the same.
"""

from enum import StrEnum
from typing import Literal

from pydantic import NonNegativeInt

from opd.records.failures import Failure
from opd.records.settings import Settings


class Verdict(StrEnum):
    """Whose failure it was."""

    NONE = "none"  # it is none: the program ended well, or its own deadline ended it and artifacts are there
    CANDIDATE = "candidate"
    SHARED_FS = "infrastructure:shared_fs"
    DEVICE = "infrastructure:device"
    RULED = "infrastructure:ruled"  # the evidence left it open, and a person said that it was the machine
    INTERRUPTED = "interrupted"
    AMBIGUOUS = "ambiguous"  # waits for a ruling by a person


class Ending(StrEnum):
    """What the supervisor saw the program's end to be."""

    ENDED = "ended"  # by itself
    DEADLINE = "deadline"  # the supervisor ended it, for its time
    LIMIT = "limit"  # the supervisor ended it, for what it took: disk, processes, output
    STOPPED = "stopped"  # the supervisor ended it, because a person or the machine's shutdown said so
    LOST = "lost"  # its sandbox died under it
    NOT_STARTED = "not_started"  # its sandbox did not come to life


class Storage(Settings):
    """The file system that a folder lies on."""

    folder: str
    kind: str
    """ext4, nfs4, fuse.sshfs … as the system calls it; empty where it doesn't say."""
    source: str
    """What is mounted there."""
    mount_point: str
    device: str
    """`major:minor`: two folders with the same one lie on the same file system."""
    network: bool
    """Whether it is served by another machine."""
    read_only: bool
    free_bytes: NonNegativeInt
    free_files: NonNegativeInt | None
    """Null where the file system doesn't count them."""


class StorageProbe(Settings):
    """What became of an independent write to a folder's file system: made, written, flushed, read back, removed."""

    storage: Storage | None
    """Null where even that could not be found out."""
    ok: bool
    failed_at: str | None
    """open, write, fsync, read, compare, unlink, fsync_folder; time, where it took too long; null where it is ok."""
    errno: int | None
    errno_name: str | None
    seconds: float


class Device(Settings):
    """One GPU at one moment."""

    uuid: str
    uncorrected_errors: NonNegativeInt | None
    """Of its memory, since the driver was loaded; null where it doesn't count them."""


class DeviceProbe(Settings):
    """The GPUs of the machine at one moment, by its driver and by the kernel's log."""

    devices: tuple[Device, ...]
    answered: bool
    """Whether the driver's own program ended well, in time."""
    said: str
    """Its first line where it did not; why it was not asked, where there is none."""
    log_sequence: NonNegativeInt | None
    """Of the newest line in the kernel's log; null where the log can't be read."""
    xids: tuple[NonNegativeInt, ...]
    """Numbers of the driver's error lines in the log, after the line that the probe before had seen last."""


class Ruling(Settings):
    """`ruling.json`: what a person decided about a try whose failure the evidence leaves open."""

    about: str
    """The try: `formal/attempt-001`."""
    verdict: Literal["infrastructure", "candidate"]
    because: str
    by: str


class Evidence(Settings):
    """All that the cause is worked out from."""

    ending: Ending
    because: str = ""
    """What the supervisor ended it for; empty where it did not."""
    exit_code: int | None
    signal: str | None
    """SIGKILL and the like; null where none ended it."""
    oom_killed: bool
    """The kernel counted an out-of-memory kill in the program's own group."""
    artifacts: NonNegativeInt
    """Checkpoints that it left whole."""
    output: tuple[str, ...]
    """Absolute names of the folder of checkpoints: as the program saw it, and as it is outside."""
    working_folder: str
    """Where the program ran, as it saw it: what a relative path is relative to."""
    claim: Failure | None
    """What the program says of its own end; null where it left nothing that can be read."""
    claim_fault: str | None = None
    """Why what it left can't be read."""
    storage: Storage | None = None
    """Of the folder of checkpoints."""
    storage_probe: StorageProbe | None = None
    """Made after the program's end."""
    devices_before: DeviceProbe | None = None
    devices_after: DeviceProbe | None = None
    """Null where the task has no GPU."""
    ruling: Ruling | None = None
    """By a person, about this try."""


class Cause(Settings):
    """Whose failure it was, and why."""

    verdict: Verdict
    rule: str
    """The name of the rule that decided; the first that applies does."""
    because: tuple[str, ...]
    """Sentences, the deciding one first."""
    ruled: bool
    """Whether a person decided, because the rules leave it open."""
    rules_version: str
    rules_sha256: str
    """Of the table and the order of the rules."""
    evidence: Evidence

    @property
    def retries(self) -> bool:
        """Whether another try may be ordered."""
        return self.verdict in {Verdict.SHARED_FS, Verdict.DEVICE, Verdict.RULED, Verdict.INTERRUPTED}
