"""A ruling: a person decides whose failure a try was, where the evidence leaves it open. Sealed, and never changed.

rulings/001/ruling.json
"""

import getpass

from opd.protocol.attempts.attempt import RULING, Attempt
from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.sealing import seal_record
from opd.protocol.clock import now
from opd.records.attempts import Replayed, Stage
from opd.records.causes import Ruling
from opd.records.errors import AskedWrongly
from opd.records.files import sha256, write_json
from opd.records.receipts import RECEIPT, begin


def rule(attempt: Attempt, *, about: str, verdict: str, because: str, by: str | None) -> Ruling:
    """The ruling, sealed. Raises `AskedWrongly` for a try that needs none, has one, or isn't there."""
    evidence = Evidence(attempt, now())
    seen = next((one for one in evidence.sealed(Stage.FORMAL) if one.place.name == about), None)
    if seen is None or seen.receipt is None:
        names = ", ".join(one.place.name for one in evidence.sealed(Stage.FORMAL)) or "none yet"
        raise AskedWrongly(f"{about!r} is no formal try that is over; there are: {names}")
    if evidence.ruling_on(about) is not None:
        raise AskedWrongly(f"{about} was ruled on already; a ruling stands")
    if seen.receipt.outcome != Replayed.AMBIGUOUS:
        raise AskedWrongly(f"{about} ended as {seen.receipt.outcome}; only an ambiguous end is ruled on")
    if not because.strip():
        raise AskedWrongly("say what the decision rests on: --because TEXT")
    ruling = Ruling.model_validate(
        {"about": about, "verdict": verdict, "because": because.strip(), "by": by or getpass.getuser()}
    )
    number = max((place.number for place in attempt.ruling_places()), default=0) + 1
    place = attempt.ruling_place(number)
    write_json(begin(place.folder) / RULING, ruling.resolved())
    seal_record(
        place.folder,
        kind="ruling",
        outcome=verdict,
        because=ruling.because,
        made_from={
            "task": attempt.identity.task_sha256,
            f"{about}/{RECEIPT}": sha256(seen.place.folder / RECEIPT),
        },
        events=attempt.events.head(),
    )
    attempt.events.add(
        "sealed",
        actor=ruling.by,
        name=place.name,
        outcome=verdict,
        receipt_sha256=sha256(place.folder / RECEIPT),
    )
    return ruling
