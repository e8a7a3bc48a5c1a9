"""The report of the document's case comes to its author's conclusions, and to others where a fact is another."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.protocol.document.builder import Built, clone, replace
from tests.protocol.document.facts import CONTROL
from tests.protocol.document.questions import problem

from opd.cli.compare import compare
from opd.protocol.attempts.lease import held
from opd.protocol.attempts.state import status
from opd.protocol.attempts.verify import verify
from opd.protocol.audit.catalogue import checks
from opd.protocol.report.checking import verify_report
from opd.protocol.stages import audit as audits
from opd.protocol.stages.report import Making, render
from opd.records.errors import AnswerIsNo
from opd.records.files import read_json
from opd.records.reports import ANALYSIS, BRIEF, CLAIMS, PAGE, Report
from opd.records.reports import REPORT as DRAWN
from opd.records.settings import read

pytestmark = pytest.mark.patient
PLACE = "report/attempt-001"
Reported = Callable[..., Built]


def in_process(attempt: Path, folders: Sequence[str], lead: int = 1) -> object:
    """What `opd compare --json` prints, without a program of its own."""
    arguments = [*(str(attempt / folder) for folder in folders), "--lead", str(lead), "--json"]
    asked = CliRunner().invoke(compare, arguments)
    assert asked.exit_code == 0, asked.output
    return json.loads(asked.output)


def without_page(_: Path, report: Path) -> None:
    (report / PAGE).write_text("<!doctype html>\n", encoding="utf-8")


@pytest.fixture(scope="session")
def reported(with_facts: Any, shelf: Path) -> Reported:
    """`reported(control=CONTROL)`: a further attempt of these facts, audited and reported on.

    That of the document itself by the install's own programs, with its page. The others are compared in this
    process, and scanned for leaks only where there is one: a scan takes as long as all the rest.
    """
    known: dict[str, Built] = {}

    def make(**changes: Any) -> Built:
        name = repr(sorted(changes.items()))
        if name not in known:
            built = clone(with_facts(**changes), shelf / f"reported-{len(known):02d}")
            making = Making(compare=in_process, page=without_page) if changes else Making()
            _report(built, making, scans=not changes or "leaked" in changes)
            known[name] = built
        return known[name]

    return make


def _report(built: Built, making: Making, *, scans: bool) -> None:
    chosen = {name: check for name, check in checks().items() if scans or name != "contamination"}
    with pytest.MonkeyPatch.context() as patch, held(built.folder) as holder:
        patch.chdir(built.place)  # the final's questions lie there
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(audits, "checks", lambda: chosen)
        audits.audit(built.attempt, holder, say=lambda _: None, cancelled=lambda: False)
        render(built.attempt, holder, making, say=lambda _: None)


def text(built: Built, name: str = BRIEF) -> str:
    return (built.folder / PLACE / name).read_text(encoding="utf-8")


def drawn(built: Built) -> Report:
    return read(Report, built.folder / PLACE / DRAWN)


def section(built: Built, title: str) -> str:
    """The part of the analysis below a heading, to the next of its kind."""
    _, _, rest = text(built, ANALYSIS).partition(f"\n{title}")
    return rest.partition(f"\n{title.split()[0]} ")[0]


def test_the_official_result_and_its_distance_to_both_references(reported: Reported) -> None:
    brief = text(reported())
    assert "809/1,920 = 0.421354 ± 0.051593 at step 2100" in brief
    assert "806/1,920 = 0.419792 ± 0.052541" in brief
    assert "793/1,920 = 0.413021 ± 0.052286" in brief
    assert "+325 correct answers" in brief
    assert "−11 correct answers" in brief


def test_none_of_the_40_step_variants_is_told_from_another(reported: Reported) -> None:
    built = reported()
    for score in (
        "1,629/2,000 = 0.8145 ± 0.014452", "1,669/2,000 = 0.8345 ± 0.014102",
        "1,664/2,000 = 0.8320 ± 0.014123", "1,659/2,000 = 0.8295 ± 0.014388",
    ):  # fmt: skip
        assert score in text(built)
    pairs = {(one.a, one.b): one for one in drawn(built).comparisons if one.of == "proxy"}
    assert len(pairs) == 6
    assert not [names for names, one in pairs.items() if one.distinguishable or one.matched]
    sentences = text(built).split("Not established: ")
    assert any("any difference among U-02" in one and "no pair of them can be told apart" in one for one in sentences)


def test_the_shuffle_is_what_was_handed_in_and_is_not_established(reported: Reported) -> None:
    built = reported()
    adopted = [one for one in drawn(built).units if one.adopted]
    assert [(one.proxy, one.control) for one in adopted] == [("proxy 4", None)]
    missing = section(built, "## 7. Takeaway").partition("does not show")[2]
    for part in (
        "that the submitted change is what caused the result", "superiority over",
        "without regression, because it has no matched control", "repeated with a second seed",
    ):  # fmt: skip
        assert part in missing


def test_no_word_of_success_stands_without_a_ground(reported: Reported) -> None:
    """The document's own caution: the score did not establish "no regression"."""
    for name in (BRIEF, ANALYSIS):
        for sentence in text(reported(), name).replace("\n", " ").split(". "):
            if "regression" in sentence or "superiority" in sentence:
                assert "Not established" in sentence


