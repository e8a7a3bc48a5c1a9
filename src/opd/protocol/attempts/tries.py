"""One try of one stage: a new folder, filled, and sealed with how it ended, whatever happens.

    begin      event `began` with what it is made from, then the exclusive folder
    the work   writes into the folder; `end` says how it came out: outcome.json, then event `ended`
    seal       receipt, rename, mark, event `sealed` with the receipt's digest

An exception ends a try as interrupted (somebody stopped it) or as the machine's failure, with the exceptions written
into the folder, and goes on upwards. A process that is killed leaves the folder begun; `seal_left` ends it later, as
what it had ended as, if it came so far.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opd
from opd.protocol.attempts.attempt import OUTCOME, Attempt, Place
from opd.protocol.attempts.events import Event
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.taming import tame
from opd.protocol.clock import Stopwatch, now
from opd.protocol.words import one_line
from opd.records.attempts import Replayed, Stage
from opd.records.errors import AnswerIsNo
from opd.records.failures import chain
from opd.records.files import COMPLETE, sha256, write_json
from opd.records.receipts import RECEIPT, Receipt, begin, check_free, finish_sealing, is_sealed, read_receipt, seal
from opd.records.settings import Settings

FAILURE = "orchestrator-failure.json"  # exceptions of this program; the candidate's own are its claim, elsewhere
CONTINUED = frozenset({Stage.VALIDATION, Stage.FINAL})  # what is begun of these goes on where it was
_NOT_SEALED_BY_ERRORS = CONTINUED | {Stage.SUBMISSION}  # there is one of it: its place is kept for one that succeeds


class Try:
    """A try that is being filled."""

    def __init__(self, attempt: Attempt, holder: Holder, place: Place, *, made_from: Mapping[str, str]) -> None:
        self.attempt = attempt
        self.place = place
        self.folder: Path = place.partial
        self.watch = Stopwatch()
        self._holder = holder
        self.made_from = {"task": attempt.identity.task_sha256, **made_from}
        self.outcome: str | None = None
        self.because: str | None = None
        self.began_utc = self.watch.began.utc
        self.before_seconds = 0.0  # of a try that goes on: what it had used

    def say(self, kind: str, **data: Any) -> None:
        """An event of this try, in the attempt's log."""
        self.attempt.events.add(kind, actor=self.place.name, **data)

    def beat(self) -> None:
        """Still at work; called about once a second. What the clocks did meanwhile becomes an event."""
        self._holder.beat()
        for gap in self.watch.tick():
            self.say(gap.kind, seconds=round(gap.seconds, 3))

    def end(self, outcome: str, facts: Settings | None = None, *, because: str | None = None) -> None:
        """How it ended, said once; the facts become outcome.json. It is sealed as this, be it after a crash."""
        assert self.outcome is None, f"{self.place.name} ended as {self.outcome} already"
        if facts is not None:
            write_json(self.folder / OUTCOME, facts.resolved())
        seconds = round(self.before_seconds + self.watch.active_seconds, 3)
        self.say("ended", outcome=str(outcome), because=because, active_seconds=seconds)
        self.outcome, self.because = str(outcome), because  # last: what could not be written down did not end so

    def seal(self) -> Receipt:
        """The receipt, after the folder stands under its own name."""
        if removed := tame(self.folder) if self.folder.is_dir() else ():
            self.say("removed", why="too deep, or too long to be named", paths=list(removed[:20]), count=len(removed))
        assert self.outcome is not None, f"{self.place.name} has not ended"
        ended = now()
        receipt = seal(
            self.place.folder,
            Receipt(
                kind=self.place.stage,
                outcome=self.outcome,
                because=self.because,
                began_utc=self.began_utc,
                ended_utc=ended.utc,
                active_seconds=round(self.before_seconds + self.watch.active_seconds, 3),
                opd_version=opd.__version__,
                made_from=self.made_from,
                events=self.attempt.events.head(),
                files=(),
            ),
        )
        self.say("sealed", **_sealing(self.place, receipt))
        return receipt

    def go_on(self) -> None:
        """What the try had used before is counted, and when it began."""
        earlier = _earlier(self.attempt, self._holder, self.place)
        self.before_seconds, self.began_utc = earlier.seconds, earlier.began_utc or self.began_utc


