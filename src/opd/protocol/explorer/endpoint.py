"""A model's endpoint for an explorer without a network: this one file stands in the sandbox and starts the harness.

    harness ──http──> 127.0.0.1:8377 ──this program──> a socket that the sandbox shows ──> whoever answers, outside

Who answers holds the key; nothing secret enters the sandbox. It needs nothing but Python's standard library, and
passes bytes on without looking at them. `endpoint.py SOCKET COMMAND…` ends as the command ends.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

PORT = 8377  # of the sandbox's own loopback, where nothing else listens
_CHUNK_BYTES = 1 << 16
_NOT_FOUND = 127
_SIGNALLED = 128  # and the signal's number, as shells say it


def main() -> int:
    """The exit code of the command, which reaches the socket at `PORT` while it lives."""
    if len(sys.argv) < 3:
        _say("SOCKET COMMAND…: run the command with the endpoint at 127.0.0.1")
        return 2
    place, command = sys.argv[1], sys.argv[2:]
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        threading.Thread(target=_serve, args=(listener, place), daemon=True).start()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # meant for the command, which may still ask its model to end
        try:
            code = subprocess.run(command, check=False, preexec_fn=_with_its_signals).returncode
        except OSError as error:
            _say(f"{command[0]}: {error.strerror}")
            return _NOT_FOUND
    return code if code >= 0 else _SIGNALLED - code


def _say(text: str) -> None:
    sys.stderr.write(f"endpoint.py: {text}\n")


def _with_its_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _serve(listener: socket.socket, place: str) -> None:
    with suppress(OSError):  # the listener closes with the command
        while True:
            asking, _ = listener.accept()
            threading.Thread(target=_connect, args=(asking, place), daemon=True).start()


def _connect(asking: socket.socket, place: str) -> None:
    """Passes on what both sides say until both have said all."""
    with asking, socket.socket(socket.AF_UNIX) as answering:
        try:
            answering.connect(os.path.abspath(place))  # noqa: PTH100 pathlib is half of this program's start
        except OSError as error:
            _say(f"nobody answers at {place} ({error})")
            return
        there = threading.Thread(target=_pass_on, args=(asking, answering), daemon=True)
        there.start()
        _pass_on(answering, asking)
        there.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # one side went away
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main())
