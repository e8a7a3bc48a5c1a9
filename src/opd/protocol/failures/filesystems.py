"""File systems, asked from outside the candidate: which kind a folder lies on, and whether it takes a write now.

    python -I -m opd.protocol.failures.filesystems FOLDER     one probe, as a JSON object

A share whose server is gone holds whoever asks until it comes back, so the probe is a program of its own, which is
given up when it takes too long. Nothing that a candidate said is used here, and nothing it could have left behind:
the probe makes its own file under a name that nobody knew.
"""

import json
import os
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

from opd.protocol.supervision.asking import ask
from opd.records.causes import Storage, StorageProbe
from opd.records.failures import errno_name
from opd.records.settings import validated

PROBE_BYTES = 1 << 20
PROBE_SECONDS = 60.0  # a share that recovers takes some tens of seconds
NETWORK = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gfs2",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb3",
        "smbfs",
        "virtiofs",
        "wekafs",
    }
)
NETWORK_FUSE = frozenset({"beegfs", "ceph", "glusterfs", "gcsfuse", "juicefs", "mountpoint-s3", "s3fs", "sshfs"})

_MOUNTS = Path("/proc/self/mountinfo")


def look(folder: Path) -> Storage:
    """The file system that a folder lies on; `OSError` where it can't be asked, and waits as long as it does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mount = _mount(descriptor)
        counted = os.fstatvfs(descriptor)
        device = os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)
    kind = mount.get("kind", "")
    return Storage(
        folder=str(folder),
        kind=kind,
        source=mount.get("source", ""),
        mount_point=mount.get("point", ""),
        device=f"{os.major(device)}:{os.minor(device)}",
        network=is_network(kind),
        read_only=bool(counted.f_flag & os.ST_RDONLY),
        free_bytes=counted.f_bavail * counted.f_frsize,
        free_files=counted.f_favail if counted.f_files else None,
    )


def is_network(kind: str) -> bool:
    """Whether a kind of file system is served by another machine."""
    return kind in NETWORK or (kind.startswith("fuse.") and kind.removeprefix("fuse.") in NETWORK_FUSE)


def probe(folder: Path, *, limit_seconds: float = PROBE_SECONDS) -> StorageProbe:
    """What becomes of a write to the folder's file system, made by a program of its own, within this time."""
    began = time.monotonic()
    answer = ask(probe_command(folder), limit_seconds=limit_seconds)
    if answer is None:
        return _failed("time", None, storage=None, seconds=time.monotonic() - began)
    if answer.code != 0:
        raise RuntimeError(f"the probe of {folder} ended with {answer.code} and said {answer.text[:200]!r}")
    return validated(StorageProbe, json.loads(answer.text), source="the probe of the file system")


def probe_command(folder: Path) -> list[str]:
    """The words of that program."""
    return [sys.executable, "-I", "-m", "opd.protocol.failures.filesystems", os.fspath(folder.absolute())]


def probe_here(folder: Path) -> StorageProbe:
    """The same, made by this process, which waits as long as the file system does."""
    began = time.monotonic()
    steps: list[str] = []

    def at(step: str) -> None:
        steps.append(step)

    storage = None
    try:
        at("open")
        storage = look(folder)
        whole = _write_and_read(folder, at)
    except OSError as error:
        return _failed(steps[-1], error.errno, storage=storage, seconds=time.monotonic() - began)
    if not whole:
        return _failed("compare", None, storage=storage, seconds=time.monotonic() - began)
    seconds = time.monotonic() - began
    return StorageProbe(
        storage=storage, ok=True, failed_at=None, errno=None, errno_name=None, seconds=round(seconds, 3)
    )


def _write_and_read(folder: Path, at: Callable[[str], None]) -> bool:
    """Whether what was written is what is read; `at` is told each step before it is made."""
    path = folder / f".opd-probe-{secrets.token_hex(8)}"
    content = secrets.token_bytes(PROBE_BYTES)
    at("open")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        at("write")
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        at("fsync")
        os.fsync(descriptor)
        at("read")
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # from the disk, not from memory
        found = os.pread(descriptor, PROBE_BYTES, 0)
        at("unlink")
    finally:
        os.close(descriptor)
        path.unlink()
    at("fsync_folder")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return found == content


def _failed(step: str, number: int | None, *, storage: Storage | None, seconds: float) -> StorageProbe:
    return StorageProbe(
        storage=storage,
        ok=False,
        failed_at=step,
        errno=number,
        errno_name=errno_name(number),
        seconds=round(seconds, 3),
    )


def _mount(descriptor: int) -> dict[str, str]:
    """Kind, source and place of the mount that an open file lies on; empty where the system doesn't say."""
    try:
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
        mounts = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except FileNotFoundError:  # no Linux, or /proc is not mounted
        return {}
    number = next((line.split()[1] for line in lines if line.startswith("mnt_id:")), None)
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields, more = before.split(), after.split()
        if fields[0] == number:
            return {"point": fields[4], "kind": more[0], "source": more[1]}
    return {}


if __name__ == "__main__":
    sys.stdout.write(probe_here(Path(sys.argv[1])).model_dump_json())
