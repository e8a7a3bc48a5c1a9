"""Every command of the explorer's shells, written down on this side, with this side's clock.

A bash that starts in the sandbox reads BASH_ENV, which makes it report each command, as it begins, into a pipe: what
went into the pipe can't be taken back. A line of commands.jsonl is one command, with the exit code of the one before
it in the same shell. Programs that are started without a shell are seen by the look at all processes, each second.
A record that is full takes no more; its last line then says how many bytes came after it.
"""

import os
import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from opd.protocol.clock import now
from opd.protocol.threads import beside
from opd.records.files import note_lines

RECORD = "OPD_RECORD"  # the variable that says where the pipe is
_LONGEST_LINE = 1 << 16
LARGEST_BYTES = 64 << 20  # of commands.jsonl; an explorer that runs commands without end fills no disk

# One write is whole in the pipe up to 4,096 bytes (PIPE_BUF), so that lines of several shells don't mix.
BASH_ENV = r"""
if [ -p "${OPD_RECORD-}" ]; then
  __opd_say() {
    local last=$1 text=${2@Q}
    printf '%s\t%s\t%s\t%s\n' "$$" "$BASHPID" "$last" "${text:0:3600}" >"$OPD_RECORD"
  } 2>/dev/null
  set -o functrace
  trap '__opd_say "$?" "$BASH_COMMAND"' DEBUG
  trap '__opd_say "$?" exit' EXIT
fi
"""


class Record:
    """The pipe, and the file that its lines go to."""

    def __init__(self, pipe: Path, log: Path) -> None:
        self._log = log
        os.mkfifo(pipe)
        pipe.chmod(0o622)  # others write, and nobody but us reads
        self._descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # ours too, so that it never ends
        self._bytes = 0
        self._rest = b""
        self._lost_bytes = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, what comes is written down."""
        try:
            with beside(self._follow, name="record"):
                yield
        finally:
            os.close(self._descriptor)
            if self._lost_bytes:
                self._note({"lost_bytes": self._lost_bytes})

    def _follow(self, over: threading.Event) -> None:
        while True:
            last_look = over.is_set()
            while select.select([self._descriptor], [], [], 0 if last_look else 0.1)[0]:
                self._take(os.read(self._descriptor, 1 << 16))
            if last_look:
                return

    def _take(self, held: bytes) -> None:
        *lines, self._rest = (self._rest + held).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:  # no shell of ours writes one like it
            lines, self._rest = [*lines, self._rest], b""
        if self._bytes > LARGEST_BYTES:
            self._lost_bytes += len(held)
            return
        self._bytes += len(held)
        self._note(*map(_fields, lines))

    def _note(self, *said: Mapping[str, str | int]) -> None:
        at = now()
        note_lines(self._log, [{"at": at.utc, "monotonic": at.monotonic, **one} for one in said])


def _fields(line: bytes) -> dict[str, str | int]:
    """What a line says; one that a shell of ours didn't write is kept as it came."""
    text = line.decode("utf-8", "replace")
    cells = text.split("\t", 3)
    if len(cells) == 4 and all(cell.isdecimal() for cell in cells[:3]):
        shell, process, last, command = cells
        return {"shell": int(shell), "process": int(process), "last_exit": int(last), "command": _unquoted(command)}
    return {"as_it_came": text}


def _unquoted(text: str) -> str:
    """What bash quoted; what it had to write with escapes stays as it wrote it."""
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("'\\''", "'")
    return text
