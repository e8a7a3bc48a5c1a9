"""System calls that Python has no name for; each raises `OSError` with the kernel's reason.

Numbers are the same on x86-64 and AArch64 unless a table says otherwise; on other machines `seccomp` is not offered.
"""

import ctypes
import errno
import os
import signal

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
CLONE_NEWTIME = 0x0000_0080
CLONE_NEW = (
    CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
    | CLONE_NEWTIME
)

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000
MNT_DETACH = 0x2

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_SETATTR = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x2008_0522  # the third, with 64 bits in two halves
_MOST_CAPABILITIES = 64

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def machine() -> str:
    """x86_64, aarch64, …"""
    return os.uname().machine


def call(number: int, *arguments: object) -> int:
    """What this system call returns."""
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments))


def prctl(option: int, *arguments: int) -> int:
    """What prctl(2) returns."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return _checked(_libc.prctl(option, *map(ctypes.c_ulong, padded)))


def prctl_pointer(option: int, mode: int, pointer: object) -> int:
    """The same, for the options that take a structure."""
    return _checked(_libc.prctl(option, ctypes.c_ulong(mode), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)))


def die_with_parent() -> None:
    """This process gets SIGKILL when the thread that started it ends; it ends now if that has happened already."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def keep_out_others() -> None:
    """No process of the same user may read this one's memory, environment or descriptors, or trace it."""
    prctl(PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    """No program that is started from here on gains rights by set-user-id bits or file capabilities."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """This process has no capability, and no program that it starts can have one, root's neither."""
    for capability in range(_MOST_CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:  # past the last one
                break
            if error.errno != errno.EPERM:  # an ordinary user has none to drop, and can't gain any either
                raise
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    call(_CAPSET[machine()], ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def unshare(flags: int) -> None:
    """This process, or for processes its children, has namespaces of its own."""
    _checked(_libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Something is mounted on a target that exists."""
    _checked(
        _libc.mount(
            source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
        ),
        f"{source} on {target}",
    )


def mount_attributes(target: str, flags: int, *, below: bool = True) -> None:
    """These flags hold for a mount and, unless told otherwise, all that is mounted below it; those it has stay."""
    attributes = _MountAttributes(attr_set=flags)  # the same bits as the flags of mount(2), as far as used here
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    call(_MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE if below else 0, ctypes.byref(attributes), size)


def pivot_root(new: str, old: str) -> None:
    """The mount `new` is `/`, and what was `/` is mounted at `old`, which lies in it."""
    call(_PIVOT_ROOT[machine()], new.encode(), old.encode())


def change_root(folder: str) -> None:
    """The folder, which is a mount, is `/`, and what was `/` can't be reached any more."""
    os.chdir(folder)
    pivot_root(".", ".")  # stacks the old root on the new one, whence it is taken away
    _checked(_libc.umount2(b".", MNT_DETACH))
    os.chdir("/")


def _checked(result: int, about: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), about)
    return int(result)
