"""The first process of a sandbox, seen from outside: started, told its orders, listened to, and ended."""

import json
import signal
import socket
import struct
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from opd.protocol.sandbox.launch import Launch
from opd.protocol.supervision import processes
from opd.protocol.supervision.output import Stream
from opd.protocol.supervision.processes import Life

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_CHUNK_BYTES = 1 << 16
_SCM_CREDENTIALS = 2
_START_SECONDS = 30.0  # far more than it takes on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How the program itself ended."""

    exit_code: int | None
    signal: str | None
    cpu_seconds: float
    rss_bytes: int


class NotStarted(Exception):
    """The sandbox, or the program in it, did not come to life; the message says what was heard of it."""


class First:
    """It, and the socket to it. Raises `NotStarted` when it does not answer."""

    def __init__(self, launch: Launch, *, out: Stream, err: Stream) -> None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket = ours
        self.status: Status | None = None
        self.used: dict[str, Any] | None = None  # by everything, once it is done
        self.unstarted: str | None = None
        self.gone = False
        self._received = b""
        try:
            self._popen = subprocess.Popen(
                [*launch.argv, str(theirs.fileno())],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=out.writing,
                stderr=err.writing,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for whoever supervises
            )
        except OSError as error:
            ours.close()
            raise NotStarted(f"{launch.argv[0]}: {error.strerror}") from error
        finally:
            theirs.close()
            out.started()
            err.started()
        self._life: Life | None = None
        self.pid = self._greeting()
        self._life = processes.find(self.pid)  # now, while the number is surely its own

    def _greeting(self) -> int:
        """Its process id as it is known out here: the kernel translates it."""
        self.socket.settimeout(_START_SECONDS)
        try:
            data, ancillary, _, _ = self.socket.recvmsg(_CHUNK_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
        except TimeoutError:
            data, ancillary = b"", []
        self.socket.settimeout(None)
        for level, kind, content in ancillary:
            if data and level == socket.SOL_SOCKET and kind == _SCM_CREDENTIALS:
                return int(_CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0])
        self.kill()
        self.close()
        raise NotStarted(f"the sandbox ended with status {self._popen.returncode} before it was ready")

    def give(self, orders: str) -> None:
        """It starts the program."""
        self._say(orders)

    def soften(self) -> None:
        """The program's process group gets SIGTERM."""
        self._say('"soft"')

    def finish(self) -> None:
        """It ends everything, says what was used, and ends itself."""
        self._say('"end"')

    def _say(self, line: str) -> None:
        with suppress(OSError):  # it is gone; whoever listens finds out
            self.socket.sendall(line.encode() + b"\n")

    def listen(self) -> None:
        """Takes note of what it has said; call it when the socket can be read."""
        try:
            chunk = self.socket.recv(_CHUNK_BYTES)
        except ConnectionError:
            chunk = b""
        self.gone = self.gone or not chunk
        *lines, self._received = (self._received + chunk).split(b"\n")
        for line in lines:
            self._heard(json.loads(line))

    def _heard(self, said: dict[str, Any]) -> None:
        if "unstarted" in said:
            self.unstarted = said["unstarted"]
        elif "done" in said:
            self.used = said["done"]
        elif "ended" in said:
            ended = said["ended"]
            self.status = Status(
                exit_code=ended["code"],
                signal=None if ended["signal"] is None else signal_name(ended["signal"]),
                cpu_seconds=ended["cpu_seconds"],
                rss_bytes=ended["rss_bytes"],
            )

    def others(self) -> tuple[int, ...]:
        """Everything below it, zombies too."""
        return processes.descendants(self.pid)

    def wait(self, seconds: float) -> bool:
        """Whether the sandbox has ended by then."""
        try:
            self._popen.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """The sandbox's own processes get SIGKILL; in a namespace that is the end of everything in it."""
        if self._life is not None:
            self._life.signal(signal.SIGKILL)
        self._popen.kill()
        self._popen.wait()

    def close(self) -> None:
        """The socket is closed, which would end whatever still listens."""
        self.socket.close()


def signal_name(number: int) -> str:
    """SIGKILL for 9; real-time signals have numbers for names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
