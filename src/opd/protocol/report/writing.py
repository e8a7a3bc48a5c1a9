"""The two texts of a report, and its claims, as the text's own linter lets them stand."""

from collections.abc import Callable

from opd.protocol.report.audited import audited
from opd.protocol.report.formal import evidence
from opd.protocol.report.opening import identity
from opd.protocol.report.pen import Pen
from opd.protocol.report.task import contract
from opd.protocol.report.telling import brief, overview, takeaway
from opd.protocol.report.units import explored
from opd.records.claims import Form
from opd.records.reports import ANALYSIS, BRIEF, COMPARISONS


def texts(pen: Pen) -> dict[str, str]:
    """brief.md and analysis.md; their claims are in the pen's book afterwards."""
    is_there = here(pen)
    return {
        BRIEF: pen.book.written(BRIEF, brief(pen), is_there=is_there),
        ANALYSIS: pen.book.written(ANALYSIS, analysis(pen), is_there=is_there),
    }


def analysis(pen: Pen) -> str:
    """The whole, by sections."""
    sections = [identity, overview, contract, explored, evidence, audited, takeaway]
    title = f"# {pen.of(pen.story.run['case'], Form.CODE)} — analysis"
    return "\n\n".join([title, *(section(pen) for section in sections)]) + "\n"


def here(pen: Pen) -> Callable[[str], bool]:
    """Whether a name is that of a file or folder of the attempt, or of the report."""
    attempt, report = pen.story.sources.attempt, pen.story.sources.report
    return lambda name: ((report if name.startswith(COMPARISONS) else attempt) / name).exists()
