"""The filter of system calls, run by an interpreter of its own kind, with numbers from the kernel's headers."""

import errno
import re
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from opd.protocol.sandbox.inside import kernel, seccomp
from opd.protocol.sandbox.inside.seccomp import Instruction, instructions

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = "allowed"
CLONE_THREAD_FLAGS = 0x003D0F00  # what glibc's pthread_create asks for


def verdict(
    program: Sequence[Instruction], *, machine: str, number: int, arguments: Sequence[int] = (0, 0, 0)
) -> str | int:
    """What the kernel's classic BPF makes of a call: allowed, or an error number."""
    record = {0: number, 4: ARCHITECTURES[machine]} | {16 + 8 * place: value for place, value in enumerate(arguments)}
    accumulator, place = 0, 0
    while True:
        code, true, false, value = program[place]
        place += 1
        if code == 0x06:
            return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF
        if code == 0x20:
            accumulator = record[value]
            continue
        taken = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
        place += true if taken else false


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def numbers(machine: str) -> dict[str, int]:
    """The number of each call, as the kernel's headers give them."""
    if not HEADERS[machine].exists():
        pytest.skip(f"reads {HEADERS[machine]}, of the package linux-libc-dev")
    found = re.findall(r"^#define __NR3?264?_?_?(\w+)\s+(\d+)", HEADERS[machine].read_text(), flags=re.MULTILINE)
    found += re.findall(r"^#define __NR_(\w+)\s+(\d+)", HEADERS[machine].read_text(), flags=re.MULTILINE)
    return {name: int(number) for name, number in found}


REFUSED_ALWAYS = (
    *("mount", "umount2", "pivot_root", "chroot", "setns", "open_tree", "move_mount", "fsopen", "fsmount"),
    *("bpf", "perf_event_open", "keyctl", "add_key", "request_key", "kexec_load", "init_module", "finit_module"),
    *("delete_module", "open_by_handle_at", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("reboot", "swapon", "swapoff", "sethostname", "setdomainname", "settimeofday", "clock_settime", "acct"),
    *("quotactl", "syslog", "vhangup", "fanotify_init", "mount_setattr", "fsconfig", "fspick", "quotactl_fd"),
    *("kexec_file_load", "clock_adjtime"),
)
REFUSED_WITHOUT_NAMESPACES = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "shmget", "semget", "msgget", "mq_open"),
)
NEEDED = (
    "read",
    "write",
    "openat",
    "mmap",
    "execve",
    "exit_group",
    "kill",
    "prlimit64",
    "sched_setaffinity",
    "mbind",
)


@pytest.mark.parametrize("network", [False, True])
def test_calls_are_refused_by_the_numbers_that_the_headers_give(
    machine: str, numbers: dict[str, int], network: bool
) -> None:
    program = instructions(machine, network)
    refused = {
        name for name, number in numbers.items() if verdict(program, machine=machine, number=number) != ALLOWED
    }
    expected = {*REFUSED_ALWAYS, "clone3", *(REFUSED_WITHOUT_NAMESPACES if network else ())}
    if network:
        expected |= {"socket"}  # its first argument is 0 here, which is no kind of socket that is left
    assert refused == expected & numbers.keys()
    assert len(expected - numbers.keys()) <= 3, "headers of an old kernel lack the newest calls only"
    assert all(
        verdict(program, machine=machine, number=numbers[name]) == ALLOWED for name in NEEDED if name in numbers
    )


def test_threads_and_processes_can_be_made_and_namespaces_not(machine: str, numbers: dict[str, int]) -> None:
    program = instructions(machine, False)
    for flags, expected in ((17, ALLOWED), (CLONE_THREAD_FLAGS, ALLOWED), (17 | kernel.CLONE_NEWUSER, errno.EPERM)):
        assert verdict(program, machine=machine, number=numbers["clone"], arguments=(flags, 0, 0)) == expected
    assert verdict(program, machine=machine, number=numbers["unshare"], arguments=(0x400, 0, 0)) == ALLOWED  # files
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
        assert verdict(program, machine=machine, number=numbers["unshare"], arguments=(flag, 0, 0)) == errno.EPERM
    assert verdict(program, machine=machine, number=numbers["clone3"]) == errno.ENOSYS  # so that clone is tried


def test_only_sockets_within_the_machine_are_left_without_namespaces(machine: str, numbers: dict[str, int]) -> None:
    left = {
        family
        for family in range(64)
        if verdict(instructions(machine, True), machine=machine, number=numbers["socket"], arguments=(family, 1, 0))
        == ALLOWED
    }
    assert left == {socket.AF_UNIX, socket.AF_NETLINK}
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
        assert (
            verdict(instructions(machine, False), machine=machine, number=numbers["socket"], arguments=(family, 1, 0))
            == ALLOWED
        )


def test_no_characters_can_be_put_into_a_terminal(machine: str, numbers: dict[str, int]) -> None:
    program = instructions(machine, False)
    for request, expected in ((0x5413, ALLOWED), (0x5412, errno.EPERM), (0x541C, errno.EPERM)):
        assert verdict(program, machine=machine, number=numbers["ioctl"], arguments=(0, request, 0)) == expected


def test_calls_of_other_machines_do_not_exist() -> None:
    program = instructions("x86_64", True)
    assert verdict(program, machine="aarch64", number=0) == errno.ENOSYS
    assert verdict(program, machine="x86_64", number=0x40000000 | 41) == errno.ENOSYS  # socket, numbered as x32 does


def test_the_filter_is_offered_where_its_numbers_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seccomp.offered() == (kernel.machine() in HEADERS)
    monkeypatch.setattr(kernel, "machine", lambda: "riscv64")
    assert not seccomp.offered()
