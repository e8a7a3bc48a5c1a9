"""What a program sees: a few folders at fixed places, an environment, and nothing else.

    /workspace (its folder)   /inputs/student   /inputs/train.jsonl   /opd/bin   /tmp   …

The same view goes to every rung of the ladder. Where a rung can't give a program mounts of its own, a target lies
where its source does; so whatever names a target, in the environment or in a command, is a `PurePosixPath` and not a
text: each rung puts the right path in its place.
"""

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath

from opd.protocol.sandbox.interpreter import Interpreter, this_interpreter
from opd.records.errors import AskedWrongly

Word = str | PurePosixPath
"""A text as it is, or a target, which lies where the rung puts it."""
Value = Word | tuple[Word, ...]
"""The same, or several of them, joined by colons as in PATH."""


class Guarantee(StrEnum):
    """What a sandbox may prevent. A probe of the same name tries each."""

    FROZEN_FILES = "frozen_files"  # what is mounted read-only is not written, truncated, removed or replaced
    FROZEN_MODES = "frozen_modes"  # nor are its permissions changed
    HIDDEN_FOLDERS = "hidden_folders"  # what is hidden below a mounted folder is not read
    OTHER_FOLDERS = "other_folders"  # what is not in the view is not read
    TCP = "tcp"
    UDP = "udp"
    DNS = "dns"
    ABSTRACT_SOCKETS = "abstract_sockets"  # sockets of the machine that have a name and no path
    PATH_SOCKETS = "path_sockets"  # sockets with a path outside the view
    SIGNALS = "signals"  # processes outside get none
    HOST_PROCESSES = "host_processes"  # those are not even seen
    ENVIRONMENT = "environment"  # nor are their environments read
    DAEMONS = "daemons"  # nothing stays behind, however it detaches itself
    SHARED_MEMORY = "shared_memory"  # nor System V memory, which outlives its processes
    DEVICES = "devices"
    KERNEL_SETTINGS = "kernel_settings"  # /proc/sys
    CAPABILITIES = "capabilities"  # none is held or gained, in a namespace of its own neither


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What everything in a sandbox together may use; None is no limit."""

    processes: int | None = None  # and threads
    memory_bytes: int | None = None
    file_bytes: int | None = None  # of one file
    scratch_bytes: int | None = None  # of each empty folder that lies in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file, folder or socket of the host, at a place of the view; without a source, an empty folder for a while."""

    source: Path | None
    target: PurePosixPath
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a program is given. Raises `AskedWrongly` for a source that isn't there and for a relative target."""

    mounts: tuple[Mount, ...]
    folder: PurePosixPath  # where it starts
    environment: Mapping[str, Value]  # the whole of it
    hidden: tuple[Path, ...] = ()  # of the host, not to be seen though something above is mounted
    gpu: bool = False
    limits: Limits = field(default_factory=Limits)
    image: str | None = None  # what a container is made from; the other rungs show the host's own programs
    scratch: Path = field(
        default_factory=lambda: Path(tempfile.gettempdir()).resolve() / f"opd-{secrets.token_hex(8)}"
    )
    """Where empty folders lie on a rung that has no memory of its own to put them in."""

    def __post_init__(self) -> None:
        for mount in self.mounts:
            if not mount.target.is_absolute():
                raise AskedWrongly(f"mount on {mount.target}: write the target as an absolute path")
            if mount.source is not None and not mount.source.exists():
                raise AskedWrongly(f"mount on {mount.target}: {mount.source} does not exist")

    def unmoved(self, target: PurePosixPath) -> str:
        """Where a target lies for a program without mounts of its own: at its source, or below it."""
        for mount in sorted(self.mounts, key=lambda mount: len(mount.target.parts), reverse=True):
            if target.is_relative_to(mount.target):
                return str(self.source_of(mount) / target.relative_to(mount.target))
        return str(target)

    def source_of(self, mount: Mount) -> Path:
        """The folder or file of the host that a mount shows; an empty folder's lies in `scratch`."""
        if mount.source is None:
            return self.scratch / "-".join(mount.target.parts[1:])
        return mount.source.resolve()

    @property
    def empty_folders(self) -> tuple[Path, ...]:
        """Where the empty folders lie on a rung without mounts."""
        return tuple(self.source_of(mount) for mount in self.mounts if mount.source is None)


def spelt(value: Value, *, view: View, moved: bool) -> str:
    """A value of the environment, or a word of a command, as the program gets it; `moved`: with mounts of its own."""
    if isinstance(value, tuple):
        return ":".join(spelt(part, view=view, moved=moved) for part in value)
    if isinstance(value, PurePosixPath) and not moved:
        return view.unmoved(value)
    return str(value)


def python_mounts(interpreter: Interpreter | None = None) -> tuple[Mount, ...]:
    """An interpreter with its packages, each at its own path, read-only; hide its `own_code` when using them.

    Without one, of the interpreter that runs this.
    """
    folders = (interpreter or this_interpreter()).folders
    return tuple(Mount(source=folder, target=PurePosixPath(folder)) for folder in folders)


def own_code(interpreter: Interpreter | None = None) -> tuple[Path, ...]:
    """Where this package is installed. It holds the questions of final evaluations, so no candidate sees it."""
    return ((interpreter or this_interpreter()).package,)


def words(argv: Sequence[Word], *, view: View, moved: bool) -> list[str]:
    """A command as the program gets it."""
    return [spelt(word, view=view, moved=moved) for word in argv]


def environment(view: View, *, moved: bool) -> dict[str, str]:
    """The environment as the program gets it."""
    return {name: spelt(value, view=view, moved=moved) for name, value in view.environment.items()}
