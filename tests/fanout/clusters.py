"""Ray clusters for tests: two places on this machine, started as a person does, and ended whole.

Ray reads whether its ports want a token when it is first imported, so a test imports this before.
"""

import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

if importlib.util.find_spec("ray") is None:
    pytest.skip('Ray is not installed: pip install "ray>=2.40"', allow_module_level=True)
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)

RAY = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
ADDRESS = "127.0.0.2"


@contextmanager
def started(*, before: tuple[str, ...] = (), **changes: str) -> Iterator[dict[str, str]]:
    """The environment in which a cluster of two CPUs is joined.

    `before` are words before the command that starts it, `changes` what its environment has besides.
    """
    port = _free_port()
    words = ["start", "--head", "--block", f"--port={port}", f"--node-ip-address={ADDRESS}", "--num-cpus=2"]
    more = ["--include-dashboard=false", f"--object-store-memory={80 << 20}", "--disable-usage-stats"]
    cluster = subprocess.Popen(
        [*before, *RAY, *words, *more],
        env=os.environ | {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"} | changes,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await_answer(port, cluster)
        yield {"RAY_ADDRESS": f"{ADDRESS}:{port}"}
    finally:
        left = [cluster.pid, *below(cluster.pid)]
        cluster.send_signal(signal.SIGTERM)
        try:
            cluster.wait(timeout=30)
        except subprocess.TimeoutExpired:
            cluster.kill()
            cluster.wait()
        for pid in left:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Inside, this process has these variables."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def workers_now() -> list[int]:
    """The processes of this machine that are workers of ours, in Ray's own words for them."""
    return [pid for pid in _processes() if _words(pid).startswith("ray::RemoteWorker")]


def below(pid: int) -> list[int]:
    """The processes that a process began, and those that they began."""
    children = [one for one in _processes() if _parent(one) == pid]
    return children + [deeper for child in children for deeper in below(child)]


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and is not yet collected doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_end(pids: list[int], *, seconds: float = 30) -> None:
    """Returns when none of them is alive; an assertion that fails otherwise."""
    deadline = time.monotonic() + seconds
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, f"processes {left} outlived it"
        time.sleep(0.1)


def _await_answer(port: int, cluster: subprocess.Popen[bytes]) -> None:
    """Returns when a driver can join: the cluster has its node, and not only its port."""
    deadline = time.monotonic() + 120
    while not any(_words(pid).partition(" ")[0].endswith("raylet") for pid in below(cluster.pid)):
        assert cluster.poll() is None, "the cluster did not start"
        assert time.monotonic() < deadline, "the cluster takes too long to start"
        time.sleep(0.2)
    time.sleep(2)
    socket.create_connection((ADDRESS, port), timeout=10).close()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((ADDRESS, 0))
        return int(one.getsockname()[1])


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
