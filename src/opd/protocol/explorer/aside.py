"""Something that is looked up beside a measurement, in a thread, so that it takes none of the explorer's time."""

import threading
from collections.abc import Callable
from typing import TypeVar

from opd.protocol.words import one_line
from opd.records.errors import OpdError

WAIT_SECONDS = 1.0  # after the measurement; what takes longer than both is not waited for

T = TypeVar("T")


def aside(work: Callable[[], T], *, name: str, missing: Callable[[str], T]) -> Callable[[], T]:
    """The work has begun; the call that comes back gives what came of it, or `missing` of the reason why nothing did.

    A failure of the disk is such a reason: no measurement fails by it.
    """
    found: list[T] = []

    def run() -> None:
        try:
            found.append(work())
        except (OpdError, OSError, ValueError) as error:
            found.append(missing(one_line(f"{type(error).__name__}: {error}", most=500)))

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()

    def result() -> T:
        thread.join(WAIT_SECONDS)
        return found[0] if found else missing("it was not read by the end of the measurement")

    return result
