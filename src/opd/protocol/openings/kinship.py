"""Which processes belong to the tree: kept for the dead as well, whose notices are read after their end.

orchestrator (this process) → launcher → … → the program (it bears the mark) → its children, and theirs

Who bears the mark belongs to the tree, with all its descendants, also those that wiped the mark from their
environment. So does all else below the child of this process that one of them descends from: the launcher. What this
process starts besides doesn't. Who wiped the mark and had lost its parents before it was first seen can't be told.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from opd.protocol.supervision.processes import MARK

_PROC = Path("/proc")
_OWN_NAMESPACE = "ns/mnt"
_NO_FILES = frozenset(
    {"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
     "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs",
     "tracefs"}
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Kin:
    """A process, as it was when it was first seen."""

    pid: int
    start_ticks: int
    parent: "Kin | None"
    name: str
    was_looked_at: bool = False

    def lineage(self) -> list["Kin"]:
        """The process, its parent, and so on up."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found


class Kinship:
    """All that is known of processes, asked by number."""

    def __init__(self, mark: str) -> None:
        self._sought = f"{MARK}={mark}".encode()
        self._known: dict[int, Kin] = {}
        self._marked: set[Kin] = set()
        self.root: Kin | None = None
        self.mounts: dict[int, str] = {}  # of the tree, by number, where it has mounts of its own: where they are

    def of(self, pid: int) -> Kin | None:
        """The process of this number: as it is now, or as it was last seen; None for one that was never seen."""
        read = _stat(pid)
        known = self._known.get(pid)
        if read is None or (known and known.start_ticks == read[1]):
            return known
        parent_pid, start_ticks, name = read
        parent = self.of(parent_pid) if parent_pid > 1 else None
        kin = Kin(pid=pid, start_ticks=start_ticks, parent=parent, name=name)
        self._known[pid] = kin
        return kin

    def belongs(self, kin: Kin, *, executes: bool = False) -> bool | None:
        """Whether it is in the tree; None where that can't be told: before the root is known, and of some orphans.

        Its environment is looked at when it is new, and when it `executes` a program, which gives it another one.
        """
        lineage = kin.lineage()
        if kin not in self._marked and (executes or not kin.was_looked_at):
            kin.was_looked_at = not executes  # the notice may be there before the new environment is: look once more
            if self._bears_mark(kin.pid):
                self._take_in(kin, lineage)
        if not self._marked.isdisjoint(lineage) or self.root in lineage:
            return True
        return None if self._may_belong(lineage) else False

    def _may_belong(self, lineage: list[Kin]) -> bool:
        """Of one that is not known to belong. Who loses its parents goes to an ancestor of this process, or to 1."""
        if self.root is None:
            return any(one.pid == os.getpid() for one in lineage)
        this = self.of(os.getpid())
        first_older = next((one for one in lineage if one.start_ticks < self.root.start_ticks), None)
        return first_older is None or (this is not None and first_older in this.lineage()[1:])

    def _take_in(self, kin: Kin, lineage: list[Kin]) -> None:
        self._marked.add(kin)
        self._learn_mounts(kin.pid)
        if self.root is None:
            self.root = next((one for one in lineage if one.parent and one.parent.pid == os.getpid()), None)

    def _bears_mark(self, pid: int) -> bool:
        try:
            return self._sought in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def _learn_mounts(self, pid: int) -> None:
        try:
            if (_PROC / str(pid) / _OWN_NAMESPACE).readlink() != (_PROC / "self" / _OWN_NAMESPACE).readlink():
                self.mounts |= mounts_with_files(str(pid))
        except OSError:
            pass  # it has ended; the next one with the mark has the same


def mounts_with_files(process: str) -> dict[int, str]:
    """Where a process has file systems mounted that hold files, by the mounts' numbers; `process` may be `self`."""
    found = {}
    for line in (_PROC / process / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        number, _, _, _, point = before.split(" ")[:5]
        if after.split(" ", 1)[0] not in _NO_FILES:
            found[int(number)] = _unescaped(point)
    return found


def _unescaped(point: str) -> str:
    """A mount point as it is: a blank in it stands as its octal number."""
    return point.encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")


def _stat(pid: int) -> tuple[int, int, str] | None:
    """Parent, start in clock ticks, and name; a zombie's too."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return int(fields[1]), int(fields[19]), name
