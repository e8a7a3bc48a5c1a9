"""Whose failure it was: the candidate's, the machine's, nobody's yet. The first rule that applies decides.

    not a failure   it ended well, or its own deadline ended it; checkpoints are there
    stopped         a person stopped it, or it never began                                  → interrupted
    device          the kernel or the driver reports a broken GPU                           → infrastructure:device
    limit, memory   it took more than it was given                                          → candidate
    shared_fs       it names an error of a shared file system, about its output, and
                      our own write there fails too, or the file system is a network's      → infrastructure:shared_fs
                      nothing else says so                                                  → ambiguous
    space           no space, quota or memory left                                          → ambiguous
    killed          SIGKILL, and no out-of-memory kill of ours; or its sandbox died         → ambiguous
    storage         it names nothing, and our own write to its output's file system fails   → ambiguous
    otherwise                                                                               → candidate

Another twelve hours of training must not be had for a line of print (faults H46). What a program prints is not looked
at; its typed statement is a claim, which by itself leads to `ambiguous` at most, where a person decides.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from opd.protocol.checkpoints.strangers import Folder, Strange
from opd.protocol.failures.filesystems import NETWORK, NETWORK_FUSE
from opd.records.causes import Cause, DeviceProbe, Ending, Evidence, Storage, StorageProbe, Verdict
from opd.records.errors import AskedWrongly
from opd.records.failures import Failure
from opd.records.files import digest
from opd.records.settings import Settings, validated

LARGEST_CLAIM = 1 << 20
_KILLED_CODE = 128 + signal.SIGKILL  # what a shell says of a program of its own that was killed


class Table(Settings):
    """The numbers that the rules go by."""

    version: str = "1"
    shared_fs: dict[str, int] = {
        "EIO": 5,
        "EROFS": 30,
        "ENOLINK": 67,
        "ECOMM": 70,
        "ENOTCONN": 107,
        "ESHUTDOWN": 108,
        "ETIMEDOUT": 110,
        "EHOSTDOWN": 112,
        "ESTALE": 116,
        "EREMOTEIO": 121,
    }
    """Errors that a share or a disk gives when it fails, as Linux numbers them."""
    space: dict[str, int] = {"ENOSPC": 28, "EDQUOT": 122}
    """It may have been the candidate that filled it, or somebody else."""
    memory: dict[str, int] = {"ENOMEM": 12}
    xids: tuple[int, ...] = (48, 61, 62, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143)
    """Numbers of the GPU driver that mean broken hardware or firmware. Those that a program brings about by itself,
    such as 13 (bad instruction) and 31 (bad address), are none of them."""
    network: tuple[str, ...] = (*sorted(NETWORK), *(f"fuse.{name}" for name in sorted(NETWORK_FUSE)))
    """Kinds of file systems."""


TABLE = Table()

_Found = tuple[Verdict, str]  # what a rule says, and the sentence why


def classify(evidence: Evidence) -> Cause:
    """Whose failure it was, with the rule that decided and the sentences why."""
    name, (verdict, why) = next((name, found) for name, rule in _RULES.items() if (found := rule(evidence)))
    because = [why, *_context(evidence)]
    ruling = evidence.ruling
    ruled = verdict is Verdict.AMBIGUOUS and ruling is not None
    if ruling is not None:
        said = f"{ruling.by} ruled {ruling.verdict}: {ruling.because}"
        if ruled:
            verdict = Verdict.CANDIDATE if ruling.verdict == "candidate" else Verdict.RULED
            because.insert(0, said)
        else:
            because.append(f"{said}; the rules leave nothing open here, so this changes nothing")
    return Cause(
        verdict=verdict,
        rule=name,
        because=tuple(because),
        ruled=ruled,
        rules_version=TABLE.version,
        rules_sha256=rules_sha256(),
        evidence=evidence,
    )


def rules_sha256() -> str:
    """The digest of the table, and of the rules in their order with what each says."""
    return digest({"table": TABLE.resolved(), "rules": [[name, rule.__doc__] for name, rule in _RULES.items()]})


def read_claim(folder: Folder, name: str = "failure.json") -> tuple[Failure | None, str | None]:
    """What a candidate's program says of its own end, or why that can't be read; neither where it says nothing."""
    try:
        return validated(Failure, folder.object(name, largest=LARGEST_CLAIM), source=name), None
    except FileNotFoundError:
        return None, None
    except Strange as error:
        return None, error.says
    except AskedWrongly as error:
        return None, str(error)[:500]


def _no_failure(seen: Evidence) -> _Found | None:
    """None: it ended by itself with 0, or by its deadline, and left checkpoints."""
    if seen.artifacts and seen.ending is Ending.DEADLINE:
        return Verdict.NONE, f"its time was over, and it left {_checkpoints(seen)}"
    if seen.artifacts and seen.ending is Ending.ENDED and seen.exit_code == 0:
        return Verdict.NONE, f"it ended by itself with 0, and left {_checkpoints(seen)}"
    return None


def _stopped(seen: Evidence) -> _Found | None:
    """Interrupted: somebody stopped it, or it never began."""
    if seen.ending is Ending.STOPPED:
        return Verdict.INTERRUPTED, f"it was stopped: {seen.because or 'nobody said why'}"
    if seen.ending is Ending.NOT_STARTED:
        return Verdict.INTERRUPTED, f"it never began: {seen.because or 'nobody said why'}"
    return None


def _device(seen: Evidence) -> _Found | None:
    """Infrastructure: the kernel's log, the driver or the counters of a GPU say that it broke in this time."""
    says = next(_broken_devices(seen.devices_before, seen.devices_after), None)
    return (Verdict.DEVICE, says) if says else None


