"""The document's case with an audit and a report, made once.

told        the attempt with its report, and what to read of it
retold      `retold(Facts…)`: the same of the case with another fact
spoilt      a copy of `told`, to be changed
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.protocol.document.builder import Built, clone
from tests.protocol.document.conftest import document, shelf, with_facts  # noqa: F401  fixtures

from opd.cli.compare import compare
from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.lease import held
from opd.protocol.attempts.tries import a_try
from opd.protocol.clock import now
from opd.protocol.stages.report import Making, render
from opd.records.attempts import Audited, Stage
from opd.records.audits import Audit, Axis, Control, Coverage, Finding, Verdict
from opd.records.claims import Claim, Claims
from opd.records.reports import ANALYSIS, BRIEF, CLAIMS, PAGE, REPORT, Report
from opd.records.settings import read

FINDINGS = (
    Finding(
        check="lineage", axis=Axis.LINEAGE, verdict=Verdict.NONE_FOUND, sentence="20 links hold", details=(),
        coverage=Coverage(files=219, bytes=1), controls=(Control(name="another patch", found=True),),
    ),
    Finding(
        check="behaviour", axis=Axis.BEHAVIOUR, verdict=Verdict.CONFIRMED, sentence="3,289 s ≥ 1,759 s: it improves",
        details=("the device was idle",), protected=None, coverage=Coverage(files=12, bytes=1),
        controls=(Control(name="a pipeline that took longer", found=True),),
    ),
    Finding(
        check="platform", axis=Axis.PLATFORM, verdict=Verdict.CONFIRMED, sentence="errno 70 at step 540",
        details=("errno 70 at step 540",), protected="the second try is clean",
        coverage=Coverage(files=10, bytes=1), controls=(),
    ),
    Finding(
        check="separation", axis=Axis.SEPARATION, verdict=Verdict.NONE_FOUND, sentence="opened nothing of it",
        coverage=Coverage(files=7, bytes=1), controls=(Control(name="a file that was opened", found=True),),
    ),
    Finding(
        check="budget_use", axis=Axis.BUDGET_USE, verdict=Verdict.NONE_FOUND, sentence="its time was used",
        coverage=Coverage(files=3, bytes=1), controls=(Control(name="a run that ended at once", found=True),),
    ),
)  # fmt: skip


def by_click(folder: Path, folders: Sequence[str], lead: int = 1) -> object:
    """What the command line says, without a process of its own."""
    arguments = [*(str(folder / one) for one in folders), "--lead", str(lead), "--json"]
    said = CliRunner().invoke(compare, arguments, catch_exceptions=False)
    return json.loads(said.output)


def plain_page(_: Path, report: Path) -> None:
    """A page of nothing but the claims, each where it stands."""
    claims = read(Claims, report / CLAIMS)
    articles = []
    for name, text in claims.documents.items():
        shown = [claims.by_id()[span.of] for span in text.spans if span.of in claims.by_id()]
        lines = [_data(one) for one in shown if one.origin == "computed" and one.form not in {"quote", "listing"}]
        articles.append(f'<article data-document="{name}">{"".join(lines)}</article>')
    (report / PAGE).write_text(f"<!doctype html>{''.join(articles)}")


def _data(claim: Claim) -> str:
    text = claim.text.replace("`", "").replace("&", "&amp;").replace("<", "&lt;")
    return f'<data data-claim="{claim.id}">{text}</data>'


def seal_audit(attempt: Attempt, findings: tuple[Finding, ...] = FINDINGS) -> None:
    """An audit that has seen all that is sealed."""
    made_from = Evidence(attempt, now()).receipts
    place = attempt.next(Stage.AUDIT)
    with held(attempt.folder) as holder, a_try(attempt, holder, place, made_from=made_from) as this:
        this.end(Audited.ASSESSED, Audit(findings=findings))


def make_report(attempt: Attempt, **programs: Any) -> None:
    with held(attempt.folder) as holder:
        render(attempt, holder, Making(**({"compare": by_click, "page": plain_page} | programs)), say=lambda _: None)


@dataclass(frozen=True)
class Told:
    """An attempt and its report."""

    built: Built

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.built.folder)

    @property
    def folder(self) -> Path:
        return self.built.folder / "report" / "attempt-001"

    @cached_property
    def brief(self) -> str:
        return (self.folder / BRIEF).read_text(encoding="utf-8")

    @cached_property
    def analysis(self) -> str:
        return (self.folder / ANALYSIS).read_text(encoding="utf-8")

    @cached_property
    def claims(self) -> Claims:
        return read(Claims, self.folder / CLAIMS)

    @cached_property
    def report(self) -> Report:
        return read(Report, self.folder / REPORT)

    def unit(self, number: int) -> str:
        """The text of U-0n."""
        return self.analysis.partition(f"### U-{number:02d} ")[2].partition("\n### ")[0]


Retold = Callable[..., Told]


@pytest.fixture(scope="session")
def retold(with_facts: Callable[..., Built], shelf: Path) -> Retold:  # noqa: F811
    known: dict[Built, Told] = {}

    def tell(**changes: Any) -> Told:
        built = with_facts(**changes)
        if built not in known:
            copy = clone(built, shelf / f"told-{len(known):02d}")
            seal_audit(copy.attempt)
            make_report(copy.attempt)
            known[built] = Told(copy)
        return known[built]

    return tell


@pytest.fixture(scope="session")
def told(retold: Retold) -> Told:
    return retold()


@pytest.fixture
def spoilt(told: Told, shelf: Path) -> Iterator[Told]:  # noqa: F811
    with tempfile.TemporaryDirectory(dir=shelf, prefix="spoilt-") as folder:
        yield Told(clone(told.built, Path(folder) / "told"))
