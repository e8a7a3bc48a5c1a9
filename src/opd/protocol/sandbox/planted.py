"""Targets for the probes of a sandbox: real files, sockets and processes, put where a program should not reach them.

FOLDER/frozen/answers.txt     shown, read-only          a process with a secret in its environment
FOLDER/shown/final/word.txt   below a shown folder,     that takes note of a signal
                              hidden                    listeners for TCP, UDP, DNS, two kinds of socket
FOLDER/explore/word.txt       not shown                 a segment of shared memory
"""

import ctypes
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from opd.protocol.sandbox.inside.probing import device_numbers
from opd.protocol.threads import beside

_IPC_CREAT, _IPC_RMID = 0o1000, 0
_DEVICES = ("kmsg", "mem", "fuse", "kvm", "net/tun", "loop-control", "vda", "sda", "nvme0n1", "dm-0")
_SETTING = "/proc/sys/kernel/core_pattern"  # who may write it can have any program run as root
_VICTIM = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"s"))
os.write(1, b"r")
while True:
    signal.pause()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """The targets of one round."""

    folder: Path
    word: str  # a secret: in each file to read, in the victim's command line, and in its environment
    victim: "subprocess.Popen[bytes]"
    listeners: dict[str, socket.socket]
    key: int  # of the segment of shared memory; 0 where there is none
    device: str  # one that can be opened out here; empty where there is none

    @property
    def frozen(self) -> Path:
        """The folder that is shown and read-only."""
        return self.folder / "frozen"

    @property
    def shown(self) -> Path:
        """The folder that is shown, below which one is hidden."""
        return self.folder / "shown"

    @property
    def hidden(self) -> Path:
        """The hidden one."""
        return self.shown / "final"

    @property
    def other(self) -> Path:
        """The folder that isn't shown at all."""
        return self.folder / "explore"

    def targets(self, *, frozen: str, hidden: str, scratch: str) -> dict[str, str]:
        """What the probing program is told; three places lie where the rung puts them."""
        mode, number = device_numbers(self.device) if self.device else (0, 0)
        return {
            "word": self.word,
            "frozen": frozen,
            "hidden": hidden,
            "scratch": scratch,
            "other": str(self.other / "word.txt"),
            "victim": str(self.victim.pid),
            "tcp": str(self.listeners["tcp"].getsockname()[1]),
            "udp": str(self.listeners["udp"].getsockname()[1]),
            "dns": str(self.listeners["dns"].getsockname()[1]),
            "abstract": self.word,
            "socket": str(self.folder / "socket"),
            "key": str(self.key),
            "device": self.device,
            "device_mode": str(mode),
            "device_number": str(number),
            "setting": _SETTING,
        }

    def reached(self) -> set[str]:
        """Which of the listeners, and whether the victim, was reached since the last call, as they say themselves."""
        names = {name for name, listener in self.listeners.items() if name != "dns" and _was_reached(listener)}
        assert self.victim.stdout is not None, "asked for when it was started"
        if select.select([self.victim.stdout], [], [], 0.05)[0]:  # it says nothing but this
            os.read(self.victim.stdout.fileno(), 100)
            names.add("signals")
        return names


@contextmanager
def planted(folder: Path) -> Iterator[Planted]:
    """The targets, in a folder that exists; all but the files are gone afterwards."""
    word = f"OPD_PROBE_{secrets.token_hex(12)}"
    for place in ("frozen/answers.txt", "shown/final/word.txt", "shown/open.txt", "explore/word.txt"):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(word)
    with ExitStack() as stack:
        victim = stack.enter_context(_victim(word))
        listeners = {name: stack.enter_context(listener) for name, listener in _listeners(folder, word).items()}
        stack.enter_context(_answering(listeners["dns"]))
        key = stack.enter_context(_segment())
        yield Planted(folder=folder, word=word, victim=victim, listeners=listeners, key=key, device=_device())


@contextmanager
def _victim(word: str) -> Iterator["subprocess.Popen[bytes]"]:
    victim = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _VICTIM, word],
        env={word: word},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert victim.stdout is not None, "asked for above"
    try:
        victim.stdout.read(1)  # it listens
        yield victim
    finally:
        victim.kill()
        victim.wait()
        victim.stdout.close()


def _listeners(folder: Path, word: str) -> dict[str, socket.socket]:
    tcp = socket.create_server(("127.0.0.1", 0))
    udp, dns = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for datagrams in (udp, dns):
        datagrams.bind(("127.0.0.1", 0))
    abstract, path = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    abstract.bind("\0" + word)
    path.bind(str(folder / "socket"))
    for listener in (abstract, path):
        listener.listen()
    return {"tcp": tcp, "udp": udp, "dns": dns, "abstract_sockets": abstract, "path_sockets": path}


def _was_reached(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(100)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@contextmanager
def _answering(listener: socket.socket) -> Iterator[None]:
    """A name server that knows no name, which is an answer too."""

    def answer(over: threading.Event) -> None:
        while not over.is_set():
            if select.select([listener], [], [], 0.05)[0]:
                question, asker = listener.recvfrom(512)
                listener.sendto(question[:2] + b"\x81\x83" + question[4:], asker)

    with beside(answer, name="names"):
        yield


@contextmanager
def _segment() -> Iterator[int]:
    """The key of a segment of System V memory; 0 where the machine has none to give."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbelow(1 << 30) + 1
    segment = libc.shmget(key, ctypes.c_size_t(4096), _IPC_CREAT | 0o600)
    try:
        yield key if segment >= 0 else 0
    finally:
        if segment >= 0:
            libc.shmctl(segment, _IPC_RMID, None)


def _device() -> str:
    for name in _DEVICES:
        place = f"/dev/{name}"
        with suppress(OSError):
            os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK))
            return place
    return ""