def _limit(seen: Evidence) -> _Found | None:
    """Candidate: it took more than it was given."""
    if seen.ending is Ending.LIMIT:
        return Verdict.CANDIDATE, f"it was ended for what it took: {seen.because or 'nobody said what'}"
    if seen.oom_killed:
        return Verdict.CANDIDATE, "the kernel ended it for the memory that its own group took"
    return None


def _shared_fs(seen: Evidence) -> _Found | None:
    """Infrastructure with a second witness, else ambiguous: it names a shared file system's error, of its output."""
    claim = seen.claim
    if claim is None or claim.errno not in TABLE.shared_fs.values() or not _about_output(claim, seen):
        return None
    named = f"it names {claim.errno_name or 'errno'} ({claim.errno}) about its output"
    if _probe_fails(seen):
        return Verdict.SHARED_FS, f"{named}, and {_said_by(seen.storage_probe)}"
    storage = _storage(seen)
    if storage is not None and storage.network:
        return Verdict.SHARED_FS, f"{named}, and its output lies on a network's file system ({storage.kind})"
    return Verdict.AMBIGUOUS, f"{named}, and nothing that it could not bring about itself says so too"


def _space(seen: Evidence) -> _Found | None:
    """Ambiguous: it names space or quota of its output, or memory; whose doing that was, the number doesn't tell."""
    claim = seen.claim
    if claim is None:
        return None
    about = claim.errno in TABLE.space.values() and _about_output(claim, seen)
    if about or claim.errno in TABLE.memory.values():
        left = _storage(seen)
        free = f"; {left.free_bytes:,} bytes are free there" if about and left else ""
        return Verdict.AMBIGUOUS, f"it names {claim.errno_name} ({claim.errno}){free}"
    return None


def _killed(seen: Evidence) -> _Found | None:
    """Ambiguous: SIGKILL, which is not ours and is no out-of-memory kill of its own group; or its sandbox's death."""
    if seen.ending is Ending.LOST:
        return Verdict.AMBIGUOUS, f"its sandbox died under it: {seen.because or 'by what, is not known'}"
    if seen.ending is Ending.ENDED and (seen.signal == "SIGKILL" or seen.exit_code == _KILLED_CODE):
        return Verdict.AMBIGUOUS, "SIGKILL ended it: neither the supervisor's nor for memory of its own group"
    return None


def _storage_broken(seen: Evidence) -> _Found | None:
    """Ambiguous: it names nothing, perhaps because it could not, and our own write to its file system fails."""
    if seen.claim is None and _probe_fails(seen):
        return Verdict.AMBIGUOUS, f"it names nothing, and {_said_by(seen.storage_probe)}"
    return None


