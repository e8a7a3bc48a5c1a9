"""The audit: every check with its planted controls, over all that is sealed by now; numbered, and sealed itself.

    audit/attempt-001/
      findings/lineage.json …   one `Finding` a check
      verification.json         what `verify` came to just before: every byte was read again for it
      outcome.json              all findings in the order of the axes, and what a model was asked to say of them

It judges nothing anew and changes no result. An attempt that does not hold is audited too, and is said not to: that
is what an audit is for. A log that is broken alone takes no further line: nothing can be sealed, and that is said.
"""

import threading
from collections.abc import Callable

from opd.protocol.at_hand import near
from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.evidence import Evidence as Standing
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.tries import Try, a_try
from opd.protocol.audit.advice import ask
from opd.protocol.audit.assessing import assess
from opd.protocol.audit.catalogue import checks
from opd.protocol.audit.collection import collect
from opd.protocol.clock import now
from opd.protocol.contamination.questions import final_questions
from opd.protocol.install import install_sha256
from opd.protocol.threads import beside
from opd.records.attempts import Audited, Replayed, Stage
from opd.records.audits import Audit, Axis, Finding, Verdict
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import write_json
from opd.records.receipts import Receipt, read_receipt

FINDINGS = "findings"
VERIFICATION = "verification.json"
_BEAT_SECONDS = 1.0


def audit(
    attempt: Attempt,
    holder: Holder,
    *,
    judge: tuple[str, ...] | None = None,
    say: Callable[[str], None],
    cancelled: Callable[[], bool],
) -> Receipt:
    """The receipt of one audit; `judge` is the command of a model that may say something beside it.

    Raises `AnswerIsNo` where nothing is sealed that could be audited, where the log takes no line, when cancelled,
    and `AskedWrongly` where less can be seen than the last audit saw.
    """
    standing = Standing(attempt, now())
    if standing.log.broken:
        raise AnswerIsNo(f"no audit can be sealed, for the log is not whole: {standing.log.broken}")
    if not standing.receipts:
        raise AnswerIsNo("nothing is sealed yet that could be audited; `opd attempt run` does what is due")
    _refuse_less_seen(attempt, standing)
    place = attempt.next(Stage.AUDIT)
    made_from = {"install": install_sha256(), **standing.receipts}
    with a_try(attempt, holder, place, made_from=made_from) as this, beside(_beating(this), name="beat"):
        evidence = collect(attempt)
        write_json(this.folder / VERIFICATION, evidence.verification.resolved())
        (this.folder / FINDINGS).mkdir()
        findings: list[Finding] = []
        for name, check in checks().items():
            if cancelled():
                this.end(Replayed.INTERRUPTED, because="by the operator")
                raise AnswerIsNo("the audit was stopped; `opd attempt audit` makes another")
            finding = assess(name, check, evidence)
            write_json(this.folder / FINDINGS / f"{name}.json", finding.resolved())
            findings.append(finding)
            say(f"{finding.axis}: {finding.verdict}: {finding.sentence}")
        advice = (ask(judge, evidence, findings),) if judge else ()
        this.end(Audited.ASSESSED, Audit(findings=tuple(findings), advice=advice))
    return read_receipt(place.folder)


def _refuse_less_seen(attempt: Attempt, standing: Standing) -> None:
    """Nothing, unless the final's questions were at hand for the last audit and are not now; then `AskedWrongly`.

    The newest audit counts: one that is asked for where less can be seen would take the place of a better one.
    """
    audits = [facts for seen in standing.sealed(Stage.AUDIT) if (facts := standing.facts(Audit, seen)) is not None]
    if not audits or audits[-1].of(Axis.CONTAMINATION) is Verdict.NOT_ASSESSED:
        return
    try:
        measure = attempt.task.contract.final
    except AskedWrongly:
        return  # the task was changed, and the audit says so
    try:
        final_questions(measure, beside=near(attempt.folder))
    except (AskedWrongly, AnswerIsNo, OSError) as error:
        raise AskedWrongly(
            f"the last audit looked for the final's questions, and here they can't be had, so that another would say "
            f"less and count in its place: {error}"
        ) from error


def _beating(this: Try) -> Callable[[threading.Event], None]:
    """A check may read for minutes: meanwhile it is said that somebody is at work."""

    def beat(over: threading.Event) -> None:
        while not over.wait(_BEAT_SECONDS):
            this.beat()

    return beat