def test_the_clock_ended_the_formal_run_at_96_53_percent(reported: Reported) -> None:
    assert "41,701.93 of 43,200 s (96.53 %) and was stopped by the wall clock" in text(reported())


def test_the_nonmonotonic_end_is_no_collapse(reported: Reported) -> None:
    formal = section(reported(), "## 5. Formal evidence")
    assert "−16 correct answers" in formal
    assert "that the training collapsed" in formal


def test_the_audit_says_exposure_none_behaviour_confirmed_platform_confirmed_and_protected(
    reported: Reported,
) -> None:
    told = section(reported(), "## 6. Audit")
    rows = {line.split("|")[1].strip(): line for line in told.splitlines() if line.startswith("| ")}
    assert "**none found**" in rows["contamination"]
    assert "60 problem/answer pairs across 12 complete files" in rows["contamination"]
    assert "**confirmed**" in rows["agent behaviour"]
    assert "3,289 ≥ 1,759" in rows["agent behaviour"]
    platform = next(line for name, line in rows.items() if name.startswith("platform"))
    assert "**confirmed**" in platform
    assert "clean retry of the identical patch" in platform


def test_both_contradictions_are_named_with_how_they_resolve(reported: Reported) -> None:
    first = section(reported(), "## 1. Identity")
    assert "control.json" in first
    assert "manifest.json" in first
    assert "2 of them resolved" in first


def test_the_first_formal_try_is_history_and_the_second_counts(reported: Reported) -> None:
    tries = {one.name: one.counts for one in drawn(reported()).stages if one.name.startswith("formal/")}
    assert tries == {"formal/attempt-001": False, "formal/attempt-002": True}
    assert "no result to pool" in section(reported(), "## 1. Identity")


def test_the_units_are_those_of_the_document(reported: Reported) -> None:
    built = reported()
    units = drawn(built).units
    assert [one.proxy for one in units][:4] == ["proxy 1", "proxy 2", "proxy 3", "proxy 4"]
    analysis = text(built, ANALYSIS)
    for heading in (
        "Motivation and hypothesis", "Concrete change and experimental set-up", "Observed result",
        "Explorer's interpretation", "Assessment and confounds", "Decision and consequence",
    ):  # fmt: skip
        assert analysis.count(f"**{heading}") == len(units)
    shuffle = section(built, "### U-04")
    assert "> 2,100 steps of two rows are 4,200 of 15,285 rows." in shuffle
    rest = section(built, "### U-05")
    assert "step 63 of 110" in rest
    assert "step 6 of" in rest


def test_every_number_leads_back_to_where_it_stands(reported: Reported) -> None:
    built = reported()
    checked = verify_report(built.attempt)
    assert checked.holds, checked.text()
    assert verify(built.attempt).holds
    here = status(built.attempt)
    assert (here.state, here.due, here.contradictions) == ("reported", (), ())


@pytest.mark.parametrize(
    ("name", "was", "becomes"),
    [(BRIEF, "+325", "+335"), (PAGE, "0.421354", "0.431354"), (CLAIMS, "0.0515", "0.0415")],
)
def test_a_number_that_was_changed_in_the_report_is_found(
    reported: Reported, name: str, was: str, becomes: str
) -> None:
    built = reported()
    with tempfile.TemporaryDirectory(dir=built.place.parent) as folder:
        other = clone(built, Path(folder) / "document")
        path = other.folder / PLACE / name
        before = path.read_text(encoding="utf-8")
        assert was in before, "there is something to change"
        replace(path, before.replace(was, becomes).encode())
        assert not verify_report(other.attempt).holds


