"""A filter of system calls: what no program that trains or evaluates needs, and the kernel is safer without.

    surface   mounting, namespaces, tracing the kernel, keys, modules, io_uring (which goes round filters), the clock
    network   also every socket but those within the machine, and shared memory that outlives its processes

`surface` goes with namespaces, as a second wall; `network` stands in for them where there are none: it closes the
UDP that Landlock leaves open, and tracing. A refused call fails with EPERM, EACCES or ENOSYS; nothing is killed.
"""

import ctypes
import errno
import struct

from . import kernel

_MODE_FILTER = 2
_ALLOW = 0x7FFF_0000
_ERRNO = 0x0005_0000

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16  # bytes into the record of a call
_X32 = 0x4000_0000  # x86-64's second way to number calls

_MACHINES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_AF_UNIX, _AF_NETLINK = 1, 16
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # put characters into a terminal's input

_SURFACE = {  # name: (x86-64, AArch64)
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "fanotify_init": (300, 262),
}
_NETWORK = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
_CLONE, _CLONE3, _UNSHARE, _IOCTL, _SOCKET = (56, 220), (435, 435), (272, 97), (16, 29), (41, 198)

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def offered() -> bool:
    """Whether the numbers of this machine's calls are known here."""
    return kernel.machine() in _MACHINES


def install(*, network: bool) -> None:
    """The filter holds for this process and all that it starts, for good. Needs `no_new_privileges` before."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions(kernel.machine(), network))
    program = _Program(len(code) // 8, code)
    kernel.prctl_pointer(kernel.PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program))


def instructions(machine: str, network: bool) -> list[Instruction]:
    """The program of the filter, in the kernel's classic BPF."""
    which = list(_MACHINES).index(machine)
    refuse = _ERRNO | errno.EPERM
    program: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_JUMP_EQUAL, 1, 0, _MACHINES[machine]),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),  # another machine's calls, such as those of 32 bits
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":
        program += [(_JUMP_GREATER_EQUAL, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for numbers in [*_SURFACE.values(), *(_NETWORK.values() if network else ())]:
        program += [(_JUMP_EQUAL, 0, 1, numbers[which]), (_RETURN, 0, 0, refuse)]
    # its flags lie in memory, where a filter can't look; without it, libraries fall back to clone
    program += [(_JUMP_EQUAL, 0, 1, _CLONE3[which]), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for call in (_CLONE, _UNSHARE):
        program += _by_argument(call[which], 0, [(_JUMP_ANY_BIT, 0, 1, kernel.CLONE_NEW), (_RETURN, 0, 0, refuse)])
    program += _by_argument(
        _IOCTL[which],
        1,
        [(_JUMP_EQUAL, 1, 0, _TIOCSTI), (_JUMP_EQUAL, 0, 1, _TIOCLINUX), (_RETURN, 0, 0, refuse)],
    )
    if network:
        program += _by_argument(
            _SOCKET[which],
            0,
            [
                (_JUMP_EQUAL, 2, 0, _AF_UNIX),
                (_JUMP_EQUAL, 1, 0, _AF_NETLINK),
                (_RETURN, 0, 0, _ERRNO | errno.EACCES),
            ],
        )
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _by_argument(number: int, argument: int, body: list[Instruction]) -> list[Instruction]:
    """For this call, its argument is loaded and the body decides; what the body lets pass is allowed."""
    inner = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument), *body, (_RETURN, 0, 0, _ALLOW)]
    return [(_JUMP_EQUAL, 0, len(inner), number), *inner]
