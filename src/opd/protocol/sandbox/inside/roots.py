"""Namespaces and a file tree made by this process itself, for machines without bubblewrap; then `init` takes over.

    started ─ unshare user mount pid net ipc uts cgroup ─ fork ─ process 1: builds the tree, makes it `/`,
                                                                  unshares the user once more, and becomes `init`

The tree is built by the root of the first user namespace. The second one has no rights over anything in the first, so
the program can't take the tree apart, and no third can be made.
"""

import fcntl
import json
import os
import signal
import socket
import struct
from pathlib import Path

from . import init, kernel

_NEW = "/new"
_OLD = "/old"
_BASE = "/tmp"  # noqa: S108 a folder that is there on every machine; what lies in it shows again below /old
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_USER = 1000


def main(words: list[str]) -> None:
    """Runs `init` with the last word, on the tree that the word before describes."""
    plan = json.loads(words[-2])
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEW & ~kernel.CLONE_NEWTIME)
    _map_user(inside=(0, 0), outside=(user, group))
    Path("/proc/sys/user/max_user_namespaces").write_text("1")  # in this one: the one below, and then no more
    first = os.fork()
    if first:
        os.close(int(words[-1]))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xFF)
    kernel.die_with_parent()
    _build(plan["steps"], plan["scratch_bytes"])
    _raise_loopback()
    socket.sethostname("opd")
    kernel.unshare(kernel.CLONE_NEWUSER)
    _map_user(inside=(_USER, _USER), outside=(0, 0))
    kernel.die_with_parent()  # a change of user forgets it
    kernel.drop_capabilities()
    kernel.no_new_privileges()
    init.main(words)


def _map_user(*, inside: tuple[int, int], outside: tuple[int, int]) -> None:
    for file, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside[0]} {outside[0]} 1"),
        ("gid_map", f"{inside[1]} {outside[1]} 1"),
    ):
        Path(f"/proc/self/{file}").write_text(text)


def _build(steps: list[dict[str, str]], scratch_bytes: int | None) -> None:
    """The tree stands under `/`, and nothing of the old one can be reached."""
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", _BASE, kind="tmpfs", flags=_PLAIN, options="mode=0755")
    _folder(_BASE + _OLD)
    _folder(_BASE + _NEW)
    os.chdir(_BASE)
    kernel.mount("tmpfs", _BASE + _NEW, kind="tmpfs", flags=_PLAIN, options="mode=0755,size=1m")
    kernel.pivot_root(".", "old")
    os.chdir("/")
    for step in steps:
        _take(step, _NEW + step["target"], scratch_bytes)
    kernel.change_root(_NEW)
    kernel.mount_attributes("/", kernel.MS_RDONLY, below=False)


def _take(step: dict[str, str], target: str, scratch_bytes: int | None) -> None:
    kind, source = step["kind"], _OLD + step["source"]
    if kind == "link":
        Path(target).symlink_to(step["source"])
    elif kind == "proc":
        _folder(target)
        kernel.mount("proc", target, kind="proc", flags=_PLAIN | kernel.MS_NOEXEC)
    elif kind == "dev":
        _make_devices(target)
    elif kind in {"empty", "covered"}:
        _folder(target)
        size = f",size={scratch_bytes}" if scratch_bytes is not None else ""
        mode = "1777" if kind == "empty" else "0755"
        kernel.mount("tmpfs", target, kind="tmpfs", flags=_PLAIN, options=f"mode={mode}{size}")
        if kind == "covered":
            kernel.mount_attributes(target, kernel.MS_RDONLY)
    else:
        _bind(source, target, kind)


def _bind(source: str, target: str, kind: str) -> None:
    if Path(source).is_dir():
        _folder(target)
    else:
        _folder(str(Path(target).parent))
        if not Path(target).exists():  # it may be there, and on something that is mounted read-only
            Path(target).touch()
    kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)
    attributes = {"read": _PLAIN | kernel.MS_RDONLY, "write": _PLAIN, "device": kernel.MS_NOSUID}
    kernel.mount_attributes(target, attributes[kind])


def _make_devices(target: str) -> None:
    _folder(target)
    kernel.mount("tmpfs", target, kind="tmpfs", flags=kernel.MS_NOSUID, options="mode=0755,size=1m")
    for name in _DEVICES:
        _bind(f"{_OLD}/dev/{name}", f"{target}/{name}", "device")
    for name, place in _LINKS.items():
        Path(target, name).symlink_to(place)
    _folder(f"{target}/pts")
    flags = kernel.MS_NOSUID | kernel.MS_NOEXEC
    kernel.mount("devpts", f"{target}/pts", kind="devpts", flags=flags, options="newinstance,ptmxmode=0666,mode=620")


def _folder(path: str) -> None:
    Path(path).mkdir(parents=True, exist_ok=True)


def _raise_loopback() -> None:
    """The machine's own address works in its new network, as programs that talk to themselves expect."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack_from("h", fcntl.ioctl(control, _SIOCGIFFLAGS, name), 16)[0]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
