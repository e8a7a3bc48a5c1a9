"""Ranks as real processes of this machine, each in the environment that torchrun would give it.

They are forked from a server that has imported the package once, so that a rank is there in a fraction of a second.
"""

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

SECONDS = 120.0  # for all ranks of a test; a hang is a failure

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["opd.train.run", "opd.cli.main"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A rank that was started."""

    process: ForkServerProcess
    says: Connection

    def result(self) -> Any:
        """What its work gave back; an `AssertionError` with its traceback when it gave an exception."""
        assert self.says.poll(SECONDS), "the rank did not end in time"
        good, value = self.says.recv()
        self.process.join(SECONDS)
        assert good, value
        return value


def started(count: int, work: Callable[..., Any], *arguments: object) -> list[Rank]:
    """So many ranks that each do `work(*arguments)`, a function of a module."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(count):
        place = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": count,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        here, there = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_do, args=(place, there, work, arguments))
        process.start()
        there.close()
        ranks.append(Rank(process=process, says=here))
    return ranks


def together(count: int, work: Callable[..., Any], *arguments: object) -> list[Any]:
    """What `work(*arguments)` gave back on each rank."""
    return [rank.result() for rank in started(count, work, *arguments)]


def _do(place: dict[str, object], says: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    os.environ.update({name: str(value) for name, value in place.items()})
    try:
        says.send((True, work(*arguments)))
    except BaseException:
        says.send((False, traceback.format_exc()))
        raise
    finally:
        os._exit(0)  # as `opd` does where a rank was lost: see `joined`
