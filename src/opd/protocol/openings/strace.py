"""Openings by strace, where the kernel gives no notices: it stops the program at every call that opens a file.

It costs a few hundredths of a millisecond for each opening, and starting a process some milliseconds; calls that open
nothing are not stopped at. What is seen is the name by which the kernel knows the opened descriptor.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from opd.protocol.openings.sighting import Sighting

PROGRAM = "strace"
_CALLS = "open,openat,openat2,creat,execve,execveat"
_TRIAL_SECONDS = 10
# PID SECONDS.MICRO call(…) = 3</the/path>       and for execve: PID SECONDS.MICRO execve("/the/path", …) = 0
_OPENED = re.compile(rb"^(\d+) +(\d+\.\d+) (?:open|openat|openat2|creat)\(.*\) += \d+<(.*)>(?:\(deleted\))?$")
_EXECUTED = re.compile(rb'^(\d+) +(\d+\.\d+) execve(?:at)?\((?:[^"]*, )?"((?:[^"\\]|\\.)*)".*\) += 0$')
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|[0-7]{1,3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}


def lacks() -> str | None:
    """Why it can't be used here; None: it can, tried by tracing a program."""
    program = shutil.which(PROGRAM)
    if program is None:
        return "strace is not installed"
    command = [*wrapped(["true"], Path("/dev/null"))]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TRIAL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"strace did not trace `true` in {_TRIAL_SECONDS} s"
    said = ended.stderr.strip().splitlines()
    return None if ended.returncode == 0 else f"strace: {said[0] if said else f'exit code {ended.returncode}'}"


def wrapped(argv: Sequence[str], log: Path) -> list[str]:
    """The command that runs this one and writes its openings to `log`."""
    return [
        shutil.which(PROGRAM) or PROGRAM, "-f", "--seccomp-bpf", "-qqq", "-ttt", "-y", "-s", "4096",
        "-e", f"trace={_CALLS}", "-e", "status=successful", "-e", "signal=none", "-o", str(log), "--", *argv,
    ]  # fmt: skip


def sightings(log: Path) -> Iterator[Sighting | None]:
    """What the log holds, in order; None for a line that isn't understood."""
    with log.open("rb") as file:
        for line in file:
            yield _sighting(line.rstrip(b"\n"))


def _sighting(line: bytes) -> Sighting | None:
    found = _OPENED.match(line) or _EXECUTED.match(line)
    if found is None:
        return None
    executed = found.re is _EXECUTED
    return Sighting(
        path=_ESCAPE.sub(_unescaped, found[3]).decode("utf-8", "surrogateescape"),
        device=None,
        inode=None,
        executed=executed,
        realtime=float(found[2]),
        certain=True,
        by="",
    )


def _unescaped(found: re.Match[bytes]) -> bytes:
    text = found[1]
    if text[:1].isdigit():
        return bytes([int(text, 8)])
    if text[:1] == b"x" and len(text) == 3:
        return bytes([int(text[1:], 16)])
    return _LETTERS.get(text, text)
