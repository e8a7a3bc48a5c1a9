"""The first process of a sandbox: starts the program, says how it ended, and ends whatever else is there.

Lines of JSON on the socket whose descriptor is its last argument:

    from it                                        to it
    {"ready": 1}                                   the orders
    {"unstarted": "…"}                             "soft": SIGTERM to the program's process group
    {"ended": {"code", "signal", …}}               "end": SIGKILL to everything
    {"done": {"cpu_seconds", "rss_bytes"}}         end of file: whoever asked is gone; the same as "end"

The program can't reach the socket: its descriptor is closed on exec, and nobody may look into this process. Where it
is process 1 of a namespace, no signal from inside reaches it, and its end is the end of all.
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path

from . import kernel, landlock, seccomp

_CHUNK_BYTES = 1 << 16
_BETWEEN_KILLS_SECONDS = 0.002
_CANT_START = 127
_AFTERWARDS_SECONDS = 60.0
_FIRST_VICTIM = "500"  # of 1000: when the machine runs out of memory, it takes this before what supervises it
_ALONE = 1  # the process id of a namespace's first process


class Channel:
    """Lines to and from whoever supervises."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self.socket = socket.socket(fileno=descriptor)
        self._received = b""

    def say(self, **values: object) -> None:
        """One line; nothing when nobody listens any more."""
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(values).encode() + b"\n")

    def next_line(self) -> object:
        """The next line's value, waited for; None at the end of file."""
        while b"\n" not in self._received:
            if not self._receive():
                return None
        line, self._received = self._received.split(b"\n", 1)
        return json.loads(line)

    def lines(self) -> list[object]:
        """What can be read now, which must be something; None stands for the end of file."""
        open_still = self._receive()
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines] + ([] if open_still else [None])

    def _receive(self) -> bool:
        try:
            chunk = self.socket.recv(_CHUNK_BYTES)
        except ConnectionError:
            chunk = b""
        self._received += chunk
        return bool(chunk)


def main(words: list[str]) -> None:
    """Serves one program, and returns when nothing is left of it."""
    kernel.keep_out_others()
    channel = Channel(int(words[-1]))
    wakes = _wake_for_children()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # for the program's group, or the terminal's; the socket says when
    if os.getpid() != _ALONE:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # what detaches itself becomes a child of this process
    channel.say(ready=os.getpid())
    orders = channel.next_line()
    if not isinstance(orders, dict):
        return
    program = _start(orders, channel)
    _serve(program, channel, wakes)
    _end_all()
    if orders["afterwards"]:
        _run_afterwards(orders["afterwards"], orders["environment"])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    channel.say(done={"cpu_seconds": used.ru_utime + used.ru_stime, "rss_bytes": used.ru_maxrss * 1024})


def _wake_for_children() -> int:
    """A descriptor that can be read from when a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def _serve(program: int, channel: Channel, wakes: int) -> None:
    """Passes on what is asked and what happens, until the end is asked for."""
    poll = select.poll()
    poll.register(channel.socket, select.POLLIN)
    poll.register(wakes, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if wakes in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wakes, _CHUNK_BYTES)
            _reap(program, channel)
        if channel.socket.fileno() in ready:
            for line in channel.lines():
                if line == "soft":
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(program, signal.SIGTERM)
                else:
                    return


def _reap(program: int, channel: Channel | None) -> bool:
    """Takes in what has ended; whether any child is left."""
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == program and channel is not None:
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            channel.say(
                ended={
                    "code": os.WEXITSTATUS(status) if number is None else None,
                    "signal": number,
                    "cpu_seconds": used.ru_utime + used.ru_stime,
                    "rss_bytes": used.ru_maxrss * 1024,
                }
            )


def _end_all() -> None:
    """Kills everything below this process, until there is nothing."""
    while True:
        if os.getpid() == _ALONE:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # everything in this namespace but this process
        else:
            for pid in _descendants(os.getpid()):
                _kill(pid)
        if not _reap(0, None):
            return
        time.sleep(_BETWEEN_KILLS_SECONDS)


def _kill(pid: int) -> None:
    """It gets SIGKILL. Until it does, what was seen once starts nothing more, unless it is root's."""
    with contextlib.suppress(OSError):
        resource.prlimit(pid, resource.RLIMIT_NPROC, (0, 0))
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    due = [pid]
    while due:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{due.pop()}/task").iterdir():
                with contextlib.suppress(OSError):
                    children = [int(child) for child in (thread / "children").read_text().split()]
                    due += children
                    found += children
    return found


def _run_afterwards(argv: list[str], environment: dict[str, str]) -> None:
    import subprocess  # as long to import as all the rest, and seldom needed

    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_AFTERWARDS_SECONDS,
            check=False,
        )


def _start(orders: dict[str, object], channel: Channel) -> int:
    """The process id of the program, as far as it has come to be one."""
    pid = os.fork()
    if pid:
        return pid
    try:
        _become(orders)
    except OSError as error:
        channel.say(unstarted=str(error))
    os._exit(_CANT_START)


def _become(orders: dict) -> None:  # type: ignore[type-arg]  # JSON, and this file has no types to spare for it
    """This process is the program. In this order: what takes rights away comes last, and the filter very last."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    kernel.die_with_parent()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_VICTIM)
    stdin = os.open("/dev/null", os.O_RDONLY)
    os.dup2(stdin, 0)
    os.chdir(orders["folder"])
    _limit(orders)
    if orders["drops_capabilities"]:
        kernel.drop_capabilities()
    kernel.no_new_privileges()
    if orders["landlock"] is not None:
        landlock.restrict([(path, right) for path, right in orders["landlock"]])
    if orders["seccomp"] is not None:
        seccomp.install(network=orders["seccomp"] == "network")
    os.execvpe(orders["argv"][0], orders["argv"], orders["environment"])  # noqa: S606


def _limit(orders: dict) -> None:  # type: ignore[type-arg]
    limits = {resource.RLIMIT_CORE: 0}
    if orders["file_bytes"] is not None:
        limits[resource.RLIMIT_FSIZE] = orders["file_bytes"]
    if orders["data_bytes"] is not None:
        limits[resource.RLIMIT_DATA] = orders["data_bytes"]
    if orders["processes"] is not None:
        others = _threads_of_user() if orders["counts_user"] else 0
        limits[resource.RLIMIT_NPROC] = orders["processes"] + others
    for limit, most in limits.items():
        hard = resource.getrlimit(limit)[1]
        lower = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (lower, lower))


def _threads_of_user() -> int:
    """How many threads this user has on the machine."""
    count = 0
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdecimal() and process.stat().st_uid == os.getuid():
                count += sum(1 for _ in (process / "task").iterdir())
    return count


if __name__ == "__main__":
    main(sys.argv[1:])
