"""A report of the document's case comes to its conclusions, and of attempts that came less far it says how far."""

import json
import re
from dataclasses import replace as with_changes
from itertools import pairwise

import pytest
from tests.protocol.document.builder import replace
from tests.protocol.document.facts import CONTROL
from tests.protocol.report.conftest import make_report, seal_audit

from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.state import status
from opd.protocol.attempts.verify import verify
from opd.protocol.clock import now
from opd.protocol.report.checking import verify_report
from opd.protocol.report.sources import Sources
from opd.protocol.report.story import story
from opd.records.attempts import Explored, Replayed, Stage
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.reports import PAGE
from opd.view.attempts.page import write_page

UNSCORED = {
    "number": 1, "checkpoint": "/runs/a/checkpoint-4", "note": None, "sha256": None, "benchmark": "arith_tiny",
    "protocol_sha256": None, "correct": None, "samples": None, "mean": None, "stderr": None, "cut_short": None,
    "seconds": 3.0, "began_at_seconds": 1.0, "ended_at_seconds": 4.0, "missing": "no tokenizer", "workspace": None,
    "training": None,
}  # fmt: skip


def test_the_official_result_stands_in_both_texts_with_what_it_is_set_beside(told):
    for text in (told.brief, told.analysis):
        assert "809/1,920 = 0.421354 ± 0.051593 at step 2100" in text
        assert "“fixed start”, declared as 0.252083 (484/1,920): +325 correct answers, above it" in text
        assert "declared as 0.427083 ± 0.051615 (820/1,920): −11 correct answers, below it" in text
        assert "no regression against it, because the task declares a number for it and no records" in text


def test_none_of_the_variants_of_step_40_can_be_told_apart(told):
    sentence = (
        "Not established: any difference among U-02 (proxy 2), U-03 (proxy 3) and U-04 (proxy 4), all at step 40, "
        "because no pair of them can be told apart"
    )
    assert sentence in told.brief
    pairs = {(one.a, one.b): one for one in told.report.comparisons if one.of == "proxy"}
    assert len(pairs) == 6
    assert not any(one.distinguishable or one.matched for one in pairs.values())
    assert pairs["proxy 2", "proxy 4"].difference == pytest.approx(0.8295 - 0.8345)


def test_the_shuffle_is_what_was_handed_in_and_is_not_established(told):
    assert [unit.id for unit in told.report.units if unit.adopted] == ["U-04"]
    assert "digest for digest, the one that was submitted" in told.unit(4)
    assert "Not established: that the change caused a difference, because there is no matched control." in told.unit(
        4
    )
    assert "one was trained for 12 steps and the other for 40" in told.unit(4)
    assert (
        "that what was handed in (U-04 (proxy 4)) improved the proxy, or kept it without regression" in told.analysis
    )


def test_a_measurement_of_another_source_is_not_what_was_handed_in(spoilt, tmp_path):
    path = spoilt.built.folder / "explore/attempt-001/proxy/004/outcome.json"
    values = json.loads(path.read_text())
    values["workspace"]["tree_sha256"] = "0" * 64
    replace(path, json.dumps(values).encode())
    sources = Sources(spoilt.built.folder, tmp_path)
    found = story(spoilt.attempt, sources, Evidence(spoilt.attempt, now()), status(spoilt.attempt))
    assert found.adopted is None


def test_a_matched_control_takes_the_place_of_the_doubt(retold):
    told = retold(control=with_changes(CONTROL, correct=1_540, stderr=0.0158))
    controlled = {unit.id: unit.control for unit in told.report.units}
    assert controlled["U-04"] == "proxy 5"
    pair = next(one for one in told.report.comparisons if {one.a, one.b} == {"proxy 4", "proxy 5"})
    assert pair.matched
    assert pair.distinguishable
    assert [{one.a, one.b} for one in told.report.comparisons if one.matched] == [{"proxy 4", "proxy 5"}]
    assert "is its matched control: they differ in `data.shuffle`" in told.unit(4)
    assert "Proxy 5 scored lower than proxy 4" in told.unit(4)
    assert "improved the proxy, or kept it without regression" not in told.analysis


def test_the_clock_ended_formal_training_and_nothing_was_left_unused(told):
    assert "took 41,701.93 of 43,200 s (96.53 %) and was stopped by the wall clock" in told.brief
    assert "it came to step 2106" in told.analysis
    assert "4,212 of 15,285 rows (27.56 %)" in told.brief


def test_a_run_that_stopped_by_itself_is_not_said_to_have_been_stopped(retold):
    told = retold(stop="steps", formal_seconds=25_920)
    assert "25,920 of 43,200 s (60 %)" in told.brief
    assert "stopped by the wall clock" not in told.brief


