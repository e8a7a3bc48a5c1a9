"""Landlock: a process gives up, for itself and all that it starts, every file that isn't granted.

    ABI 1  files: read, write, make, remove, execute      4  TCP connections and ports
        2  renaming between folders                       5  device ioctl
        3  truncating                                     6  signals and abstract sockets to outside the domain

What it has no word for stays open: UDP, sockets that have a path, changing a file's mode, seeing that others run.
"""

import ctypes
import errno
import os
import stat

from . import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1  # the flag of landlock_create_ruleset that asks for the ABI
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST = (1 << 13) - 1  # the thirteen rights of ABI 1
_MAKE_DEVICES = 1 << 6 | 1 << 11
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # a file that isn't a folder takes no others

_NETWORK_ABI, _SCOPE_ABI = 4, 6
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

READ = "read"
LIST = "list"
WRITE = "write"
DEVICE = "device"
CHANGE = "change"  # files that are there already
_GRANTS = {
    READ: _READ_FILE | _READ_DIR | _EXECUTE,
    LIST: _READ_DIR,
    WRITE: (_FIRST & ~_MAKE_DEVICES) | _REFER | _TRUNCATE,
    DEVICE: _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV,
    CHANGE: _WRITE_FILE | _TRUNCATE,
}


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """The version that the kernel offers; 0 where it offers none."""
    try:
        return kernel.call(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    except OSError as error:
        if error.errno in {errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}:
            return 0
        raise


def restrict(grants: list[tuple[str, str]]) -> None:
    """From now on only these are left: a path with all beneath it, and `read`, `list`, `write`, `change` or `device`.

    TCP, and signals and abstract sockets to processes outside, are given up as far as the kernel's ABI goes. A path
    that isn't there is passed over. Needs `no_new_privileges` before.
    """
    version = abi()
    handled = _FIRST
    for bit, since in ((_REFER, 2), (_TRUNCATE, 3), (_IOCTL_DEV, 5)):
        handled |= bit if version >= since else 0
    ruleset = _Ruleset(
        files=handled,
        network=_BIND_AND_CONNECT_TCP if version >= _NETWORK_ABI else 0,
        scoped=_ABSTRACT_SOCKETS_AND_SIGNALS if version >= _SCOPE_ABI else 0,
    )
    known = 8 * (1 + (version >= _NETWORK_ABI) + (version >= _SCOPE_ABI))  # bytes of it that this kernel knows
    descriptor = kernel.call(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(known), 0)
    try:
        for path, right in grants:
            _grant(descriptor, path, _GRANTS[right] & handled)
        kernel.call(_RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)


def _grant(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _OF_FILES
        rule = _Beneath(access=access, parent=descriptor)
        if access:
            kernel.call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)
