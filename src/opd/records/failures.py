"""`failure.json`: how a run ended that ended by an exception, typed, so that nobody has to read a traceback.

The failures of several tries of one run stand side by side: `failure-1.json` is the first, `failure.json` that
of the newest try.
"""

import errno
import re
from collections.abc import Iterator
from pathlib import Path

from opd.records.errors import AnswerIsNo
from opd.records.settings import Settings

# How the writer of safetensors, which has its own exception without an errno, words an error of the system.
_IN_WORDS = re.compile(r"\bos error (\d+)\)|\bOs \{ code: (\d+),")


class NotWritten(AnswerIsNo):
    """Something could not be written; `path` is what."""

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path


class Raised(Settings):
    """One exception of a chain."""

    kind: str
    """Its class, with the module where it isn't a built-in one."""
    message: str
    errno: int | None = None
    """Of the system call that failed; null where none did."""
    errno_name: str | None = None
    """ENOSPC and the like."""
    path: str | None = None
    """The file or folder that it was about."""


class Failure(Settings):
    """What broke, where, and what is left to go on from."""

    exceptions: tuple[Raised, ...]
    """From the one that ended the run down to its first cause."""
    errno: int | None
    """Of the first cause that has one."""
    errno_name: str | None
    path: str | None
    phase: str | None
    """sample, score, grade, update or save; null between them."""
    signal: str | None
    """SIGINT or SIGTERM, where one ended the run at once."""
    step: int
    """The step at hand; 0 before the first."""
    seconds: float
    """Used so far, earlier tries included."""
    checkpoint: str | None
    """Name of the newest whole checkpoint."""
    state: str | None
    """Name of the newest whole trainer state: what a resumed run goes on from."""


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, what it was raised from, and so on down to the first."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def errno_of(error: BaseException) -> int | None:
    """The number that the system gave the failed call, from the deepest cause that has one."""
    numbers = [_errno(one) for one in causes(error)]
    return next((number for number in reversed(numbers) if number is not None), None)


def errno_name(number: int | None) -> str | None:
    """ENOSPC for 28, and so on; None for None and for a number without a name."""
    return None if number is None else errno.errorcode.get(number)


def in_words(error: BaseException) -> str:
    """What an exception says, with the number that the system gave and its name, where it gave one."""
    number = errno_of(error)
    return str(error) if number is None else f"errno {number}, {errno_name(number)}: {error}"


def chain(error: BaseException) -> tuple[Raised, ...]:
    """The exceptions that `causes` gives, as they are written down."""
    return tuple(_raised(one) for one in causes(error))


def failure(
    error: BaseException, *, phase: str | None, step: int, seconds: float, checkpoint: str | None, state: str | None
) -> Failure:
    """The record of a run that this exception ended."""
    exceptions = chain(error)
    number = errno_of(error)
    paths = [one.path for one in exceptions if one.path is not None]
    return Failure(
        exceptions=exceptions,
        errno=number,
        errno_name=errno_name(number),
        path=paths[-1] if paths else None,
        phase=phase,
        signal=_signal(error),
        step=step,
        seconds=seconds,
        checkpoint=checkpoint,
        state=state,
    )


def _raised(error: BaseException) -> Raised:
    kind = type(error)
    number = _errno(error)
    path = error.filename if isinstance(error, OSError) else error.path if isinstance(error, NotWritten) else None
    return Raised(
        kind=kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        message=str(error),
        errno=number,
        errno_name=errno_name(number),
        path=None if path is None else str(path),
    )


def _errno(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    if (found := _IN_WORDS.search(str(error))) and type(error).__name__ == "SafetensorError":
        return int(found[1] or found[2])
    return None


def _signal(error: BaseException) -> str | None:
    """The signal that a KeyboardInterrupt names; one that names none is Python's own answer to SIGINT."""
    if not isinstance(error, KeyboardInterrupt):
        return None
    return str(error) or "SIGINT"