def test_the_failed_try_is_history_with_its_ruling_and_its_retry(told):
    assert "`formal/attempt-001` ended as `ambiguous`" in told.brief
    assert "Ruled as `infrastructure`" in told.brief
    assert "The identical patch was tried again, as `formal/attempt-002`, and that is what counts." in told.brief
    assert {one.name: one.counts for one in told.report.stages}["formal/attempt-001"] is False


def test_the_end_below_the_greatest_checkpoint_is_no_collapse(told):
    assert "The last checkpoint, step 2106, lies below step 2100: −16 correct answers." in told.analysis
    assert "Not established: that the training collapsed or got worse at its end" in told.analysis


def test_no_heading_of_the_audit_stands_above_nothing(told):
    """What the table says whole has no list of its own below it."""
    for block, below in pairwise(told.analysis.split("\n\n")):
        if re.fullmatch(r"\*\*.*\*\*, .*:", block):
            assert below.startswith("- "), block


def test_the_exploration_began_when_its_program_did(told):
    assert "The exploration began at 2026-07-14 13:08 UTC" in told.analysis


def test_each_unit_has_the_six_headings(told):
    headings = (
        "Motivation and hypothesis", "Concrete change and experimental set-up", "Observed result",
        "Explorer's interpretation", "Assessment and confounds", "Decision and consequence",
    )  # fmt: skip
    assert [unit.id for unit in told.report.units] == ["U-01", "U-02", "U-03", "U-04", "U-05"]
    for unit in told.report.units:
        found = re.findall(r"^\*\*(.+?)\.\*\*", told.unit(int(unit.id[2:])), re.MULTILINE)
        assert tuple(found) == headings


def test_motives_and_readings_are_quoted_with_their_source(told):
    assert "> Hypothesis: the teacher's divergence alone does not say whether an answer is right." in told.unit(2)
    assert "> No gain that I can trust over the reward variant, and more memory. I drop it." in told.unit(3)
    assert "> — `explore/attempt-001/trajectory/atif.json`" in told.unit(3)


def test_what_was_trained_and_never_measured_is_no_evidence_of_a_score(told):
    assert "`explore/attempt-001/runs/stability` reached step 63 of 110 that were asked for" in told.unit(5)
    assert "`explore/attempt-001/runs/probe-240s` reached step 6 of 2200" in told.unit(5)
    assert "Without a measurement it says nothing of the score." in told.unit(5)
    assert "`explore/attempt-001/runs/smoke` reached step 6" in told.unit(4)


def test_a_proxy_and_a_final_are_never_compared(told):
    labels = {one.label: one.of for one in (*told.report.proxies, *told.report.finals)}
    assert {labels[one.a] == labels[one.b] == one.of for one in told.report.comparisons} == {True}
    numbers = {claim.id: claim.file or "" for claim in told.claims.claims}
    for claim in told.claims.claims:
        files = [numbers[name] for name in re.findall(r"c\d+", claim.formula or "")]
        assert not (any("/proxy/" in one for one in files) and any(one.startswith("final/") for one in files))


def test_the_audit_is_told_in_its_own_words_and_what_it_compares_is_not_ours(told):
    assert "Agent behaviour: **confirmed** — 3,289 s ≥ 1,759 s: it improves." in told.brief
    assert "errno 70 at step 540. What protects the result all the same: the second try is clean." in told.brief
    assert "| lineage | **none found** | 20 links hold. | 219 | all 1 |" in told.analysis


