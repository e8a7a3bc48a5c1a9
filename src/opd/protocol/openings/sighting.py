"""What both ways of looking give: one opening of one file by the tree."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A file that was opened, maybe several times."""

    path: str  # as the program's own mounts name it
    device: int | None  # with the inode, which file it really is, whatever it is called; None: not known
    inode: int | None
    executed: bool
    realtime: float  # seconds since 1970
    certain: bool  # False: a process opened it that ended before it could be told whether it belongs to the tree
    by: str  # the program's name, for people; "" where it was gone already
