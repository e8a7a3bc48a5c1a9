"""At work on an attempt: alone, and saying what goes on to whoever waits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from opd.protocol.attempts.attempt import Attempt
    from opd.protocol.attempts.lease import Holder


@contextmanager
def at_work(folder: Path) -> "Iterator[tuple[Attempt, Holder]]":
    """Inside, this process alone writes to the attempt; raises `AskedWrongly` where another does."""
    from opd.protocol.attempts.attempt import Attempt
    from opd.protocol.attempts.lease import held

    attempt = Attempt(folder)
    with held(attempt.folder) as holder:
        yield attempt, holder


def saying(quiet: bool) -> Callable[[str], None]:
    """Says it where people look while they wait, or nowhere."""

    def say(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    return say