def _otherwise(seen: Evidence) -> _Found | None:
    """Candidate: everything else."""
    if seen.ending is Ending.DEADLINE:
        return Verdict.CANDIDATE, "its time was over, and it left no checkpoint"
    if seen.exit_code == 0:
        return Verdict.CANDIDATE, "it ended by itself with 0, and left no checkpoint"
    how = f"by {seen.signal}" if seen.signal else f"with {seen.exit_code}"
    return Verdict.CANDIDATE, f"it ended by itself {how}, and nothing points to the machine"


_RULES: dict[str, Callable[[Evidence], _Found | None]] = {
    "not_a_failure": _no_failure,
    "stopped": _stopped,
    "device": _device,
    "limit": _limit,
    "shared_fs": _shared_fs,
    "space": _space,
    "killed": _killed,
    "storage": _storage_broken,
    "otherwise": _otherwise,
}


def _about_output(claim: Failure, seen: Evidence) -> bool:
    """Whether a claim is about the folder of checkpoints: by its path; without one, when it was saving.

    The writer of safetensors says no path, and saving writes nowhere else.
    """
    if claim.path is None:
        return claim.phase == "save"
    path = os.path.normpath(Path(seen.working_folder, claim.path))  # as text: the path is nobody's to follow
    return any(path == place or path.startswith(f"{place}/") for place in map(os.path.normpath, seen.output))


def _probe_fails(seen: Evidence) -> bool:
    """Whether our own write failed as no candidate can make it fail, unlike by a full disk or a closed folder."""
    probe = seen.storage_probe
    if probe is None or probe.ok:
        return False
    elsewhere = probe.storage and seen.storage and probe.storage.device != seen.storage.device
    return not elsewhere and (probe.failed_at in {"time", "compare"} or probe.errno in TABLE.shared_fs.values())


def _storage(seen: Evidence) -> Storage | None:
    return seen.storage or (seen.storage_probe.storage if seen.storage_probe else None)


def _said_by(probe: StorageProbe | None) -> str:
    assert probe is not None, "asked before"
    how = {"time": "did not end", "compare": "was read back as something else"}.get(probe.failed_at or "")
    return f"our own write to the same file system {how or f'failed at {probe.failed_at} with {probe.errno_name}'}"


def _broken_devices(before: DeviceProbe | None, after: DeviceProbe | None) -> Iterator[str]:
    if after is None:
        return
    for xid in after.xids:
        if xid in TABLE.xids:
            yield f"the kernel's log has Xid {xid} of this time, which is the GPU's failure"
    if before is None or not before.answered:
        return
    if not after.answered:
        yield f"the driver answered before and does not now: {after.said}"
    errors = {device.uuid: device.uncorrected_errors for device in after.devices}
    for device in before.devices:
        if device.uuid not in errors:
            yield f"{device.uuid} was there before and is not now"
        elif (errors[device.uuid] or 0) > (device.uncorrected_errors or 0):
            yield f"{device.uuid} counted memory errors that it could not correct"


def _context(seen: Evidence) -> Iterator[str]:
    """What else is known, for whoever has to rule."""
    if seen.claim is not None and seen.claim.exceptions:
        first, last = seen.claim.exceptions[0], seen.claim.exceptions[-1]
        where = f" on {last.path}" if last.path else ""
        number = f", errno {last.errno}" if last.errno is not None else ""
        yield f"its own claim: {first.kind}, from {last.kind}{number}{where}, in phase {seen.claim.phase}"
    if seen.claim_fault is not None:
        yield f"its own statement can't be read: {seen.claim_fault}"
    if seen.storage_probe is not None and seen.storage_probe.ok:
        yield f"our own write to the file system of its output went well, in {seen.storage_probe.seconds:.2f} s"
    elif seen.storage_probe is not None and not _probe_fails(seen):
        yield f"{_said_by(seen.storage_probe)}, which a candidate can bring about, or lies elsewhere"


def _checkpoints(seen: Evidence) -> str:
    return f"{seen.artifacts} checkpoint{'' if seen.artifacts == 1 else 's'}"
