"""The attempts that some paths mean, each read again from its first byte to its last.

Nothing is said of any as long as one does not hold: who leaves the damaged ones out of a table chooses its result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opd.protocol.attempts.attempt import RUN, Attempt
from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.state import status
from opd.protocol.attempts.verify import Verification, verify
from opd.protocol.clock import Instant
from opd.records.attempts import Status
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import PARTIAL

_SHOWN = 5  # attempts that an error names


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An attempt that holds, and what it has come to."""

    folder: Path  # as it was given
    attempt: Attempt
    evidence: Evidence
    status: Status
    head_sha256: str


def found(paths: Sequence[Path], at: Instant) -> tuple[Found, ...]:
    """The attempts in these folders, and those that are such folders, each once, in order.

    Raises `AskedWrongly` where there is none, or one is there twice, and `AnswerIsNo` where one does not hold.
    """
    attempts = {folder.resolve(): folder for path in paths for folder in _below(path)}
    checked = {folder: verify(Attempt(folder)) for folder in attempts.values()}
    if broken := {folder: one for folder, one in checked.items() if not one.holds}:
        raise AnswerIsNo(_refusal(broken, of=len(checked)))
    held = tuple(_found(folder, one, at) for folder, one in checked.items())
    _refuse_copies(held)
    return held


def _below(path: Path) -> Iterator[Path]:
    """The folder itself, or the attempts in it."""
    if (path / RUN).is_file():
        yield path
        return
    inside = sorted(path.iterdir()) if path.is_dir() else []
    attempts = [one for one in inside if (one / RUN).is_file() and not one.name.endswith(PARTIAL)]
    if not attempts:
        raise AskedWrongly(f"{path} is no attempt, and there is none in it; give attempts, or the folder they lie in")
    yield from attempts


def _found(folder: Path, checked: Verification, at: Instant) -> Found:
    attempt = Attempt(folder)
    return Found(
        folder=folder,
        attempt=attempt,
        evidence=Evidence(attempt, at),
        status=status(attempt, at=at),
        head_sha256=checked.head.sha256,
    )


def _refuse_copies(held: Sequence[Found]) -> None:
    """Two folders with one log are one attempt, which would count twice."""
    seen: dict[str, Path] = {}
    for one in held:
        if (other := seen.setdefault(one.head_sha256, one.folder)) != one.folder:
            raise AskedWrongly(f"{one.folder} is a copy of {other}: one attempt counts once; name one of them")


def _refusal(broken: dict[Path, Verification], *, of: int) -> str:
    named = [f"{folder}: {_first_fault(one)}" for folder, one in list(broken.items())[:_SHOWN]]
    more = [f"and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
    return (
        f"{len(broken)} of {of} attempts do not hold, and no table is made without them; "
        f"{'; '.join([*named, *more])}. `opd attempt verify` says all"
    )


def _first_fault(one: Verification) -> str:
    faults = [fault for folder in one.folders for fault in folder.faults]
    faults += [
        *one.faults,
        *one.contradictions,
        *(f"{link.name} is broken" for link in one.lineage if not link.holds),
    ]
    return faults[0] + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else "")