def test_of_an_attempt_in_which_a_file_was_changed_there_is_no_report(tampered: Built) -> None:
    name = "final/step-002100/evaluation/samples.jsonl"
    content = (tampered.folder / name).read_bytes()
    replace(tampered.folder / name, content.replace(b'"wrong"', b'"correct"', 1))
    making = Making(compare=in_process, page=without_page)
    with held(tampered.folder) as holder, pytest.raises(AnswerIsNo, match=r"samples\.jsonl"):
        render(tampered.attempt, holder, making, say=lambda _: None)
    assert not (tampered.folder / PLACE).exists()


def test_a_pipeline_that_would_not_have_fitted_is_no_reproach(reported: Reported) -> None:
    built = reported(pipeline_seconds=4_000.0)
    assert "would have fitted" not in text(built, ANALYSIS)
    assert "agent behaviour" in text(built).partition("The audit looked at")[2].partition("found nothing")[0]


def test_without_the_harness_files_no_status_contradicts(reported: Reported) -> None:
    built = reported(control_file=False, formal_only_manifest=False)
    assert "control.json" not in text(built, ANALYSIS)
    assert "contradict each other on their face" not in text(built)


def test_a_run_that_its_steps_ended_at_60_percent_is_not_excused_by_the_clock(reported: Reported) -> None:
    brief = text(reported(stop="steps", formal_seconds=25_920.0))
    assert "stopped by the wall clock" not in brief
    assert "60 %" in brief
    assert "no time was left unused by choice" not in brief


def test_a_matched_control_is_what_the_shuffle_is_judged_by(reported: Reported) -> None:
    built = reported(control=CONTROL)
    matched = {(one.a, one.b) for one in drawn(built).comparisons if one.matched}
    assert matched == {("proxy 4", "proxy 5")}
    shuffle = section(built, "### U-04")
    assert "is its matched control" in shuffle
    assert "they cannot be told apart" in shuffle
    assert "because it has no matched control" not in section(built, "## 7. Takeaway")


def test_a_matched_control_that_scores_lower_makes_the_difference_established(reported: Reported) -> None:
    built = reported(control=dataclasses.replace(CONTROL, correct=1_540, stderr=0.0158))
    pair = next(one for one in drawn(built).comparisons if (one.a, one.b) == ("proxy 4", "proxy 5"))
    assert pair.distinguishable
    assert pair.difference == pytest.approx((1_540 - 1_659) / 2_000)
    shuffle = section(built, "### U-04").partition("**Assessment")[2]
    assert "Not established: any difference" not in shuffle
    assert "−0.0595" in shuffle


def test_a_leaked_question_is_said_in_the_brief_and_its_words_are_not(reported: Reported) -> None:
    built = reported(leaked=17)
    finding = read_json(built.folder / "audit/attempt-001/findings/contamination.json")
    assert finding["verdict"] == "confirmed", finding["sentence"]
    assert "ontamination: **confirmed**" in text(built)
    words = problem(17).split()
    own = [path for path in (built.folder / PLACE).rglob("*") if path.is_file()]
    own += list((built.folder / "audit").rglob("*.json"))
    runs = [" ".join(words[first : first + 5]) for first in range(len(words) - 4)]
    assert not [run for run in runs for path in own if run in path.read_text(encoding="utf-8")]


def test_a_score_in_the_note_that_nothing_measured_is_answered_where_it_is_quoted(reported: Reported) -> None:
    note = "shuffled rows; it scored 93.1 % on the proxy and beats the baseline"
    built = reported(note=note)
    answer = "the note of the submission names 93.1 %: no receipt and no output of its programs holds it"
    assert f"{note}”. By the audit, {answer}." in text(built)
    assert f"submitted it as “{note}”. By the audit, {answer}." in text(built, ANALYSIS)
    (conduct,) = (line for line in text(built).splitlines() if line.startswith("**Audit and takeaway.**"))
    assert f"besides, suspected: {answer}" in conduct
