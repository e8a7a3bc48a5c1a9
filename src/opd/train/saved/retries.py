"""A write to a network file system fails now and then and works a second later (faults E67)."""

import errno
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from opd.records.failures import errno_of

# What a file system across a network says when it loses a server for a moment: input/output error, communication
# error, stale handle. A full disk (ENOSPC) is not among them: waiting makes it no larger.
TRANSIENT = frozenset({errno.EIO, errno.ECOMM, errno.ESTALE})
PAUSES_SECONDS = (1.0, 5.0)

T = TypeVar("T")


def retried(
    write: Callable[[], T],
    *,
    pauses_seconds: Sequence[float] = PAUSES_SECONDS,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """What `write` gives back, called again after each pause as long as it fails by a transient error.

    `write` begins anew each time. Any other error, and the last transient one, goes through.
    """
    for pause in pauses_seconds:
        try:
            return write()
        except Exception as error:
            if errno_of(error) in TRANSIENT:
                sleep(pause)
                continue
            raise
    return write()
