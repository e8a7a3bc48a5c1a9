"""A program that is asked something, and given up on when it doesn't answer.

One that the kernel holds, for a dead share or a hung driver, can't be killed, and who waits for its end waits too. So
it is killed, kept in mind, and not waited for.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

LEFT: list[subprocess.Popen[bytes]] = []  # those that were given up on


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of it."""

    code: int
    text: str  # what it printed


def ask(command: Sequence[str], *, limit_seconds: float, complaints: bool = False) -> Answer | None:
    """What the program says, or None when it has not ended by then; with `complaints` what it says as errors, too.

    Raises `OSError` where it can't be started.
    """
    child = subprocess.Popen(
        command,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if complaints else None,
    )
    try:
        out, _ = child.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        LEFT.append(child)
        if child.stdout is not None:
            child.stdout.close()
        return None
    return Answer(code=child.returncode, text=out.decode("utf-8", "replace"))
