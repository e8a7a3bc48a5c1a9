"""The report: what the evidence holds, for people, with a source for every number.

    report/attempt-001/
      brief.md  analysis.md      one page, and all of it
      claims.json                every number, quotation and comparing word, and what it rests on
      comparisons/01.json …      as `opd compare` of the install gave them
      report.json  index.html    what the pictures are drawn from, and the page with them
      report.pdf                 where it was asked for, and a browser is there
      outcome.json

Every file of the attempt is read again first. Of one that does not hold there is no report.
"""

from collections.abc import Callable
from dataclasses import dataclass

from opd.protocol.attempts.attempt import OUTCOME, Attempt
from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.state import status
from opd.protocol.attempts.tries import Try, a_try
from opd.protocol.attempts.verify import Verification, verify
from opd.protocol.clock import now
from opd.protocol.comparison import by_program
from opd.protocol.report.book import Book
from opd.protocol.report.comparing import Compare, Compared, Of, Side, compared
from opd.protocol.report.drawing import drawn
from opd.protocol.report.pages import PDF, make_page, make_pdf
from opd.protocol.report.pen import Pen
from opd.protocol.report.sources import Sources
from opd.protocol.report.story import Story, label, story
from opd.protocol.report.writing import texts
from opd.records.attempts import Reported, Stage
from opd.records.claims import Claims, Exempt, Ground
from opd.records.errors import AnswerIsNo
from opd.records.files import write_json, write_text
from opd.records.receipts import RECEIPT, Receipt, read_receipt
from opd.records.reports import ANALYSIS, BRIEF, CLAIMS, PAGE, REPORT, Rendered

_NAMED_FAULTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """The programs that a report is made by, and whether it is printed."""

    compare: Compare = by_program
    page: Callable[..., None] = make_page
    pdf: bool = False


def report(attempt: Attempt, holder: Holder, *, pdf: bool = False, say: Callable[[str], None]) -> Receipt:
    """The receipt of one report, on the audit that counts.

    Raises `AnswerIsNo` where a file of the attempt is not what its receipt says, or no audit has seen all of it.
    """
    return render(attempt, holder, Making(pdf=pdf), say=say)


def render(attempt: Attempt, holder: Holder, making: Making, *, say: Callable[[str], None]) -> Receipt:
    """The same, by these programs."""
    found = verify(attempt)
    _refuse_unsound(attempt, found)
    evidence = Evidence(attempt, now())
    audit = evidence.audit
    if audit is None or audit.receipt_sha256 is None:
        raise AnswerIsNo(f"{attempt.folder}: no audit has seen all that is sealed; `opd attempt audit` makes one")
    made_from = {
        f"{audit.place.name}/{RECEIPT}": audit.receipt_sha256,
        "install": attempt.identity.install_sha256,
        "log": found.head.sha256,
    }
    place = attempt.next(Stage.REPORT)
    with a_try(attempt, holder, place, made_from=made_from) as this:
        sources = Sources(attempt.folder, this.folder)
        told = story(attempt, sources, evidence, status(attempt))
        pen = Pen(story=told, book=Book(), compared=_compared(told, making, say))
        for name, text in texts(pen).items():
            write_text(this.folder / name, text)
        write_json(this.folder / CLAIMS, pen.book.claims.resolved())
        write_json(this.folder / REPORT, drawn(pen).resolved())
        say("the page")
        making.page(attempt.folder, this.folder)
        without = make_pdf(this.folder) if making.pdf else "it was not asked for"
        _end(this, pen.book.claims, audit=audit.place.name, head=found.head.sha256, without_pdf=without)
    return read_receipt(place.folder)


def _compared(told: Story, making: Making, say: Callable[[str], None]) -> Compared:
    anchors = [label(one) for one in (told.baseline, told.adopted, told.greatest) if one is not None]
    anchors += [told.official.label] if told.official else []
    families: dict[Of, list[Side]] = {
        "proxy": [Side(label=label(one), evaluation=str(one.evaluation)) for one in told.measured],
        "final": [Side(label=one.label, evaluation=one.evaluation) for one in told.scored],
    }
    say("comparisons")
    return compared(told.sources, families, anchors=anchors, match=told.match, compare=making.compare)


def _end(this: Try, claims: Claims, *, audit: str, head: str, without_pdf: str | None) -> None:
    spans = [span for document in claims.documents.values() for span in document.spans]
    facts = Rendered(
        audit=audit,
        head_sha256=head,
        claims=len(claims.claims),
        numbers=sum(span.of not in set(Exempt) for span in spans),
        not_established=sum(claim.ground is Ground.NOT_ESTABLISHED for claim in claims.claims),
        files=(BRIEF, ANALYSIS, PAGE, CLAIMS, REPORT, OUTCOME),
        pdf=None if without_pdf else PDF,
        pdf_missing=without_pdf,
    )
    this.end(Reported.RENDERED, facts)


def _refuse_unsound(attempt: Attempt, found: Verification) -> None:
    if found.holds:
        return
    wrong = [fault for one in found.folders for fault in one.faults]
    wrong += [*found.faults, *found.contradictions, *(link.name for link in found.lineage if not link.holds)]
    more = f", and {len(wrong) - _NAMED_FAULTS} more" if len(wrong) > _NAMED_FAULTS else ""
    raise AnswerIsNo(
        f"{attempt.folder} does not hold, and there is no report of it: {'; '.join(wrong[:_NAMED_FAULTS])}{more}; "
        "`opd attempt verify` says it all"
    )
