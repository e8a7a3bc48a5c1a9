"""A Ray cluster: the one that RAY_ADDRESS names, or one of this machine alone that ends with this process.

Without RAY_ADDRESS, or with `local`, a local one is started: on a loopback address, without dashboard and reports of
use, and closed to whoever lacks its token. `auto` is the one that `ray start` began on this machine.
"""

import importlib.util
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opd.records.errors import AnswerIsNo, AskedWrongly

LOCAL = "local"
LOCAL_ADDRESS = "127.0.0.2"  # loopback; Ray takes 127.0.0.1 for a machine's outer address
LOCAL_STORE_BYTES = 80 << 20  # little more than the least that Ray allows: nothing large is kept in it
ANSWER_SECONDS = 10.0
_ADDRESS = "RAY_ADDRESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the cluster has, in all and not in use at the moment."""

    machines: int
    in_all: Mapping[str, float]
    unused: Mapping[str, float]
    is_local: bool

    @property
    def has_gpus(self) -> bool:
        """Whether any of its machines has a GPU."""
        return self.in_all.get("GPU", 0) >= 1

    def workers(self, needs: Mapping[str, float], *, asked: int | None, at_most: int) -> int:
        """How many to start of a worker that needs so much of each resource: as asked, else one for each place.

        Raises `AskedWrongly` when the cluster has no place for that many, in use or not.
        """
        there = min(int(self.in_all.get(name, 0) // amount) for name, amount in needs.items())
        if there < (asked or 1):
            each = " and ".join(f"{amount:g} {name}" for name, amount in needs.items())
            raise AskedWrongly(
                f"{asked or 1} workers of {each} each, and the cluster has places for {there} on its {self.machines} "
                "machines; ask for fewer, or start Ray on more machines"
            )
        free = min(int(self.unused.get(name, 0) // amount) for name, amount in needs.items())
        return max(1, min(asked or free, at_most))


@contextmanager
def joined() -> Iterator[Cluster]:
    """Inside, this process is the driver of a cluster; afterwards its workers are gone, and a local cluster is, too.

    Raises `AskedWrongly` where Ray is not installed, `AnswerIsNo` where the cluster can't be reached.
    """
    address = os.environ.get(_ADDRESS) or LOCAL
    ray = imported(local=address == LOCAL)
    before = signal.getsignal(signal.SIGTERM)
    try:
        _join(ray, address)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray takes it; it is a request to end the work at a clean place
        alive = [node for node in ray.nodes() if node["Alive"]]
        yield Cluster(
            machines=len(alive),
            in_all=ray.cluster_resources(),
            unused=ray.available_resources(),
            is_local=address == LOCAL,
        )
    finally:
        ray.shutdown()


def imported(*, local: bool) -> Any:
    """The module `ray`, set up for a cluster of our own or for another's; `AskedWrongly` where there is none."""
    if importlib.util.find_spec("ray") is None:
        raise AskedWrongly('--on ray needs Ray, which is not installed here; pip install "opd[ray]" brings it')
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a worker without a GPU keeps what it may see
    if local:  # read when Ray is imported
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    # as Ray's own debugger does: a paragraph on each worker that died would go to standard output, between our lines
    ray._private.worker._worker_logs_enabled = False
    return ray


def _join(ray: Any, address: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}
    if address == LOCAL:
        ray.init(
            address=LOCAL,
            include_dashboard=False,
            object_store_memory=LOCAL_STORE_BYTES,
            _node_ip_address=LOCAL_ADDRESS,
            **quiet,
        )
        return
    try:
        _refuse_silent(address)
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        said = str(error).strip().partition("\n")[0]
        raise AnswerIsNo(
            f"the cluster of {_ADDRESS} = {address} can't be joined: {said}. Is it up, and if it wants a token, is "
            "RAY_AUTH_MODE = token?"
        ) from error


def _refuse_silent(address: str) -> None:
    """Nothing, when somebody answers at host:port; else `OSError`. Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "//" not in host:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
