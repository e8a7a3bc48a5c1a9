"""Work that goes on beside, in a thread, until it is told that it is over."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None], *, name: str) -> Iterator[None]:
    """Inside, the work goes on; it gets an event that is set at the end, and is waited for."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
