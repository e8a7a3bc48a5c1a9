"""GPUs as the driver's program and the kernel's log tell of them, by small stand-ins of both."""

from pathlib import Path

import pytest

from opd.protocol.failures import devices
from opd.protocol.failures.devices import log_lines, parsed, probe
from opd.protocol.supervision import asking
from opd.records.causes import Device

TWO = "GPU-aaaa, 0\nGPU-bbbb, [N/A]\n"
LOG = """\
6,1,10,-;Linux version 6
4,2,20,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python, Ch 00000008
 SUBSYSTEM=pci
4,3,30,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
12,4,40,-;NVRM: Xid (PCI:0000:3b:00): 94, pid=7, name=python, as a program wrote it
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the path of programs; its `nvidia-smi` is for the test to write."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder / "nvidia-smi"


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_gpus_are_named_with_their_memory_errors(driver: Path, tmp_path: Path) -> None:
    program(driver, f"printf '%s' '{TWO}'; echo \"$@\" >{tmp_path}/asked")
    found = probe(log=tmp_path / "none")
    assert found.devices == (
        Device(uuid="GPU-aaaa", uncorrected_errors=0),
        Device(uuid="GPU-bbbb", uncorrected_errors=None),
    )
    assert (found.answered, found.said) == (True, "")
    assert (tmp_path / "asked").read_text().split() == [devices.QUERY, "--format=csv,noheader,nounits"]


def test_a_driver_that_fails_is_quoted(driver: Path, tmp_path: Path) -> None:
    program(driver, "echo 'Unable to determine the device handle: GPU is lost'; exit 15")
    found = probe(log=tmp_path / "none")
    assert (found.devices, found.answered) == ((), False)
    assert found.said == "Unable to determine the device handle: GPU is lost"


def test_a_driver_that_hangs_is_given_up(driver: Path, tmp_path: Path) -> None:
    program(driver, "exec /bin/sleep 60")
    found = probe(limit_seconds=0.3, log=tmp_path / "none")
    assert (found.answered, found.said) == (False, "nvidia-smi did not end within 0.3 s")
    assert asking.LEFT[-1].wait(timeout=5) < 0


def test_a_machine_without_a_driver_has_no_gpus(driver: Path, tmp_path: Path) -> None:
    assert not driver.exists()
    found = probe(log=tmp_path / "none")
    assert (found.devices, found.answered, found.said) == ((), False, "there is no nvidia-smi")
    assert (found.log_sequence, found.xids) == (None, ())


def test_only_lines_after_the_earlier_probe_count(driver: Path, tmp_path: Path) -> None:
    """By the log's own numbers; what somebody else wrote into it is no line of the driver."""
    program(driver, "true")
    log = tmp_path / "kmsg"
    head = LOG.splitlines(keepends=True)
    log.write_text("".join(head[:2]))
    before = probe(log=log)
    assert (before.log_sequence, before.xids) == (2, ())
    log.write_text(LOG)
    after = probe(after=before, log=log)
    assert (after.log_sequence, after.xids) == (4, (79,))
    assert probe(after=after, log=log).xids == ()


def test_a_log_that_could_not_be_read_before_tells_nothing_after(driver: Path, tmp_path: Path) -> None:
    program(driver, "true")
    before = probe(log=tmp_path / "none")
    (tmp_path / "kmsg").write_text(LOG)
    assert probe(after=before, log=tmp_path / "kmsg").xids == ()


def test_the_kernels_own_log_is_numbered_upwards() -> None:
    numbers = [number for number, _ in log_lines()]
    if not numbers:
        pytest.skip("the kernel's log can't be read here")
    assert numbers == sorted(set(numbers))


def test_lines_of_an_answer_that_name_no_gpu_are_passed_over() -> None:
    assert parsed("warning: x\n\nGPU-1, 12\nNo devices were found\n") == (
        Device(uuid="GPU-1", uncorrected_errors=12),
    )