def test_no_sentence_begins_in_lower_case_and_no_blank_is_double(told):
    for text in (told.brief, told.analysis):
        lines = [line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n") if line[:1] != ">"]
        assert [line for line in lines if re.search(r"\S  +\S|[a-z)]\. [a-z]", line)] == []


def test_what_formal_training_is_given_is_told_with_what_the_audit_says_of_the_rest(told):
    assert "Formal training is given the patch and the fixed inputs. Whether anything else" in told.brief
    assert "is the audit's to say; explore-to-formal separation: **none found**." in told.brief


def test_missing_is_null_in_the_record_and_said_in_the_text(lab):
    lab.explore(Explored.NO_CANDIDATE)
    seal_audit(lab.attempt)
    make_report(lab.attempt)
    text = (lab.folder / "report/attempt-001/analysis.md").read_text()
    report = json.loads((lab.folder / "report/attempt-001/report.json").read_text())
    assert "There is no official score: nothing was handed in." in text
    assert "Nothing was handed in, so nothing was trained formally, and there is no score." in text
    assert "What this attempt shows:" in text
    assert "What it does not show" not in text, "there is nothing to list"
    assert (report["patch"], report["finals"], report["comparisons"]) == (None, [], [])
    assert verify_report(lab.attempt).holds


def test_a_measurement_without_a_score_says_why_and_is_compared_with_nothing(lab):
    with lab.trying(lab.attempt.next(Stage.EXPLORE), {"base": lab.attempt.identity.base_sha256}) as this:
        (this.folder / "proxy/001").mkdir(parents=True)
        (this.folder / "proxy/001/outcome.json").write_text(json.dumps(UNSCORED))
        this.end(Explored.DEADLINE)
    seal_audit(lab.attempt)
    make_report(lab.attempt)
    report = json.loads((lab.folder / "report/attempt-001/report.json").read_text())
    assert [(one["mean"], one["missing"], one["step"]) for one in report["proxies"]] == [(None, "no tokenizer", None)]
    assert report["comparisons"] == []
    assert "No score: no tokenizer." in (lab.folder / "report/attempt-001/analysis.md").read_text()
    assert verify_report(lab.attempt).holds


@pytest.mark.parametrize(
    ("outcome", "words"),
    [(Replayed.FAILED_CANDIDATE, "ended as `failed_candidate` without a checkpoint"), (None, "was not trained")],
)
def test_an_attempt_without_a_score_says_how_far_it_came(lab, outcome, words):
    lab.explore()
    if outcome:
        lab.formal(outcome)
    seal_audit(lab.attempt)
    make_report(lab.attempt)
    assert words in (lab.folder / "report/attempt-001/brief.md").read_text()
    assert verify_report(lab.attempt).holds


def test_a_patch_from_outside_is_told_without_an_exploration(lab):
    lab.submit(note="by hand")
    lab.formal(Replayed.FAILED_CANDIDATE)
    seal_audit(lab.attempt)
    make_report(lab.attempt)
    text = (lab.folder / "report/attempt-001/analysis.md").read_text()
    assert "Nothing was explored in this attempt; its patch came from outside." in text
    assert verify_report(lab.attempt).holds


def test_a_final_that_failed_says_why(lab):
    lab.explore()
    lab.formal(steps=(10,))
    lab.validate(10)
    lab.final(10, None)
    seal_audit(lab.attempt)
    make_report(lab.attempt)
    assert "There is no official score: it broke." in (lab.folder / "report/attempt-001/brief.md").read_text()
    report = json.loads((lab.folder / "report/attempt-001/report.json").read_text())
    assert [(one["mean"], one["missing"]) for one in report["finals"]] == [(None, "it broke")]


def test_no_report_is_made_of_an_attempt_that_does_not_hold_and_the_file_is_named(spoilt):
    replace(spoilt.built.folder / "final/step-002100/evaluation/score.json", b"{}")
    assert not verify(spoilt.attempt).holds
    with pytest.raises(AnswerIsNo, match=r"there is no report of it: .*step-002100/evaluation/score.json"):
        make_report(spoilt.attempt)
    assert not spoilt.attempt.place(Stage.REPORT, 2).partial.exists()


def test_no_report_is_made_without_an_audit_that_has_seen_everything(lab):
    lab.explore()
    seal_audit(lab.attempt)
    lab.formal(Replayed.FAILED_CANDIDATE)
    with pytest.raises(AnswerIsNo, match="no audit has seen all that is sealed"):
        make_report(lab.attempt)


def test_a_program_that_fails_leaves_no_report_that_counts(lab):
    def broken(*_: object) -> None:
        raise AnswerIsNo("the page was not made: no matplotlib")

    lab.explore()
    seal_audit(lab.attempt)
    with pytest.raises(AnswerIsNo, match="no matplotlib"):
        make_report(lab.attempt, page=broken)
    assert lab.receipt("report/attempt-001").outcome == Replayed.INFRA_FAILED
    with pytest.raises(AskedWrongly, match="has no sealed report"):
        verify_report(lab.attempt)


def test_a_report_is_made_from_its_audit_and_from_the_log_as_it_was(told):
    made_from = json.loads((told.folder / "receipt.json").read_text())["made_from"]
    assert {"audit/attempt-001/receipt.json", "log", "install", "task"} <= made_from.keys()
    assert verify(told.attempt).holds


def test_the_page_of_the_view_shows_the_numbers_of_the_texts(spoilt):
    (spoilt.folder / PAGE).unlink()
    write_page(spoilt.folder, spoilt.built.folder)
    wrong = [fault for fault in verify_report(spoilt.attempt).faults if PAGE in fault and "sha256" not in fault]
    assert wrong == []
