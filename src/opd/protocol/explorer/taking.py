"""A checkpoint of the explorer's, copied to where it can't change it any more, while it may be at work on it.

Every name is opened below the open folder that it stands in, never through a link: no name, however it is swapped
meanwhile, leads out of the explorer's own folders.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from opd.protocol.checkpoints.strangers import Folder, Strange, opened
from opd.records.errors import AnswerIsNo

MOST_FILES = 1000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def take_over(root: Path, inside: PurePosixPath, target: Path, *, largest_bytes: int) -> None:
    """The new folder `target` holds the files of the folder `inside` of `root`.

    Raises `AnswerIsNo` for a folder that isn't there, that holds anything but files, or more than so many bytes.
    """
    try:
        with opened(root) as top, below(top, inside) as folder:
            _copy(folder, target, largest_bytes)
    except (Strange, FileNotFoundError) as error:
        shutil.rmtree(target, ignore_errors=True)
        says = error.says if isinstance(error, Strange) else "it is not there"
        raise AnswerIsNo(f"{inside} can't be taken as a checkpoint: {says}") from error


@contextmanager
def below(top: Folder, inside: PurePosixPath) -> Iterator[Folder]:
    """The folder that lies there, open; `FileNotFoundError` where a link or anything else stands in the way."""
    descriptor = os.dup(top.descriptor)
    try:
        for part in inside.parts:
            if part == "..":
                raise FileNotFoundError(part)
            try:
                deeper = os.open(part, _FOLDER, dir_fd=descriptor)
            except NotADirectoryError as error:  # a link is none either
                raise FileNotFoundError(part) from error
            os.close(descriptor)
            descriptor = deeper
        yield Folder(path=top.path / inside, descriptor=descriptor, follows=False)
    finally:
        os.close(descriptor)


def _copy(folder: Folder, target: Path, largest_bytes: int) -> None:
    target.mkdir()
    left = largest_bytes
    for name in folder.names(most=MOST_FILES):
        with folder.file(name) as source, (target / name).open("xb") as copy:
            left -= os.fstat(source).st_size
            if left < 0:
                raise AnswerIsNo(
                    f"{folder.path.name} holds more than {largest_bytes:,} bytes, the most that is taken"
                )
            with os.fdopen(os.dup(source), "rb") as reader:
                shutil.copyfileobj(reader, copy, 1 << 20)
