"""What is due, done: stage after stage, until nothing is due, or something has to be said by a person first."""

from collections.abc import Callable, Sequence

from opd.protocol.attempts.attempt import Attempt, Place
from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.state import status
from opd.protocol.clock import now
from opd.protocol.gpus import claimed
from opd.protocol.install import check_install
from opd.protocol.machine import Machine
from opd.protocol.sandbox.ladder import Chosen
from opd.protocol.stages.audit import audit
from opd.protocol.stages.explore import explore
from opd.protocol.stages.final import evaluate
from opd.protocol.stages.formal import replay
from opd.protocol.stages.report import report
from opd.protocol.stages.validation import validate
from opd.records.attempts import CLOSING, Due, Liveness, Stage, Status
from opd.records.errors import AnswerIsNo
from opd.records.receipts import Receipt

Say = Callable[[str], None]


def run(
    attempt: Attempt,
    holder: Holder,
    sandbox: Chosen,
    *,
    stages: Sequence[Stage] = tuple(Stage),
    say: Say,
    cancelled: Callable[[], bool],
    leaving: Callable[[], bool] = lambda: False,
) -> Status:
    """What the attempt has come to, after everything of these stages that was due has been done.

    `leaving` is asked before each of them, `cancelled` in the midst of one too, which ends it.

    Raises `AnswerIsNo` for an attempt that contradicts itself, or that was left in the middle of something.
    """
    while not (cancelled() or leaving()):
        here = status(attempt)
        _refuse_unsound(here)
        due = next((one for one in here.due if one.stage in stages), None)
        if due is None:
            return here
        closing = due.stage in CLOSING  # judges nothing: any install may look at what another has judged
        if not closing:
            check_install(attempt.identity.install_sha256)
        say(f"{due.stage}{f' {due.name}' if due.name else ''} begins: {due.because}")
        count = 0 if closing else attempt.task.contract.needs.gpus
        with claimed(count, who=attempt.identity.case) as gpus:
            machine = Machine(sandbox=sandbox, gpus=gpus)
            receipt = do(attempt, holder, machine, due, say=say, cancelled=cancelled)
        because = f": {receipt.because}" if receipt.because else ""
        say(f"{due.stage}{f' {due.name}' if due.name else ''} ended: {receipt.outcome}{because}")
    return status(attempt)


def audit_anew(
    attempt: Attempt,
    holder: Holder,
    *,
    judge: tuple[str, ...] | None = None,
    say: Say,
    cancelled: Callable[[], bool],
) -> Receipt:
    """The receipt of another audit, whether one is due or not, and whether the attempt holds or not: it says so.

    Raises `AnswerIsNo` for an attempt that was left in the middle of something, and `AskedWrongly` where less can be
    seen of it than the last audit saw.
    """
    _refuse_left(status(attempt))
    return audit(attempt, holder, judge=judge, say=say, cancelled=cancelled)


def report_anew(attempt: Attempt, holder: Holder, *, pdf: bool, say: Say, cancelled: Callable[[], bool]) -> Receipt:
    """The receipt of another report, after an audit where none counts.

    Raises `AnswerIsNo` for an attempt that contradicts itself, or that was left in the middle of something.
    """
    _refuse_unsound(status(attempt))
    if Evidence(attempt, now()).audit is None:
        audit(attempt, holder, say=say, cancelled=cancelled)
    return report(attempt, holder, pdf=pdf, say=say)


def do(
    attempt: Attempt, holder: Holder, machine: Machine, due: Due, *, say: Say, cancelled: Callable[[], bool]
) -> Receipt:
    """The receipt of one thing that was due."""
    if due.stage is Stage.EXPLORE:
        return explore(attempt, holder, machine, say=say, cancelled=cancelled)
    if due.stage is Stage.FORMAL:
        return replay(attempt, holder, machine, cancelled=cancelled)
    if due.stage is Stage.AUDIT:
        return audit(attempt, holder, say=say, cancelled=cancelled)
    if due.stage is Stage.REPORT:
        return report(attempt, holder, say=say)
    formal = _counted(attempt).folder
    assert due.name is not None, "what is due for a checkpoint names it"
    step = int(due.name.removeprefix("step-"))
    stage = validate if due.stage is Stage.VALIDATION else evaluate
    return stage(attempt, holder, machine, formal=formal, step=step, cancelled=cancelled)


def _counted(attempt: Attempt) -> Place:
    counted = Evidence(attempt, now()).counted
    assert counted is not None, "artifacts are those of a formal try that counts"
    return counted.place


def _refuse_unsound(here: Status) -> None:
    if here.contradictions:
        raise AnswerIsNo(f"{here.case} contradicts itself: {'; '.join(here.contradictions)}")
    _refuse_left(here)


def _refuse_left(here: Status) -> None:
    left = [one.name for one in here.tries if one.liveness in {Liveness.LEFT, Liveness.UNMARKED}]
    left = [name for name in left if not name.startswith((Stage.VALIDATION, Stage.FINAL))]  # these go on
    if left:
        raise AnswerIsNo(f"{', '.join(left)} was left unfinished; `opd attempt resume` seals it as what it is")
