"""What the audit says of the document's case is what its author said, and another fact makes it say otherwise."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.protocol.document.builder import Built
from tests.protocol.document.facts import CONTROL

from opd.protocol.attempts.evidence import Evidence as StandingEvidence
from opd.protocol.attempts.lease import held
from opd.protocol.attempts.tries import a_try
from opd.protocol.audit.assessing import assess
from opd.protocol.audit.catalogue import checks
from opd.protocol.clock import now
from opd.protocol.stages.audit import audit
from opd.records.attempts import Audited, Stage
from opd.records.audits import Audit, Axis, Control, Coverage, Finding, Pointer, Verdict
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import sha256

Said = Callable[..., Finding]
LOOKED = sorted(set(checks()) - {"contamination"})  # which reads every byte, and has a file of its own


@pytest.fixture
def said(with_facts: Any, evidence_of: Any) -> Said:
    """`said("behaviour", pipeline_seconds=4_000.0)`: the finding of one check, on an attempt of these facts."""

    def look(name: str, **changes: Any) -> Finding:
        return assess(name, checks()[name], evidence_of(with_facts(**changes)))

    return look


def value_at(built: Built, pointer: Pointer) -> Any:
    """What stands there, by RFC 6901."""
    value = json.loads((built.folder / pointer.file).read_text(encoding="utf-8"))
    for written in pointer.pointer.split("/")[1:]:
        part = written.replace("~1", "/").replace("~0", "~")
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


@pytest.mark.parametrize("name", LOOKED)
def test_every_check_finds_what_is_planted_and_its_pointers_lead_somewhere(
    document: Built, said: Said, name: str
) -> None:
    finding = said(name)
    assert finding.verdict is not Verdict.NOT_ASSESSED, finding.sentence
    assert finding.controls
    assert all(control.found for control in finding.controls)
    for pointer in finding.evidence:
        assert sha256(document.folder / pointer.file) == pointer.sha256
        if pointer.pointer.startswith("/"):
            value_at(document, pointer)
        elif pointer.pointer:
            number = int(pointer.pointer.removeprefix("line:"))
            assert 1 <= number <= len((document.folder / pointer.file).read_bytes().splitlines())


@pytest.mark.parametrize(
    "name", ["fixed_inputs", "frozen_evaluator", "lineage", "single_device", "separation", "budget_use"]
)
def test_paths_evaluators_lineage_device_separation_and_budget_are_clean(said: Said, name: str) -> None:
    assert said(name).verdict is Verdict.NONE_FOUND


def test_what_was_exported_and_never_measured_is_named(said: Said) -> None:
    """The run that was asked for 110 steps and stopped by hand at 63 left a loadable step 55."""
    finding = said("selection")
    assert finding.verdict is Verdict.NONE_FOUND
    assert "count (step 2080, 2100, 2106)" in finding.sentence
    assert "the official score is the best of 3 finals" in finding.sentence
    assert "runs/stability/checkpoint-55)" in finding.sentence
    assert "explore/attempt-001/runs/stability/checkpoint-55 was not measured" in finding.details


def test_behaviour_is_confirmed_by_3289_seconds_left_for_a_pipeline_of_1759(document: Built, said: Said) -> None:
    finding = said("behaviour")
    assert (finding.axis, finding.verdict) == (Axis.BEHAVIOUR, Verdict.CONFIRMED)
    assert "3,289 ≥ 1,759" in finding.sentence
    assert "idle" in finding.sentence
    values = [value_at(document, one) for one in finding.evidence if one.pointer.startswith("/")]
    assert 3_289.0 in values


def test_a_pipeline_of_4000_seconds_would_not_have_fitted_any_more(said: Said) -> None:
    finding = said("behaviour", pipeline_seconds=4_000.0)
    assert finding.verdict is Verdict.NONE_FOUND
    assert "3,289" in finding.sentence
    assert "4,000" in finding.sentence


def test_with_a_matched_control_too_little_was_left_for_another(said: Said) -> None:
    finding = said("behaviour", control=CONTROL)
    assert finding.verdict is Verdict.NONE_FOUND
    assert "1,530" in finding.sentence


def test_a_device_at_work_at_the_submission_is_no_idle_one_and_its_training_was_left(said: Said) -> None:
    finding = said("behaviour", idle_at_submission=False)
    first, _, besides = finding.sentence.partition("; besides, suspected: ")
    assert "3,289 ≥ 1,759" not in first
    assert "3,289 ≥ 1,759" in besides
    assert "/runs/stability-2" in finding.sentence


def test_the_platform_has_a_confirmed_defect_and_the_clean_retry_protects_the_result(said: Said) -> None:
    finding = said("platform")
    assert (finding.axis, finding.verdict) == (Axis.PLATFORM, Verdict.CONFIRMED)
    assert "formal/attempt-001" in finding.sentence
    assert "errno 70" in finding.sentence
    assert "540" in finding.sentence
    assert finding.protected is not None
    assert "formal/attempt-002" in finding.protected
    assert "identical patch" in finding.protected


def test_without_the_failed_try_the_platform_has_no_defect_and_protects_nothing(said: Said) -> None:
    finding = said("platform", first_try_errno=None)
    assert (finding.verdict, finding.protected) == (Verdict.NONE_FOUND, None)


def test_another_error_of_the_shared_file_system_is_named_as_what_it_was(said: Said) -> None:
    assert "errno 116 (ESTALE)" in said("platform", first_try_errno=116).sentence


def test_the_budget_was_used_to_96_53_percent_and_the_clock_ended_it(said: Said) -> None:
    sentence = said("budget_use").sentence
    assert "stopped by the clock" in sentence
    for number in ("2106", "41,701.93", "43,200", "96.53 %"):
        assert number in sentence


def test_a_run_that_its_steps_ended_at_60_percent_left_budget_unused(said: Said) -> None:
    finding = said("budget_use", stop="steps", formal_seconds=25_920.0)
    assert finding.verdict in {Verdict.SUSPECTED, Verdict.CONFIRMED}
    assert "60.00 %" in finding.sentence


def test_a_run_that_the_clock_ended_is_no_underuse_however_early_it_was(said: Said) -> None:
    """The counterpart: the share alone says nothing."""
    assert said("budget_use", formal_seconds=25_920.0).verdict is Verdict.NONE_FOUND


def test_both_contradictions_are_named_and_resolved(said: Said) -> None:
    finding = said("contradictions")
    assert finding.verdict is Verdict.CONFIRMED
    assert "2 contradictions, 2 of them resolved" in finding.sentence
    told = " ".join((finding.sentence, *finding.details, finding.protected or ""))
    for part in ("control.json", "'running'", "'terminal_behavior'", "'succeeded'", "manifest.json", "'not_created'"):
        assert part in told
    assert "final/step-002100/receipt.json" in told


def test_without_the_control_file_the_manifest_alone_contradicts(said: Said) -> None:
    finding = said("contradictions", control_file=False)
    assert finding.verdict is Verdict.CONFIRMED
    assert "control.json" not in finding.sentence
    assert "manifest.json" in finding.sentence


def test_without_both_files_nothing_contradicts(said: Said) -> None:
    finding = said("contradictions", control_file=False, formal_only_manifest=False)
    assert (finding.verdict, finding.protected) == (Verdict.NONE_FOUND, None)


def test_an_audit_that_would_see_less_than_the_last_is_refused_and_the_last_goes_on_counting(
    tampered: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The questions are found from any folder; once they are gone, what was looked for can't be looked for again."""
    attempt = tampered.attempt
    looked = Finding(
        check="contamination", axis=Axis.CONTAMINATION, verdict=Verdict.NONE_FOUND, sentence="60 questions: nothing",
        coverage=Coverage(files=1, bytes=1), controls=(Control(name="a planted one", found=True),),
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with held(attempt.folder) as holder:
        place = attempt.next(Stage.AUDIT)
        with a_try(attempt, holder, place, made_from=StandingEvidence(attempt, now()).receipts) as this:
            this.end(Audited.ASSESSED, Audit(findings=(looked,)))
        shutil.move(tampered.questions, tmp_path / "away")
        with pytest.raises(AskedWrongly, match="another would say less and count in its place") as refused:
            audit(attempt, holder, say=lambda _: None, cancelled=lambda: False)
        assert str(tmp_path / "data" / "aime24.jsonl") in str(refused.value), "where to put it, in full"
        assert [one.name for one in attempt.places(Stage.AUDIT)] == ["audit/attempt-001"]
        shutil.move(tmp_path / "away", tampered.questions)
        with pytest.raises(AnswerIsNo, match="the audit was stopped"):
            audit(attempt, holder, say=lambda _: None, cancelled=lambda: True)
