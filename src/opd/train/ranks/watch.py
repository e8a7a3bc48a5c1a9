"""Whether the other ranks are there: a heartbeat, the neighbour's heartbeat, and one note on how the run ended.

    store    place/3 = "boot, namespace, process"    beat/3 = 17    left/3 = 1    ended = "rank 2 (…) is gone"

Each rank beats once a second, from a thread, and looks after the next one: so a thousand ranks ask the store a
thousand times a second, and not a million. The first to find its neighbour silent, or to break itself, writes the
note, and every rank reads it while it waits for the others.
"""

import os
import socket
import threading
import time
from pathlib import Path

from torch.distributed.distributed_c10d import Store

BEAT_SECONDS = 1.0
LOST_AFTER_SECONDS = 120.0  # a rank may be busy elsewhere for long: compiling, or hashing on a slow disk
_LOOK_SECONDS = 0.5  # between two questions to the store, of a rank that waits
_PATIENCE_SECONDS = 3.0  # for the note, once a connection was closed
_FAREWELL_SECONDS = 5.0  # for the others to read the note, before the store goes
_NOTE = "ended"
_STORE_GONE = (
    "the store that keeps the ranks together is gone, and with it the process that held it: rank 0, or torchrun"
)


class Watch:
    """Keeps a rank's heartbeat going from `start` to `leave`, and looks after its neighbour."""

    def __init__(
        self, store: Store, *, rank: int, count: int, lost_after_seconds: float = LOST_AFTER_SECONDS
    ) -> None:
        self._store = store  # this thread's; the beating one has a connection of its own
        self._beating = store.clone()  # type: ignore[attr-defined]  # the stub lacks it
        self._rank = rank
        self._count = count
        self._next = (rank + 1) % count
        self._lost_after_seconds = lost_after_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._looked = 0.0

    def start(self) -> None:
        """This rank is there, from now on."""
        self._store.set(f"place/{self._rank}", _place())
        self._store.set(f"beat/{self._rank}", "0")
        self._thread.start()

    def note(self, why: str) -> None:
        """The run ends, for this reason; a reason that was given before stands."""
        try:
            self._store.compare_set(_NOTE, "", why)
        except RuntimeError:  # nobody is left to be told
            return

    def leave(self) -> None:
        """This rank is at its end, and will not be missed."""
        self._over.set()
        self._thread.join()
        try:
            self._store.set(f"left/{self._rank}", "1")
        except RuntimeError:  # nobody is left to miss it
            return

    def see_off(self) -> None:
        """The others have left as well, or had their time: for the process that holds the store, once it has left."""
        keys = [f"left/{rank}" for rank in range(self._count)]
        deadline = time.monotonic() + _FAREWELL_SECONDS
        while time.monotonic() < deadline:
            if all(self._store.check([key]) for key in keys):
                return
            time.sleep(_LOOK_SECONDS / 5)

    def first_has_left(self) -> bool:
        """Whether rank 0 has ended by itself, after some time to do so: then it says why the run ends."""
        deadline = time.monotonic() + _FAREWELL_SECONDS
        try:
            while not (left := self._store.check(["left/0"])) and time.monotonic() < deadline:
                time.sleep(_LOOK_SECONDS / 5)
        except RuntimeError:  # the store has gone, and maybe rank 0 without a word
            return False
        return bool(left)

    def ended(self) -> str | None:
        """Why the run ends; None when it goes on, as far as is known. The store is asked twice a second at most."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return None
        self._looked = time.monotonic()
        return self._read_note()

    def ended_by_now(self) -> str | None:
        """Why the run ends, after some time to find out; None where nobody says it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (why := self._read_note()) is None and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS / 5)
        return why

    def _read_note(self) -> str | None:
        try:
            return self._store.get(_NOTE).decode() if self._store.check([_NOTE]) else None
        except RuntimeError:
            return _STORE_GONE

    def _beat(self) -> None:
        beats, heard, since = 0, b"", time.monotonic()
        while not self._over.wait(BEAT_SECONDS):
            beats += 1
            try:
                self._beating.set(f"beat/{self._rank}", str(beats))
                now = self._heartbeat_of_next()
                if now != heard:
                    heard, since = now, time.monotonic()
                if why := self._fault_of_next(silent_seconds=time.monotonic() - since):
                    self._beating.compare_set(_NOTE, "", why)
                    return
            except RuntimeError:  # the store has gone; whoever waits finds that out
                return

    def _heartbeat_of_next(self) -> bytes:
        key = f"beat/{self._next}"
        return self._beating.get(key) if self._beating.check([key]) else b""

    def _fault_of_next(self, *, silent_seconds: float) -> str | None:
        if self._beating.check([f"left/{self._next}"]):
            return None
        key = f"place/{self._next}"
        where, _, process = (self._beating.get(key).decode() if self._beating.check([key]) else "").rpartition(" ")
        if where == _place().rpartition(" ")[0] and not _runs(int(process)):
            return (
                f"rank {self._next} is gone: its process {process} on {socket.gethostname()} has ended without a word"
            )
        if silent_seconds > self._lost_after_seconds:
            return f"rank {self._next} is lost: nothing was heard of it for {silent_seconds:.0f} s"
        return None


def _place() -> str:
    """The system and its namespace of processes, and the process there: where these agree, its number means it."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        return f"{boot.read_text().strip()} {Path('/proc/self/ns/pid').readlink()} {os.getpid()}"
    except OSError:  # not on Linux: heartbeats alone tell
        return f"{socket.gethostname()}/{os.getpid()} {os.getpid()}"


def _runs(process: int) -> bool:
    """Whether the process of this number runs; a zombie, which nobody has waited for yet, doesn't."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}
