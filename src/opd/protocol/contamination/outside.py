"""The process that opens what needs a library, seen from here: asked file by file, ended when it takes too much.

It may die, hang or flood: each is a reason why one file is unread, and the next file gets a new process.
"""

import json
import struct
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_PROGRAM = Path(__file__).with_name("reader.py")
_LARGEST_NAME = 1 << 10


class Broken(Exception):  # what it says, not that somebody erred
    """A file that can't be read on, with a sentence why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a file wraps."""

    name: str  # a number of ours, never a stranger's text
    data: bytes


class Reader:
    """The process, started when it is first asked."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds  # that one file may take
        self._process: subprocess.Popen[bytes] | None = None

    def members(self, kind: str, path: Path, *, room: int) -> Iterator[Member]:
        """What a file wraps, `room` bytes of it at most; `Broken` where it can't be read on."""
        process = self._started()
        timer = threading.Timer(self._seconds, process.kill)
        timer.start()
        whole = False
        try:
            assert process.stdin, "it was started with pipes"
            assert process.stdout, "it was started with pipes"
            process.stdin.write(json.dumps({"kind": kind, "path": str(path)}).encode() + b"\n")
            process.stdin.flush()
            said = yield from _answers(process.stdout, room)
            whole = True
            if said is not None:
                raise Broken(said)
        except (EOFError, BrokenPipeError):
            raise Broken(f"its reader died, or took more than {self._seconds:g} seconds") from None
        finally:
            timer.cancel()
            if not whole:
                self.end()

    def end(self) -> None:
        """The process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
            )
        return self._process


def _answers(out: IO[bytes], room: int) -> Generator[Member, None, str | None]:
    """The members of one file; gives back why there are no more of them, where that is not the file's end."""
    said = None
    while (kind := _exactly(out, 1)) != b".":
        if kind == b"E":
            said = _exactly(out, struct.unpack("<I", _exactly(out, 4))[0]).decode("utf-8", "replace")
            continue
        name, size = struct.unpack("<IQ", _exactly(out, 12))
        room -= size
        if room < 0 or name > _LARGEST_NAME:
            raise Broken("it grows beyond what is opened")
        yield Member(name=_exactly(out, name).decode(), data=_exactly(out, size))
    return said


def _exactly(out: IO[bytes], size: int) -> bytes:
    data = out.read(size)
    if len(data) < size:
        raise EOFError
    return data
