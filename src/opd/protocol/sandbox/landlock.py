"""The third rung, for machines where nobody may make namespaces: rights given up before the program begins.

The program sees the host's own paths, and that other processes run; it can read and write what is granted, and
nothing else. A filter of system calls closes Landlock's gaps: no socket to outside the machine, no shared memory.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opd.protocol.sandbox.inside import landlock, seccomp
from opd.protocol.sandbox.launch import Launch, unmoved
from opd.protocol.sandbox.layout import devices, readable
from opd.protocol.sandbox.view import Guarantee, View, Word
from opd.records.errors import AskedWrongly

_SCOPE_ABI = 6  # from which on signals and abstract sockets are held back
_ALWAYS = frozenset(
    {
        Guarantee.FROZEN_FILES,
        Guarantee.HIDDEN_FOLDERS,
        Guarantee.OTHER_FOLDERS,
        Guarantee.TCP,
        Guarantee.UDP,
        Guarantee.DNS,
        Guarantee.ENVIRONMENT,
        Guarantee.DAEMONS,
        Guarantee.SHARED_MEMORY,
        Guarantee.DEVICES,
        Guarantee.KERNEL_SETTINGS,
        Guarantee.CAPABILITIES,
    }
)
_SETTING = Path("/proc/sys/kernel/core_pattern")
_HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_ALSO_READ = ("/proc", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf")


@dataclass(frozen=True, slots=True)
class Landlock:
    """The host as it is, of which the program may touch only what the view holds."""

    name = "landlock"

    @property
    def prevents(self) -> frozenset[Guarantee]:
        """What the kernel's version of it covers."""
        if landlock.abi() < _SCOPE_ABI:
            return _ALWAYS
        return _ALWAYS | {Guarantee.SIGNALS, Guarantee.ABSTRACT_SOCKETS}

    def missing(self) -> str | None:
        """What this machine lacks to try it; None: nothing."""
        if not seccomp.offered():
            return "no filter of system calls is known for this machine"
        return None if landlock.abi() else "this kernel offers no Landlock"

    def version(self) -> str:
        """Which ABI the kernel offers."""
        return f"ABI {landlock.abi()}"

    def path(self, view: View, target: PurePosixPath) -> str:
        """Where a target lies for the program: at its source."""
        return view.unmoved(target)

    def command(self, view: View, argv: Sequence[Word], *, mark: str) -> Launch:
        """How a program is started in this view; raises `AskedWrongly` for a view that can't be granted."""
        return unmoved(
            self.name, view, argv, mark=mark,
            drops_capabilities=True, landlock=tuple(grants(view)), seccomp="network",
        )  # fmt: skip


def grants(view: View) -> Iterator[tuple[str, str]]:
    """What the program may touch: a path and `read`, `list`, `write`, `change` or `device`."""
    hidden = [place.resolve() for place in view.hidden]
    for system in readable(gpu=view.gpu):
        yield from _around(Path(system).resolve(), hidden)
    yield from ((system, landlock.READ) for system in _ALSO_READ)
    yield from ((device, landlock.DEVICE) for device in (*_HARMLESS_DEVICES, *(devices() if view.gpu else ())))
    if view.gpu:
        yield _for_cuda()
    writable = [view.source_of(mount) for mount in view.mounts if mount.writable or mount.source is None]
    frozen = [view.source_of(mount) for mount in view.mounts if not mount.writable and mount.source is not None]
    for place in writable:
        for other in (*frozen, *hidden):
            if other.is_relative_to(place):
                raise AskedWrongly(
                    f"{other} is not to be changed and lies in {place}, which is to be written to: landlock grants a "
                    "folder with all that is in it; put it elsewhere, or use a rung with namespaces"
                )
        yield str(place), landlock.WRITE
    for place in frozen:
        yield from _around(place, hidden)


def _for_cuda() -> tuple[str, str]:
    """CUDA gives its threads names, in `/proc/self/task`, and does not start where it can't (error 304).

    Landlock can grant that for all of `/proc` only; an ordinary user, or a container, still can't change the settings
    that are there.
    """
    if os.access(_SETTING, os.W_OK):
        raise AskedWrongly(
            f"a GPU under landlock needs writing to /proc, which would open {_SETTING} to this user; "
            "use a rung with namespaces, or an ordinary user"
        )
    return "/proc", landlock.CHANGE


def _around(place: Path, hidden: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Grants to read a place, but not what is hidden in it, of which the names alone can be listed."""
    inner = [one for one in hidden if one.is_relative_to(place)]
    if not inner:
        yield str(place), landlock.READ
        return
    if place in inner:
        return
    yield str(place), landlock.LIST
    for entry in place.iterdir():
        if not entry.is_symlink():  # a link grants nothing: what it leads to is granted or isn't
            yield from _around(entry, inner)
