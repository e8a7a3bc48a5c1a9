"""What a program prints, kept within bounds: the head as it came, the tail as it is, and a note of what lies between.

first line …                    written once
[… 1,234,567 bytes left out …]  while nothing is left out, this line is missing
… last line                     written anew while more comes in
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

_TAIL_BYTES = 256 << 10  # small: it is written anew again and again
_PIPE_BYTES = (
    256 << 10
)  # of the pipe, which is read at most a hundred times a second: 25 MB/s, and then printing waits
_PIPE_FILLS = 8
_F_SETPIPE_SZ = 1031


class HeadAndTail:
    """A file that holds at most about `most_bytes` of what is written to it."""

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self._file = path.open("wb", buffering=0)
        self._tail_bytes = min(_TAIL_BYTES, most_bytes // 2)
        self._head_left = most_bytes - self._tail_bytes
        self._head_end = 0
        self._tail = bytearray()
        self._stale = False
        self.written_bytes = 0
        self.left_out_bytes = 0

    def write(self, data: bytes) -> None:
        """Takes it in; what belongs to the tail is in the file after the next `flush`."""
        self.written_bytes += len(data)
        head, rest = data[: self._head_left], data[self._head_left :]
        if head:
            self._file.write(head)
            self._head_left -= len(head)
            self._head_end += len(head)
        if rest:
            self._tail += rest
            surplus = max(0, len(self._tail) - self._tail_bytes)
            del self._tail[:surplus]
            self.left_out_bytes += surplus
            self._stale = True

    def flush(self) -> None:
        """The file is head, note and tail of what has been written so far."""
        if not self._stale:
            return
        note = f"\n[… {self.left_out_bytes:,} bytes left out …]\n".encode() if self.left_out_bytes else b""
        self._file.seek(self._head_end)
        self._file.write(note + self._tail)
        self._file.truncate()
        self._stale = False

    def last_line(self) -> str:
        """The last line that was written, as far as one could be; for a message."""
        self.flush()
        lines = Path(self._file.name).read_bytes().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "nothing was said")

    def close(self) -> None:
        """The file is on the disk."""
        self.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class Stream:
    """A pipe that a program writes to, and the file in which it ends up."""

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self.log = HeadAndTail(path, most_bytes=most_bytes)
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        with suppress(OSError):  # an ordinary user has a quota of pipes
            fcntl.fcntl(self.reading, _F_SETPIPE_SZ, _PIPE_BYTES)
        self.open = True

    def started(self) -> None:
        """The other end is the program's alone."""
        os.close(self.writing)
        self.writing = -1

    def pump(self) -> bool:
        """Takes in what is there, at most a pipe's fill; whether there was anything."""
        if not self.open:
            return False
        try:
            data = os.read(self.reading, _PIPE_BYTES)
        except BlockingIOError:
            return False
        self.log.write(data)
        self.open = bool(data)
        return self.open

    def drain(self) -> None:
        """What is still in the pipe is taken in; whoever still writes is not waited for."""
        for _ in range(_PIPE_FILLS):
            if not self.pump():
                break

    def close(self) -> None:
        """The file is closed, with all that was printed."""
        self.drain()
        if self.writing >= 0:
            os.close(self.writing)
        os.close(self.reading)
        self.log.close()
