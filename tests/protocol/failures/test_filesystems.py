"""What is said of a file system, against what the system's own programs say; failing disks are in `faults/`."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from opd.protocol.failures.filesystems import is_network, look, probe, probe_here
from opd.records.causes import StorageProbe


def test_kind_place_and_source_are_those_that_findmnt_says(tmp_path: Path) -> None:
    if shutil.which("findmnt") is None:
        pytest.skip("compares with findmnt, and there is none")
    for folder in (tmp_path, Path("/proc"), Path("/dev")):
        asked = ["findmnt", "--noheadings", "--raw", "--output", "FSTYPE,TARGET,SOURCE", "--target", str(folder)]
        kind, target, source = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        found = look(folder)
        assert (found.kind, found.mount_point) == (kind, target)
        assert source.startswith(found.source)  # findmnt adds the folder within it, where one is bound


def test_free_space_and_device_are_those_of_the_folder(tmp_path: Path) -> None:
    found = look(tmp_path)
    status = tmp_path.stat().st_dev
    assert found.device == f"{os.major(status)}:{os.minor(status)}"
    assert found.free_bytes == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)  # others write, too
    assert look(Path("/dev/shm")).device != found.device


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        ("nfs", True),
        ("nfs4", True),
        ("cifs", True),
        ("lustre", True),
        ("fuse.sshfs", True),
        ("fuse.juicefs", True),
        ("ext4", False),
        ("overlay", False),
        ("tmpfs", False),
        ("fuse.bindfs", False),
        ("fuse", False),
        ("", False),
    ],
)
def test_a_file_system_of_another_machine_is_known_by_its_kind(kind: str, network: bool) -> None:
    assert is_network(kind) is network


@pytest.mark.parametrize("asked", [probe, probe_here])
def test_a_probe_of_a_disk_that_works_says_so_and_leaves_nothing(
    tmp_path: Path, asked: Callable[[Path], StorageProbe]
) -> None:
    found = asked(tmp_path)
    assert (found.ok, found.failed_at, found.errno) == (True, None, None)
    assert found.storage is not None
    assert found.storage.device == look(tmp_path).device
    assert list(tmp_path.iterdir()) == []


def test_a_probe_of_a_folder_that_is_gone_fails_at_opening_it(tmp_path: Path) -> None:
    found = probe_here(tmp_path / "gone")
    assert (found.ok, found.failed_at, found.errno_name, found.storage) == (False, "open", "ENOENT", None)


def test_a_probe_of_a_file_system_that_takes_no_files_fails() -> None:
    found = probe_here(Path("/proc"))
    assert (found.ok, found.failed_at) == (False, "open")
    assert found.errno is not None
    assert found.storage is not None
    assert found.storage.kind == "proc"
