"""Control groups: what a program and all that it starts may use together, who belongs to them, and their end.

A group is named after the mark of its launch, so that what was left behind is found again. Where nobody may make one,
there is none, and supervision counts and ends processes by itself. Version 1 has a tree for each controller, version
2 one tree for all; a machine may have both, and then the first that offers a controller is taken.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opd.protocol.sandbox.view import Limits

_CONTROLLERS = ("pids", "memory")
_KILL = "cgroup.kill"
_MEMBERS = "cgroup.procs"
_REMOVAL_SECONDS = 2.0  # the kernel lets go of a group's last member a moment after its death


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One mounted hierarchy, and where this process is in it."""

    version: int
    controllers: frozenset[str]
    top: Path
    own: Path

    def places(self) -> list[Path]:
        """Where a group may be made, best first: below this process, or in version 2 beside it or above.

        A group of version 2 that holds processes may not hand controllers on, so below it there are none.
        """
        if self.version == 1:
            return [self.own]
        return [self.own, *(above for above in self.own.parents if above.is_relative_to(self.top))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A control group of one launch: a folder in each tree that could be had."""

    folders: tuple[Path, ...]
    held: Mapping[str, str]  # what limits it, by the name of the limit

    def add(self, pid: int) -> None:
        """This process, and all that it starts from now on, belongs to it."""
        for folder in self.folders:
            (folder / _MEMBERS).write_text(str(pid))

    def members(self) -> tuple[int, ...]:
        """Who belongs to it."""
        found: dict[int, None] = {}
        for folder in self.folders:
            with suppress(OSError):
                found.update(dict.fromkeys(map(int, (folder / _MEMBERS).read_text().split())))
        return tuple(found)

    def kill(self) -> bool:
        """Whether all members were killed in one stroke; version 1 can't."""
        for folder in self.folders:
            if (folder / _KILL).exists():
                (folder / _KILL).write_text("1")
                return True
        return False

    def memory_kills(self) -> int:
        """How many processes the kernel killed because the group's memory was used up."""
        return sum(_events(folder).get("oom_kill", 0) for folder in self.folders)

    def memory_bytes(self) -> int | None:
        """What it uses now, caches of files included; None where nothing counts it."""
        for folder in self.folders:
            for name in ("memory.current", "memory.usage_in_bytes"):
                with suppress(OSError):
                    return int((folder / name).read_text())
        return None

    def remove(self) -> None:
        """It is gone, if it is empty."""
        ending = time.monotonic() + _REMOVAL_SECONDS
        for folder in self.folders:
            while folder.exists():
                with suppress(OSError):
                    folder.rmdir()
                    break
                if time.monotonic() >= ending:
                    break
                time.sleep(0.005)


def trees() -> list[Tree]:
    """The hierarchies that are mounted here, as `/proc/self` tells of them; none where it doesn't."""
    paths = {}
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths[controllers] = path
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return []
    return [tree for mount in mounts if (tree := _tree(mount, paths)) is not None]


def _tree(mount: str, paths: Mapping[str, str]) -> Tree | None:
    fields, _, rest = mount.partition(" - ")
    kind, _, options = rest.split(" ", 2)
    root, top = fields.split()[3], Path(fields.split()[4])
    if kind == "cgroup2" and "" in paths:
        return Tree(version=2, controllers=_offered(top), top=top, own=_below(top, root, paths[""]))
    for controllers, path in paths.items():
        wanted = set(controllers.split(",")) & set(_CONTROLLERS)
        if kind == "cgroup" and wanted & set(options.split(",")):
            return Tree(version=1, controllers=frozenset(wanted), top=top, own=_below(top, root, path))
    return None


def _below(top: Path, root: str, path: str) -> Path:
    """Where a path of the hierarchy lies, of which `root` is mounted at `top`."""
    with suppress(ValueError):
        return top / Path(path).relative_to(root)
    return top


def _offered(top: Path) -> frozenset[str]:
    with suppress(OSError):
        return frozenset((top / "cgroup.controllers").read_text().split()) & set(_CONTROLLERS)
    return frozenset()


def make(mark: str, limits: Limits) -> Group | None:
    """A group of this mark with as many of these limits as can be had; None where none can be made."""
    folders: list[Path] = []
    held: dict[str, str] = {}
    had: set[str] = set()
    for tree in sorted(trees(), key=lambda tree: tree.version):
        missing = tree.controllers - had
        if tree.version == 1 and not missing:
            continue
        folder = _made(tree, _name(mark), missing)
        if folder is not None:
            folders.append(folder)
            had |= missing
            held |= dict(_limited(folder, limits, tree.version))
    return Group(folders=tuple(folders), held=held) if folders else None


def join(mark: str, limits: Limits, pid: int) -> Group | None:
    """A group as `make` gives it, with this process in it; None where none can be made, or none can be joined."""
    group = make(mark, limits)
    if group is None:
        return None
    try:
        group.add(pid)
    except OSError:  # an ordinary user may make a group, and yet not move a process there from where it is
        group.remove()
        return None
    return group


def find(mark: str) -> Group | None:
    """The group of this mark that was left behind; None where there is none."""
    folders = [place / _name(mark) for tree in trees() for place in tree.places() if (place / _name(mark)).is_dir()]
    return Group(folders=tuple(folders), held={}) if folders else None


def _name(mark: str) -> str:
    return f"opd-{mark}"


def _made(tree: Tree, name: str, wanted: frozenset[str]) -> Path | None:
    """A new folder where the wanted controllers are, else the first that could be made."""
    spare: Path | None = None
    for place in tree.places():
        folder = place / name
        try:
            folder.mkdir()
        except OSError:
            continue
        if all((folder / f"{controller}.max").exists() for controller in wanted) or tree.version == 1:
            if spare is not None:
                spare.rmdir()
            return folder
        if spare is None:
            spare = folder
        else:
            folder.rmdir()
    return spare


def _limited(folder: Path, limits: Limits, version: int) -> Iterator[tuple[str, str]]:
    """Sets the limits that this folder has files for; gives each with what holds it."""
    memory = {1: "memory.limit_in_bytes", 2: "memory.max"}[version]
    swap = {1: ("memory.memsw.limit_in_bytes", limits.memory_bytes), 2: ("memory.swap.max", 0)}[version]
    wanted = {"processes": ("pids.max", limits.processes), "memory_bytes": (memory, limits.memory_bytes)}
    for limit, (file, most) in wanted.items():
        if most is not None and (folder / file).exists():
            with suppress(OSError):
                (folder / file).write_text(str(most))
                yield limit, f"control group, {file}"
    if limits.memory_bytes is not None and (folder / swap[0]).exists():
        with suppress(OSError):
            (folder / swap[0]).write_text(str(swap[1]))


def _events(folder: Path) -> dict[str, int]:
    for name in ("memory.events", "memory.oom_control"):
        with suppress(OSError):
            lines = (line.split() for line in (folder / name).read_text().splitlines())
            return {words[0]: int(words[1]) for words in lines}
    return {}