@contextmanager
def a_try(attempt: Attempt, holder: Holder, place: Place, *, made_from: Mapping[str, str]) -> Iterator[Try]:
    """A try to work in; when the block ends, it is sealed.

    A validation or a final evaluation that was begun goes on in its folder. Raises `AskedWrongly` when the place is
    taken, and whatever the block raised, after the try was sealed, or left to go on.
    """
    goes_on = place.stage in CONTINUED and place.partial.is_dir()
    this = Try(attempt, holder, place, made_from=made_from)
    if goes_on:
        this.go_on()
        this.say("went_on", name=place.name, made_from=this.made_from, before_seconds=this.before_seconds)
    else:
        check_free(place.folder)
        this.say("began", name=place.name, made_from=this.made_from)
    with holder.at(place.name):  # said before the folder is there, so that it is never seen without anybody at work
        if not goes_on:
            begin(place.folder)
        try:
            yield this
        except BaseException as error:
            if place.stage in _NOT_SEALED_BY_ERRORS:
                this.say("stopped", name=place.name, active_seconds=this.watch.active_seconds, error=_one_line(error))
                raise
            if this.outcome is None:
                _end_by(this, error)
            this.seal()
            raise
        this.seal()


def seal_left(attempt: Attempt, holder: Holder, place: Place, *, outcome: tuple[str, str]) -> Receipt:
    """The receipt of a try whose orchestrator died, with whatever it had written.

    It ended as it said itself, if it came so far; otherwise the outcome is the one given, with why.
    """
    earlier = _earlier(attempt, holder, place)
    this = Try(attempt, holder, place, made_from=earlier.made_from)
    this.go_on()
    if earlier.ended is None:
        this.end(outcome[0], because=outcome[1])
    else:
        this.outcome, this.because = earlier.ended.data["outcome"], earlier.ended.data["because"]
    return this.seal()


def mark_left(attempt: Attempt, place: Place) -> None:
    """The mark, and the event, of a try whose orchestrator died in the last instant.

    Raises `AnswerIsNo` where there is a mark that doesn't fit: that is no crash.
    """
    if not is_sealed(place.folder):
        if (place.folder / COMPLETE).exists():
            raise AnswerIsNo(f"{place.name} has a mark that does not fit its receipt; it is not believed")
        finish_sealing(place.folder)
    named = {event.data.get("name") for event in attempt.events.read() if event.kind == "sealed"}
    if place.name not in named:
        attempt.events.add("sealed", actor=place.name, **_sealing(place, read_receipt(place.folder)))


def _sealing(place: Place, receipt: Receipt) -> dict[str, Any]:
    return {
        "name": place.name,
        "outcome": receipt.outcome,
        "receipt_sha256": sha256(place.folder / RECEIPT),
    }


@dataclass(slots=True)
class _Earlier:
    """What the log says of a try so far."""

    made_from: dict[str, str]
    began_utc: str | None = None
    seconds: float = 0.0  # active, as far as anybody could say
    ended: Event | None = None


def _earlier(attempt: Attempt, holder: Holder, place: Place) -> _Earlier:
    """A part that was killed had used what lies between its beginning and the last that was heard of it."""
    found = _Earlier(made_from={})
    since = last = None
    for event in attempt.events.read():
        if event.actor != place.name:
            continue
        if event.kind in {"began", "went_on"}:
            found.made_from = event.data["made_from"]
            found.began_utc = found.began_utc or event.at.utc
            found.seconds = event.data.get("before_seconds", 0.0)
            found.ended, since = None, event.at
        elif event.kind == "stopped":
            found.seconds += event.data["active_seconds"]
            since = None
        elif event.kind == "ended":
            found.seconds, found.ended, since = event.data["active_seconds"], event, None
        last = event.at
    if since and last:
        heard = holder.before.heard if holder.before and place.name in holder.before.at else last
        found.seconds += max(0.0, since.seconds_until(last), since.seconds_until(heard))
    return found


def _end_by(this: Try, error: BaseException) -> None:
    stopped = isinstance(error, KeyboardInterrupt)
    write_json(this.folder / FAILURE, [raised.resolved() for raised in chain(error)])
    this.end(Replayed.INTERRUPTED if stopped else Replayed.INFRA_FAILED, because=_one_line(error))


def _one_line(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}", most=500)
