"""What a program would do that wants out of its sandbox, each once, against targets that were planted for it.

One line of JSON for each: {"name", "done", "said"}. Outside, as a control, the same actions have to succeed.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import kernel

_PATIENCE_SECONDS = 0.5
_BEAT_SECONDS = 0.03
_DNS_QUESTION = struct.pack("!6H", 0x0D0D, 0x0100, 1, 0, 0, 0) + b"\3opd\7invalid\0" + struct.pack("!2H", 1, 1)

Targets = dict[str, str]


def main(words: list[str]) -> None:
    """Tries all that the file named by the last word has targets for."""
    targets = json.loads(Path(words[-1]).read_text())
    if "beat" in targets:
        leave_a_daemon(targets["beat"])
        return
    for name, action in ACTIONS.items():
        try:
            said, done = action(targets), True
        except OSError as error:
            said, done = str(error), False
        sys.stdout.write(json.dumps({"name": name, "done": done, "said": said}) + "\n")
        sys.stdout.flush()


def _change_frozen(targets: Targets) -> str:
    """Whichever works first of the ways to change a file."""
    place = Path(targets["frozen"])
    ways: dict[str, Callable[[], object]] = {
        "written": lambda: os.close(os.open(place, os.O_WRONLY | os.O_APPEND)),
        "truncated": lambda: os.truncate(place, 0),
        "made beside it": lambda: place.with_name("made").touch(),
        "renamed": lambda: place.rename(place.with_name("renamed")),
        "removed": place.unlink,
    }
    return _first_of(ways)


def _change_modes(targets: Targets) -> str:
    Path(targets["frozen"]).chmod(0o777)
    return "its permissions were changed"


def _read_hidden(targets: Targets) -> str:
    return _read(targets["hidden"], targets["word"])


def _read_other(targets: Targets) -> str:
    return _read(targets["other"], targets["word"])


def _read(path: str, word: str) -> str:
    if Path(path).read_text() != word:
        raise OSError("another file was read")
    return "it was read"


def _tcp(targets: Targets) -> str:
    with socket.create_connection(("127.0.0.1", int(targets["tcp"])), timeout=_PATIENCE_SECONDS):
        return "connected"


def _udp(targets: Targets) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", int(targets["udp"])))
        sender.send(b"?")
        with contextlib.suppress(TimeoutError):  # an answer would be more than was asked for; a refusal is an error
            sender.settimeout(_PATIENCE_SECONDS / 10)
            sender.recv(1)
        return "sent"


def _dns(targets: Targets) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(_PATIENCE_SECONDS)
        sender.connect(("127.0.0.1", int(targets["dns"])))
        sender.send(_DNS_QUESTION)
        answer = sender.recv(512)
    if answer[:2] != _DNS_QUESTION[:2]:
        raise OSError("answered to another question")
    return f"a name was looked up: {len(answer)} bytes"


def _abstract_socket(targets: Targets) -> str:
    return _unix("\0" + targets["abstract"])


def _path_socket(targets: Targets) -> str:
    return _unix(targets["socket"])


def _unix(address: str) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_PATIENCE_SECONDS)
        client.connect(address)
    return "connected"


def _signal(targets: Targets) -> str:
    if int(targets["victim"]) == os.getpid():
        raise ProcessLookupError("the number is this process's own")
    os.kill(int(targets["victim"]), signal.SIGUSR1)
    return "a signal was sent"


def _see_processes(targets: Targets) -> str:
    return _found_in("cmdline", targets["word"])


def _read_environment(targets: Targets) -> str:
    return _found_in("environ", targets["word"])


def _found_in(file: str, word: str) -> str:
    """Some other process has the word in this file of /proc."""
    refused: OSError | None = None
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                if word.encode() in (process / file).read_bytes():
                    return f"seen in /proc/{process.name}/{file}"
            except OSError as error:
                refused = error
    raise refused or FileNotFoundError(f"no process has the word in its {file}")


def _shared_memory(targets: Targets) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(int(targets["key"]), ctypes.c_size_t(0), 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "a segment of another's was found"


def _open_device(targets: Targets) -> str:
    device, node = targets["device"], Path(targets["scratch"]) / "node"

    def make() -> None:
        os.mknod(node, int(targets["device_mode"]), int(targets["device_number"]))
        os.close(os.open(node, os.O_RDONLY | os.O_NONBLOCK))

    if not device:
        raise FileNotFoundError("there is no device that could be tried")
    return _first_of({"opened": lambda: os.close(os.open(device, os.O_RDONLY | os.O_NONBLOCK)), "made anew": make})


def _kernel_settings(targets: Targets) -> str:
    os.close(os.open(targets["setting"], os.O_WRONLY))  # opening says it; nothing is written
    return "opened for writing"


def _capabilities(targets: Targets) -> str:  # noqa: ARG001
    """Held already, or in a user namespace of its own."""
    if (held := _effective()) != 0:
        return f"held: {held:#x}"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kernel.unshare(kernel.CLONE_NEWUSER)
            os.write(writing, f"gained: {_effective():#x}".encode())
        except OSError as error:
            os.write(writing, f"!{error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    said = os.read(reading, 1000).decode()
    os.close(reading)
    if said.startswith("!"):
        raise PermissionError(said[1:])
    return said


def _effective() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1], 16)


def _first_of(ways: dict[str, Callable[[], object]]) -> str:
    """The first way that works; when none does, the error of the first."""
    refused: OSError | None = None
    for said, way in ways.items():
        try:
            way()
        except OSError as error:
            refused = refused or error
        else:
            return f"it was {said}"
    assert refused is not None, "there are ways"
    raise refused


def leave_a_daemon(beat: str) -> None:
    """Returns when a process that has left its parent, its session and its name beats in this file, for ever."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        for descriptor in range(3):
            os.close(descriptor)
        while True:
            with Path(beat).open("a") as file:
                file.write(f"{os.getpid()}\n")
            time.sleep(_BEAT_SECONDS)
    os.wait()
    while not Path(beat).exists() or Path(beat).stat().st_size == 0:
        time.sleep(_BEAT_SECONDS)


ACTIONS: dict[str, Callable[[Targets], str]] = {
    "frozen_modes": _change_modes,
    "frozen_files": _change_frozen,
    "hidden_folders": _read_hidden,
    "other_folders": _read_other,
    "tcp": _tcp,
    "udp": _udp,
    "dns": _dns,
    "abstract_sockets": _abstract_socket,
    "path_sockets": _path_socket,
    "signals": _signal,
    "host_processes": _see_processes,
    "environment": _read_environment,
    "shared_memory": _shared_memory,
    "devices": _open_device,
    "kernel_settings": _kernel_settings,
    "capabilities": _capabilities,
}


def device_numbers(path: str) -> tuple[int, int]:
    """The mode and the number that a device is made with."""
    status = os.stat(path)  # noqa: PTH116
    return stat.S_IFMT(status.st_mode) | 0o600, status.st_rdev
