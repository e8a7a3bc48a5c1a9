"""The attempts that some paths mean, each read again from its first byte to its last.

Nothing is said of any as long as one does not hold: who leaves the damaged ones out of a table chooses its result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opd.protocol.attempts.attempt import RUN, Attempt, is_attempt
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What lies at some paths."""

    attempts: tuple[Found, ...]
    passed_over: tuple[Path, ...]  # folders with a run.json that are no attempts: trainings


def found(paths: Sequence[Path], at: Instant) -> Held:
    """The attempts at or anywhere below these paths, each once, in order. Links inside of a path are not followed
    further than to an attempt itself, and nothing is looked for inside of an attempt.

    Raises `AskedWrongly` where there is none at one of the paths, or one is there twice, and `AnswerIsNo` where one
    does not hold.
    """
    lying = [one for path in paths for one in _named(path)]
    attempts = {one.resolve(): one for one in lying if is_attempt(one)}
    others = {one.resolve(): one for one in lying if not is_attempt(one)}
    checked = {folder: verify(Attempt(folder)) for folder in attempts.values()}
    if broken := {folder: one for folder, one in checked.items() if not one.holds}:
        raise AnswerIsNo(_refusal(broken, of=len(checked)))
    held = tuple(_found(folder, one, at) for folder, one in checked.items())
    _refuse_copies(held)
    return Held(attempts=held, passed_over=tuple(others.values()))


def _named(path: Path) -> list[Path]:
    """What lies at one of the paths; raises `AskedWrongly` where no attempt does."""
    if is_attempt(path):
        return [path]
    if (path / RUN).is_file():
        raise AskedWrongly(f"{path} is no attempt: its {RUN} is of something else, as a training's is; leave it out")
    lying = list(_below(path)) if path.is_dir() else []
    if not any(map(is_attempt, lying)):
        raise AskedWrongly(
            f"{path} is no attempt, and there is none below it; give attempts, or a folder that they lie in"
        )
    return lying


def _below(folder: Path) -> Iterator[Path]:
    """The attempts below a folder, and what has a run.json and is none; not what is still being made."""
    for one in sorted(folder.iterdir()):
        if not one.is_dir() or one.name.endswith(PARTIAL):
            continue
        if is_attempt(one) or (one / RUN).is_file():
            yield one
        elif not one.is_symlink():
            yield from _below(one)


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
    faults = list(one.all_faults())
    return faults[0] + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else "")
