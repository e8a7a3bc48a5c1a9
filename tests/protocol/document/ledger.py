"""What the device did, second by second: device.jsonl, and the idle seconds that the ledger counts of it."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests.protocol.document.clerk import instant
from tests.protocol.document.course import Course

from opd.protocol.supervision.device import WINDOW_SECONDS

GPU = "GPU-5d0c6a9e-7c1f-4a52-9a35-6f3b0f2f7e10"
TRAINING_PID, JUDGE_PID = 4_100, 5_200


@cache
def device_lines(course: Course, began: float) -> str:
    """The file's text; `began` is seconds since 1970 at the start of the explorer's program."""
    seconds = (_second(second, *state, began) for second, state in enumerate(_states(course)))
    return "".join(json.dumps(second) + "\n" for second in seconds)


def idle_seconds(course: Course) -> float:
    """As the ledger counts: whole windows of a few seconds, in which the device did next to nothing."""
    busy = [trains or evaluates for trains, evaluates in _states(course)]
    size = int(WINDOW_SECONDS)
    windows = (busy[first : first + size] for first in range(0, len(busy), size))
    return float(sum(len(window) for window in windows if not any(window)))


def _states(course: Course) -> Iterator[tuple[bool, bool]]:
    """Of each second, whether something trained, and whether a measurement ran."""
    trainings, proxies = course.trainings, course.proxies
    for second in range(int(course.submitted)):
        yield (
            any(one.began <= second < one.ended for one in trainings),
            any(one.began <= second < one.ended for one in proxies),
        )


def _second(second: int, trains: bool, evaluates: bool, began: float) -> Mapping[str, Any]:
    busy = trains or evaluates
    gpu = {
        "index": 0, "uuid": GPU, "busy": 0.97 if busy else 0.0,
        "memory_bytes": 41_446_000_000 if busy else 536_870_912, "watts": 911.0 if busy else 141.0,
        "pids": [JUDGE_PID if evaluates else TRAINING_PID] if busy else [],
    }  # fmt: skip
    at = instant(began + second, began=began)
    return {
        "monotonic": at.monotonic, "utc": at.utc, "processes": 5 if busy else 2,
        "cpu_share": 1.1 if trains and not evaluates else 0.04, "evaluating": evaluates, "gpus": [gpu],
    }  # fmt: skip
