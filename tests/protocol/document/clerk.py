"""Writes down what happened at its own time: events, and sealed folders, by the product's own records."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import opd
from opd.protocol.attempts.attempt import OUTCOME, Attempt, Place
from opd.protocol.clock import Instant, utc
from opd.records.files import sha256, write_json
from opd.records.receipts import NO_HEAD, RECEIPT, Head, Receipt, begin, seal
from opd.records.settings import Settings

BOOT = "6f1c2a52-0d4e-4b1e-9c7e-2f6f0d9b7a11"
_BOOTED_SECONDS = 86_400.0  # before the exploration


def instant(realtime: float, *, began: float) -> Instant:
    """A moment of the machine that everything ran on; it never slept."""
    up = realtime - began + _BOOTED_SECONDS
    return Instant(utc=utc(realtime), realtime=realtime, monotonic=up, boottime=up, boot_id=BOOT)


def realtime(text: str) -> float:
    """Seconds since 1970 of a moment as text."""
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


class Clerk:
    """Of one attempt; times are seconds since 1970."""

    def __init__(self, attempt: Attempt, *, began: float) -> None:
        self.attempt = attempt
        self._began = began

    def say(self, at: float, kind: str, *, actor: str, **data: object) -> None:
        """An event."""
        self.attempt.events.add(kind, actor=actor, at=instant(at, began=self._began), **data)

    def begin(self, place: Place, at: float, made_from: Mapping[str, str]) -> Path:
        """The folder of a try, to be filled."""
        made = {"task": self.attempt.identity.task_sha256, **made_from}
        self.say(at, "began", actor=place.name, name=place.name, made_from=made)
        return begin(place.folder)

    def end(
        self, place: Place, at: float, outcome: str, facts: Settings, *, began: float, made_from: Mapping[str, str],
        because: str | None = None, seconds: float | None = None,
    ) -> None:  # fmt: skip
        """The try is over, and sealed."""
        write_json(place.partial / OUTCOME, facts.resolved())
        active = round(at - began if seconds is None else seconds, 3)
        self.say(at, "ended", actor=place.name, outcome=str(outcome), because=because, active_seconds=active)
        made = {"task": self.attempt.identity.task_sha256, **made_from}
        self.seal(
            place.folder, place.name, str(place.stage), str(outcome), began=began, ended=at, active=active,
            made_from=made, because=because,
        )  # fmt: skip

    def seal(
        self, folder: Path, name: str | None, kind: str, outcome: str, *, began: float, ended: float, active: float,
        made_from: Mapping[str, str], because: str | None = None, head: Head | None = None,
    ) -> None:  # fmt: skip
        """A folder that was filled is sealed; with a name the log says so."""
        seal(
            folder,
            Receipt(
                kind=kind, outcome=outcome, because=because, began_utc=utc(began), ended_utc=utc(ended),
                active_seconds=active, opd_version=opd.__version__, made_from=dict(made_from),
                events=self.attempt.events.head() if head is None else head, files=(),
            ),
        )  # fmt: skip
        if name is not None:
            self.say(ended, "sealed", actor=name, name=name, outcome=outcome, receipt_sha256=sha256(folder / RECEIPT))

    def receipts(self, *names: str) -> dict[str, str]:
        """Digests of the receipts of these folders, by what they are."""
        return {f"{name}/{RECEIPT}": sha256(self.attempt.folder / name / RECEIPT) for name in names}


def seal_base(folder: Path, *, at: float, made_from: Mapping[str, str]) -> None:
    """The tree that lies in the begun folder is the attempt's base; the log begins after it."""
    seal(
        folder,
        Receipt(
            kind="base", outcome="sealed", because=None, began_utc=utc(at), ended_utc=utc(at), active_seconds=0.0,
            opd_version=opd.__version__, made_from=dict(made_from), events=NO_HEAD, files=(),
        ),
    )  # fmt: skip
