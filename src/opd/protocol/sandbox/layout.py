"""The file tree that a program with mounts of its own sees, as steps that build it, in order.

/usr /lib /bin …   the host's programs, read-only        /proc /dev   fresh, with the few harmless devices
/etc               a few files of ours and of the host   then the mounts of the view, from the root down
/opd/inside        the first process's own code          last, what is hidden is covered
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from opd.protocol.sandbox.view import View

INSIDE = Path(__file__).parent / "inside"
INSIDE_TARGET = "/opd/inside"

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_OURS = Path(__file__).parent / "etc"  # who there is, which machine this is, and that names come from files alone
_HOSTS = (  # what programs look up, and no secret
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_GPU = ("/sys", "/etc/OpenCL", "/etc/nvidia")
_GPU_DEVICES = ("nvidia*", "dri", "kfd")

# What sets the kernel up. Whoever supervises as root is root to these files in a namespace too, without a capability:
# bubblewrap 0.8 leaves them open then, and /proc/sys/kernel/core_pattern is a way to run anything on the host.
_KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "driver", "dynamic_debug")

Kind = Literal["read", "write", "device", "empty", "covered", "link", "proc", "dev"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing at one place.

    read, write, device: `source` is bound there. empty: a folder in memory. covered: one that stays empty.
    link: a symbolic link to `source`. proc, dev: a fresh one.
    """

    kind: Kind
    target: str
    source: str = ""


def interpreter() -> str:
    """The Python that runs the first process: the one underneath any virtual environment."""
    return str(Path(getattr(sys, "_base_executable", sys.executable) or sys.executable).resolve())


def devices() -> list[str]:
    """The host's devices of GPUs."""
    return [str(place) for pattern in _GPU_DEVICES for place in sorted(Path("/dev").glob(pattern))]


def readable(*, gpu: bool) -> list[str]:
    """What of the host every program may read and start, under its own path: systems, libraries, the interpreter."""
    places = [*_PROGRAMS, *_HOSTS, *(_GPU if gpu else ())]
    base = Path(sys.base_prefix).resolve()
    if not base.is_relative_to("/usr"):
        places.append(str(base))
    return [place for place in places if Path(place).exists()]


def layout(view: View) -> tuple[Step, ...]:
    """The steps; those of the view come after the system's, each after what it lies below."""
    system = [*_system(view.gpu), Step(kind="read", source=str(INSIDE), target=INSIDE_TARGET)]
    shown = [_shown(view, index) for index in range(len(view.mounts))]
    shown.sort(key=lambda step: len(PurePosixPath(step.target).parts))
    steps = [*system, *shown]
    return (*steps, *_covers(view, steps))


def _system(gpu: bool) -> Iterator[Step]:
    for place in readable(gpu=gpu):
        path = Path(place)
        if path.is_symlink() and path.parent == Path("/"):  # /bin is usr/bin on merged systems
            yield Step(kind="link", source=str(path.readlink()), target=place)
        else:
            yield Step(kind="read", source=str(path.resolve()), target=place)
    for file in sorted(_OURS.iterdir()):
        yield Step(kind="read", source=str(file), target=f"/etc/{file.name}")
    yield Step(kind="proc", target="/proc")
    for name in _KERNEL_SETTINGS:
        if Path("/proc", name).exists():
            yield Step(kind="read", source=f"/proc/{name}", target=f"/proc/{name}")
    yield Step(kind="dev", target="/dev")
    yield Step(kind="empty", target="/dev/shm")  # noqa: S108 the sandbox's own
    for device in devices() if gpu else ():
        yield Step(kind="device", source=device, target=device)


def _shown(view: View, index: int) -> Step:
    mount = view.mounts[index]
    if mount.source is None:
        return Step(kind="empty", target=str(mount.target))
    return Step(
        kind="write" if mount.writable else "read", source=str(view.source_of(mount)), target=str(mount.target)
    )


def _covers(view: View, steps: list[Step]) -> Iterator[Step]:
    """What lies over the hidden places, wherever a step shows them."""
    for place in view.hidden:
        hidden = place.resolve()
        for step in steps:
            if step.kind in {"read", "write"} and hidden.exists() and hidden.is_relative_to(step.source):
                target = str(PurePosixPath(step.target) / hidden.relative_to(step.source))
                if hidden.is_dir():
                    yield Step(kind="covered", target=target)
                else:
                    yield Step(kind="read", source="/dev/null", target=target)
