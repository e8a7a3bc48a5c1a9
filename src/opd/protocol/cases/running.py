"""A matrix, run: unit after unit here, or several at once on a Ray cluster; what is done is not done again.

A unit is done when its receipt stands and the small files that it names have the digests that it says. Receipts are
written by this process alone, once it has seen those files; who did the work, and where, is in them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from opd.fanout.calls import Call, Fault, Outcome
from opd.fanout.cluster import joined
from opd.fanout.comparing import shared
from opd.fanout.here import Here
from opd.fanout.pool import Pool, Work
from opd.fanout.seen import unlike
from opd.protocol.cases.carrying import Carrier, claim
from opd.protocol.cases.matrix import Unit
from opd.records.errors import AnswerIsNo
from opd.records.files import alone, check_writable, sha256, write_json
from opd.records.install import install
from opd.records.receipts import RECEIPT
from opd.records.settings import Settings, read

Say = Callable[[str], None]


class UnitReceipt(Settings):
    """`receipt.json` of a unit: written once, last."""

    asked_sha256: str
    """Of the unit, as it stands in asked.json."""
    install: str
    """Version and digest of the `opd` that ran it."""
    host: str
    seconds: float
    """Of the last call; what a killed one used is not known."""
    said: str
    """What came of it, for people."""
    files: dict[str, str]
    """SHA-256 of the small files that say all of it, by their paths in the unit's folder."""


class Working(Protocol):
    """Whoever carries units: this process, or the workers of a pool."""

    def work(
        self,
        calls: Sequence[Call],
        *,
        interrupted: Callable[[], bool],
        fault: Fault,
    ) -> Iterator[Outcome]:
        """See `Pool.work`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where units are run: here, or on Ray by so many workers (None: one a device)."""

    on_ray: bool = False
    workers: int | None = None


def run_units(
    units: Sequence[Unit], out: Path, place: Place, *, say: Say, interrupted: Callable[[], bool]
) -> dict[str, UnitReceipt]:
    """The receipt of each unit, by its name, when all are done.

    Raises `AskedWrongly` for a folder of another unit, and `AnswerIsNo` for units that failed twice, named with their
    last errors, for one whose files were changed since, and when it was interrupted.
    """
    check_writable(out)
    out.mkdir(parents=True, exist_ok=True)
    with alone(out):
        done = {unit.name: receipt for unit in units if (receipt := standing(out, unit)) is not None}
        for unit in units:
            claim(out / unit.name, unit)
        due = {Call(name=unit.name, values=unit.resolved()): unit for unit in units if unit.name not in done}
        if done:
            say(f"{len(done)} of {len(units)} cases are done already")
        failed: list[str] = []
        if due:
            with _working(out, place, at_most=len(due), say=say) as working:
                for outcome in working.work(list(due), interrupted=interrupted, fault=_seen(out, due)):
                    if outcome.error is not None:
                        failed.append(f"{outcome.call.name} failed: {outcome.error}")
                        say(failed[-1])
                        continue
                    done[outcome.call.name] = receipt = _write(out, due[outcome.call], outcome.answer)
                    what = f"done in {receipt.seconds:,.0f} s on {receipt.host}, {receipt.said}"
                    say(f"{outcome.call.name} ({len(done)} of {len(units)}): {what}")
    if failed:
        raise AnswerIsNo(f"{len(failed)} of {len(units)} cases failed: {'; '.join(failed)}")
    if len(done) < len(units):
        raise AnswerIsNo(f"interrupted with {len(done)} of {len(units)} cases done; the same command goes on")
    return {unit.name: done[unit.name] for unit in units}


def standing(out: Path, unit: Unit) -> UnitReceipt | None:
    """The receipt of a unit that is done; None where it is not. Raises `AnswerIsNo` when its files were changed."""
    folder = out / unit.name
    if not (folder / RECEIPT).is_file():
        return None
    claim(folder, unit)
    receipt = read(UnitReceipt, folder / RECEIPT)
    for name, digest in receipt.files.items():
        if not (folder / name).is_file() or sha256(folder / name) != digest:
            raise AnswerIsNo(
                f"{folder / name} is not what {RECEIPT} names; bring it back, or take {RECEIPT} away: the same "
                "command completes the case"
            )
    return receipt


@contextmanager
def _working(out: Path, place: Place, *, at_most: int, say: Say) -> Iterator[Working]:
    values = {"out": str(out.absolute()), "cwd": str(Path.cwd())}
    if not place.on_ray:
        yield Here(Carrier(values), say=say)
        return
    with shared(out) as folder, joined() as cluster:
        needs = {"CPU": 1.0} | ({"GPU": 1.0} if cluster.has_gpus else {})
        work = Work(target=f"{Carrier.__module__}:{Carrier.__name__}", values=values, needs=needs, folder=folder)
        with Pool(cluster, work, say=say) as workers:
            workers.start(cluster.workers(needs, asked=place.workers, at_most=at_most))
            yield workers


def _write(out: Path, unit: Unit, answer: dict[str, Any]) -> UnitReceipt:
    receipt = UnitReceipt(asked_sha256=unit.digest, install=install()["opd"], **answer)
    write_json(out / unit.name / RECEIPT, receipt.resolved())
    return receipt


def _seen(out: Path, due: dict[Call, Unit]) -> Fault:
    """Says of an answer why it doesn't count yet: its files are not here, as they were there."""

    def fault(call: Call, answer: Any) -> str | None:
        for name, digest in answer["files"].items():
            if (other := unlike(out / due[call].name / name, digest)) is not None:
                return f"{other}, unlike on {answer['host']}: is it the same folder?"
        return None

    return fault
