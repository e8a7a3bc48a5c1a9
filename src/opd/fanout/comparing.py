"""Is a machine of the cluster fit to work with us: the same install, and the same folder? Asked before any work."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes, token_hex

from opd.fanout.remote import folder_fault
from opd.records.errors import AnswerIsNo
from opd.records.files import PARTIAL


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFolder:
    """A folder that every machine has to see under the same name, and a file by which it is known."""

    path: Path
    name: str  # of the file, which ends as one that is being written: nobody reads it
    content: bytes

    def refuse(self, fault: str | None, *, where: str) -> None:
        """Nothing without a fault; else `AnswerIsNo` that names folder and machine."""
        if fault is not None:
            raise AnswerIsNo(
                f"{self.path} can't be used {where}: {fault}. No work was given out; mount the same folder, writable "
                "and with space, at the same place on every machine"
            )


@contextmanager
def shared(folder: Path) -> Iterator[SharedFolder]:
    """Inside, the file by which others know the folder is in it; raises `AnswerIsNo` when it can't be used here."""
    folder = folder.absolute()
    known = SharedFolder(path=folder, name=f".shared-{token_hex(8)}{PARTIAL}", content=token_bytes(32))
    mark = folder / known.name
    try:
        try:
            mark.write_bytes(known.content)
        except OSError as error:
            known.refuse(str(error.strerror), where="here")
        known.refuse(folder_fault(folder, name=known.name, content=known.content), where="here")
        yield known
    finally:
        with suppress(OSError):  # the folder may be gone by now
            mark.unlink(missing_ok=True)


def refuse_other_install(there: Mapping[str, str], here: Mapping[str, str], *, where: str) -> None:
    """Nothing, when a machine would work with what this process has; else `AnswerIsNo` with both versions."""
    differ = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    if differ:
        both = ", ".join(
            f"{name} {there.get(name, 'none')} there and {here.get(name, 'none')} here" for name in differ
        )
        raise AnswerIsNo(
            f"{where} has another install: {both}. It was given no work; install the same on every machine, for "
            "another one may draw other tokens"
        )
