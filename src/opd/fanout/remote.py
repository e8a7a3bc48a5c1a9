"""What runs on a machine of the cluster: it says which install it has, tries the shared folder, and works.

It travels by value, and `install` with it, and imports nothing of `opd` by itself, so that a machine with another
install, or with none, can say so. The process that spreads the work asks itself the same questions, by the same code.
"""

import contextlib
import errno
import importlib
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opd.records.install import install

PROBE_BYTES = 1 << 20


class RemoteWorker:
    """One device of the cluster; its methods are called one after the other."""

    def __init__(self) -> None:
        self._work: Callable[[Any], Any] | None = None

    def introduce(self) -> dict[str, dict[str, str]]:
        """Where it is, and which install it would work with."""
        return {"place": place(), "install": install()}

    def try_folder(self, folder: str, name: str, content: bytes) -> str | None:
        """None when the folder is the shared one and takes a write; else what is wrong with it there."""
        return folder_fault(Path(folder), name=name, content=content)

    def begin(self, target: str, values: Any) -> None:
        """From now on `do` is what `module:function` of the install returns for these values."""
        module, _, name = target.partition(":")
        self._work = getattr(importlib.import_module(module), name)(values)

    def do(self, values: Any) -> Any:
        """What came of one piece of work, as JSON values."""
        assert self._work is not None, "it was begun"
        return self._work(values)


def place() -> dict[str, str]:
    """The machine and the process, and the device that it was given."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return {"host": socket.gethostname(), "process": str(os.getpid()), "gpus": gpus}


def folder_fault(folder: Path, *, name: str, content: bytes) -> str | None:
    """None when `folder/name` holds this content and a file of a mebibyte can be written, flushed and read beside it.

    Else why not, with the system's own name for it.
    """
    try:
        found = (folder / name).read_bytes()
    except FileNotFoundError:
        return "it is not there, or it is another folder: the file that was just put into it can't be seen"
    except OSError as error:
        return _said(error)
    if found != content:
        return "it is another folder: the file that was just put into it has another content"
    mine, random = (
        folder / f"{name[: name.rindex('.')]}-{secrets.token_hex(4)}.partial",
        secrets.token_bytes(PROBE_BYTES),
    )
    try:
        with mine.open("xb") as file:
            file.write(random)
            file.flush()
            os.fsync(file.fileno())
        return None if mine.read_bytes() == random else "what was written there is not what is read there"
    except OSError as error:
        return _said(error)
    finally:
        with contextlib.suppress(OSError):
            mine.unlink(missing_ok=True)


def _said(error: OSError) -> str:
    meanings = {
        errno.EROFS: "it is read-only there",
        errno.ENOSPC: "it is full",
        errno.EDQUOT: "its quota is used up",
        errno.EACCES: "it can't be written to there by this user",
        errno.ESTALE: "its server forgot it",
        errno.ENOTCONN: "its server is gone",
    }
    name = errno.errorcode.get(error.errno or 0, "")
    return f"{meanings.get(error.errno or 0, error.strerror)} ({name})"
