"""After a crash: what was begun is sealed as what it is, what was just sealed is marked, and nothing is thrown away.

Done before anything else is done to an attempt whose orchestrator died. Whatever was still running of it is ended
first; it should not be: it dies with its orchestrator where the kernel allows that.
"""

from collections.abc import Callable

from opd.protocol.attempts.attempt import OUTCOME, Attempt, Place
from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.tries import CONTINUED, mark_left, seal_left
from opd.protocol.clock import now
from opd.protocol.supervision.orphans import end_left
from opd.records.attempts import Explored, Handed, Liveness, Replayed, Stage

TORN = "torn-submission"


def resume(attempt: Attempt, holder: Holder, *, say: Callable[[str], None]) -> None:
    """Every try is sealed, marked, or one that goes on where it was."""
    _end_strangers(attempt, say)
    evidence = Evidence(attempt, now())
    submission = next(iter(evidence.tries[Stage.SUBMISSION]), None)
    if submission and submission.liveness is Liveness.LEFT:
        _settle_submission(attempt, holder, submission.place, say)
    for seen in Evidence(attempt, now()).all():
        if seen.liveness is Liveness.UNMARKED:
            mark_left(attempt, seen.place)
            say(f"{seen.place.name} was whole but for its mark; it is marked")
        elif seen.liveness is Liveness.LEFT and seen.place.stage not in CONTINUED:
            receipt = seal_left(attempt, holder, seen.place, outcome=_outcome(attempt, seen.place))
            say(f"{seen.place.name} is sealed as {receipt.outcome}")


def _outcome(attempt: Attempt, place: Place) -> tuple[str, str]:
    """How a try counts whose orchestrator died, and why."""
    if place.stage is Stage.EXPLORE and attempt.submission.folder.exists():
        return Explored.SUBMITTED, "its orchestrator ended after the submission was sealed"
    return Replayed.INTERRUPTED, "its orchestrator ended without sealing it"


def _settle_submission(attempt: Attempt, holder: Holder, place: Place, say: Callable[[str], None]) -> None:
    """A submission whose outcome was written is what was accepted; anything less is evidence, and no submission."""
    if (place.partial / OUTCOME).is_file():
        seal_left(attempt, holder, place, outcome=(Handed.SEALED, "its orchestrator ended while it was sealed"))
        say("the submission was accepted, and is sealed")
        return
    explored = next((one for one in reversed(attempt.places(Stage.EXPLORE)) if one.partial.is_dir()), None)
    target = (explored.partial if explored else attempt.folder) / TORN
    place.partial.rename(target)
    attempt.events.add("submission_torn", actor="resume", kept=str(target.relative_to(attempt.folder)))
    say(f"the submission was not accepted yet; what there was of it is in {target}")


def _end_strangers(attempt: Attempt, say: Callable[[str], None]) -> None:
    """What a dead orchestrator's sandbox left running is ended, by the mark that it was started with."""
    marks = [event.data["mark"] for event in attempt.events.read() if event.kind == "started"]
    for mark in marks[-3:]:  # of the tries that can have been under way
        if living := end_left(mark):
            say(f"ended {len(living)} processes that were left: {living[0].command[:80]} …")
            attempt.events.add("ended_left_processes", actor="resume", commands=[one.command for one in living])
