"""A score's report as one self-contained page: no scripts, nothing from the network, all text escaped."""

from pathlib import Path

from opd.records.files import write_text
from opd.records.score_report import ScoreReport
from opd.view.page import page
from opd.view.plain import shown
from opd.view.scores.pictures import pictures
from opd.view.scores.sections import sections
from opd.view.words import interval, number

_TEMPLATE = "scores/score.html.j2"
_MOST = 100  # rows of a list


def write_page(path: Path, report: ScoreReport) -> None:
    """The page stands in the file, whole or not at all."""
    write_text(path, render(report))


def render(report: ScoreReport) -> str:
    """The page as HTML; equal reports give equal text."""
    said = sections(report, most=_MOST)
    return page(
        _TEMPLATE,
        title=shown(report.benchmark or report.name, longest=200),
        model=shown(report.model or report.name, longest=200),
        mean=number(report.mean, 4),
        error=number(report.stderr, 4),
        interval=interval(report.ci95, digits=4),
        report=report,
        sections=said,
        pictures=pictures(report, said),
        questions=[
            (shown(one.question), f"{one.correct}/{one.samples}", interval(one.interval), shown(one.gold or ""))
            for one in report.by_question
        ],
    )
