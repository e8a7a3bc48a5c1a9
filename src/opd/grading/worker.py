"""A process that grades, and that can be killed: started by `pool.py`, one case after the other, until its
connection closes.

    parent → worker     {"answer": …, "gold": …} or {"response": …, "gold": …}
    worker → parent     {"ready": true}, then one reply for each case: a finding, or why there is none

Messages are JSON, so that what comes out of a worker is data, whatever went into it.
"""

import importlib
import json
import os
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Reply = dict[str, Any]
Job = Callable[[dict[str, str]], Reply]

_GRACE_SECONDS = 1.0  # the parent kills first; the alarm is for a worker whose parent is gone
_STATM = Path("/proc/self/statm")


def serve(*, descriptor: int, grader: str, seconds: float, memory_bytes: int) -> None:
    """Replies to cases until the other end closes. A case may take `memory_bytes` beyond what is loaded now."""
    connection = Connection(descriptor)
    try:
        job = _OWN[grader]() if grader in _OWN else _foreign(grader)
    except BaseException as error:
        _send(connection, {"broken": f"{type(error).__name__}: {error!s:.200}"})
        raise
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory(memory_bytes)
    _send(connection, {"ready": True})
    while True:
        try:
            case = json.loads(connection.recv_bytes())
        except EOFError:
            os._exit(0)  # at once: taking a large library apart in order takes longer than most cases
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)  # unhandled, it ends the process
        try:
            reply = job(case)
        except BaseException as error:
            _send(connection, {"failed": f"{type(error).__name__}: {error!s:.200}"})
            raise  # a worker that failed at one case is not trusted with the next
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(connection, reply)


def _house() -> Job:
    """The job of the house rules, with every arithmetic that there is; loads sympy, before the first case."""
    from opd.grading.equality import compare
    from opd.grading.numeric import Numeric
    from opd.grading.symbolic import same_value

    def job(case: dict[str, str]) -> Reply:
        outcome = compare(case["answer"], case["gold"], Numeric(), symbolic=same_value)
        return {"finding": outcome.finding.value, "stage": outcome.stage, "reason": outcome.reason}

    return job


def _reference() -> Job:
    """The job of the reference grader: what its normal forms leave to sympy."""
    from opd.grading.reference.formula import same_value
    from opd.grading.reference.rules import compare

    def job(case: dict[str, str]) -> Reply:
        outcome = compare(case["answer"], case["gold"], same_value)
        return {"finding": outcome.finding.value, "stage": outcome.stage, "reason": outcome.reason}

    return job


_OWN: dict[str, Callable[[], Job]] = {"house": _house, "reference": _reference}


def _foreign(spec: str) -> Job:
    """The job of someone's own grader, given as "module:function"."""
    module, _, name = spec.partition(":")
    function = getattr(importlib.import_module(module), name)

    def job(case: dict[str, str]) -> Reply:
        verdict = function(case["response"], case["gold"])
        if not isinstance(verdict, bool):
            raise TypeError(f"{spec} returned {verdict!r:.80}, which is no bool")
        return {"correct": verdict}

    return job


def _limit_memory(memory_bytes: int) -> None:
    """Caps the address space, where the system says how large it is now."""
    if not _STATM.exists():
        return
    loaded = int(_STATM.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (loaded + memory_bytes, resource.RLIM_INFINITY))


def _send(connection: Connection, message: Reply) -> None:
    connection.send_bytes(json.dumps(message).encode())
