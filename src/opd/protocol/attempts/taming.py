"""A folder that a stranger filled, made fit to be sealed: all of it can be read, and no path is too long to be named.

Permissions that keep the owner out are widened, and what lies deeper or longer than a path can name is removed. Both
are done from the outside in, folder by folder, never through a link.
"""

import os
import stat
import subprocess
from pathlib import Path

from opd.records.trees import written

DEEPEST = 64  # folders in folders
LONGEST_BYTES = 2_000  # of a path below the folder; the system takes 4,096 for a whole one
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def tame(folder: Path) -> tuple[str, ...]:
    """The relative paths that were removed, with all below them; the rest can be read."""
    removed: list[str] = []
    due = [Path()]
    while due:
        inside = due.pop()
        descriptor = _opened(folder / inside)
        try:
            for name in sorted(os.listdir(descriptor)):  # noqa: PTH208  of the open folder
                path = inside / name
                if len(path.parts) > DEEPEST or len(os.fsencode(path)) > LONGEST_BYTES:
                    _remove(name, descriptor)
                    removed.append(written(path))
                elif _made_readable(name, descriptor):
                    due.append(path)
        finally:
            os.close(descriptor)
    return tuple(removed)


def _opened(folder: Path) -> int:
    return os.open(folder, _FOLDER)


def _made_readable(name: str, descriptor: int) -> bool:
    """Whether it is a folder; the owner can read it now, be it a folder or a file."""
    mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
    wanted = {stat.S_IFDIR: 0o700, stat.S_IFREG: 0o400}.get(stat.S_IFMT(mode), 0)
    if wanted & ~mode:
        os.chmod(name, stat.S_IMODE(mode) | wanted, dir_fd=descriptor)
    return stat.S_ISDIR(mode)


def _remove(name: str, descriptor: int) -> None:
    """Gone, however deep: `rm` goes down step by step, where a path as a whole would be too long."""
    subprocess.run(
        ["/bin/rm", "-rf", "--", name], cwd=f"/proc/self/fd/{descriptor}", pass_fds=[descriptor], check=True
    )
