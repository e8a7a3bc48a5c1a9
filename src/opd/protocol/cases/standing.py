"""What an attempt has come to, as it counts in a table: by its receipts alone."""

from opd.protocol.attempts.attempt import OUTCOME
from opd.protocol.attempts.evidence import Evidence, Seen
from opd.protocol.cases.finding import Found
from opd.records.attempts import CLOSING, Explored, Final, Replayed, Stage
from opd.records.cases import Standing
from opd.records.errors import AskedWrongly
from opd.records.files import read_lines
from opd.records.settings import read

_NOT_ITS_DOING = frozenset(
    {Explored.CANCELLED, Explored.INFRA_FAILED, Explored.INTERRUPTED, Replayed.INFRA_FAILED, Replayed.INTERRUPTED}
)
_REFUSED = "recovery-refused.json"  # why what stood in a workspace at its end is no submission


def standing(one: Found) -> Standing:
    """One of the five; see there."""
    if one.status.official:
        return Standing.COMPLETED
    evidence = one.evidence
    if _goes_on(one):
        return Standing.OPEN
    if evidence.submission is None:
        return _without_submission(evidence)
    return _without_score(evidence)


def _without_score(evidence: Evidence) -> Standing:
    """Of one that handed in."""
    if evidence.counted is None:
        return Standing.INFRASTRUCTURE
    if evidence.formal is None or not evidence.formal.artifacts:
        return Standing.TERMINAL
    return _without_final(evidence) if evidence.valid_steps else Standing.REJECTED


def _goes_on(one: Found) -> bool:
    """Whether something can still bring a score."""
    at_work = one.evidence.running is not None and one.evidence.running.place.stage not in CLOSING
    return at_work or one.status.waits_for is not None or any(due.stage not in CLOSING for due in one.status.due)


def _without_submission(evidence: Evidence) -> Standing:
    last = evidence.sealed(Stage.EXPLORE)[-1]
    if last.outcome in _NOT_ITS_DOING:
        return Standing.INFRASTRUCTURE
    return Standing.REJECTED if _was_refused(last) else Standing.TERMINAL


def _was_refused(last: Seen) -> bool:
    """Whether it tried to hand in, and what stood there at the end was still no submission."""
    desk = last.place.folder / "desk.jsonl"
    if not desk.exists() or not (last.place.folder / _REFUSED).exists():
        return False
    asked = [line for line in read_lines(desk) if line.get("command") == "submit" and line.get("exit") == 1]
    return any(isinstance(line.get("arguments"), dict) and not line["arguments"].get("check") for line in asked)


def _without_final(evidence: Evidence) -> Standing:
    """A final that had all of its time is the candidate's; one whose program failed is not."""
    given = evidence.attempt.task.contract.budgets.final_seconds
    for seen in evidence.sealed(Stage.FINAL):
        try:
            if read(Final, seen.place.folder / OUTCOME).seconds < given:
                return Standing.INFRASTRUCTURE
        except AskedWrongly:
            return Standing.INFRASTRUCTURE
    return Standing.TERMINAL
