"""The document's case as files: what it prints is what they hold, and the product's own commands read them."""

import dataclasses
import json
import math
import statistics
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import ttest_1samp
from tests.protocol.document.builder import VISIBLE, Built, replace
from tests.protocol.document.facts import CASE, CONTROL, PARAMETERS
from tests.protocol.document.questions import problem

from opd.cli.compare import compare
from opd.cli.score import score
from opd.evaluate.comparison import compare as by_product
from opd.evaluate.results import read_results
from opd.protocol.attempts.creating import base_of
from opd.protocol.attempts.state import status
from opd.protocol.attempts.verify import verify
from opd.protocol.explorer.proxy import Proxy
from opd.protocol.patches.patch import apply
from opd.protocol.patches.source import digest_of
from opd.records.attempts import Exploration, Formal, Submission, Validation
from opd.records.files import COMPLETE, read_json, read_lines
from opd.records.metrics import StepMetrics
from opd.records.receipts import RECEIPT
from opd.records.scores import Score
from opd.records.settings import read, validated
from opd.records.trajectories import read_trajectory

EXPLORED = "explore/attempt-001"
PRINTED = {  # as the document prints them
    f"{EXPLORED}/proxy/001": (1_629, 2_000, 0.8145, 0.014452),
    f"{EXPLORED}/proxy/002": (1_669, 2_000, 0.8345, 0.014102),
    f"{EXPLORED}/proxy/003": (1_664, 2_000, 0.8320, 0.014123),
    f"{EXPLORED}/proxy/004": (1_659, 2_000, 0.8295, 0.014388),
    "final/step-002080": (806, 1_920, 0.419792, 0.052541),
    "final/step-002100": (809, 1_920, 0.421354, 0.051593),
    "final/step-002106": (793, 1_920, 0.413021, 0.052286),
}


def lines(built: Built, name: str) -> list[dict[str, Any]]:
    return list(read_lines(built.folder / name))


def shares(folder: Path) -> dict[str, float]:
    """Share of right samples by question, from the samples alone."""
    right: dict[str, list[bool]] = defaultdict(list)
    for row in read_lines(folder / "evaluation" / "samples.jsonl"):
        right[row["question"]].append(row["judgement"]["verdict"] == "correct")
    return {question: sum(one) / len(one) for question, one in right.items()}


def test_the_attempt_is_sealed_whole_and_its_official_result_is_809_of_1920_at_step_2100(document: Built) -> None:
    verification = verify(document.attempt)
    assert verification.holds, verification.text()
    here = status(document.attempt)
    assert here.case == CASE
    assert here.contradictions == ()
    assert here.official is not None
    official = here.official
    assert (official.step, official.correct, official.samples, official.of) == (2_100, 809, 1_920, 3)
    assert [one.outcome for one in here.tries] == [
        "submitted", "sealed", "infra_failed", "completed", "valid", "valid", "valid", "scored", "scored", "scored",
    ]  # fmt: skip


def test_the_result_stands_325_above_the_start_and_11_below_the_shipped_recipe(document: Built) -> None:
    official = status(document.attempt).official
    references = {one.name: one.correct for one in document.attempt.task.contract.references if one.of == "final"}
    assert official is not None
    assert official.correct - (references["fixed start"] or 0) == 325
    assert official.correct - (references["shipped recipe, replayed unmodified"] or 0) == -11


@pytest.mark.parametrize("name", PRINTED)
def test_a_score_and_its_clustered_error_are_the_printed_ones(document: Built, name: str) -> None:
    correct, samples, mean, stderr = PRINTED[name]
    by_question = list(shares(document.folder / name).values())
    own = statistics.stdev(by_question) / math.sqrt(len(by_question))
    assert (round(statistics.fmean(by_question), 6), round(own, 6)) == (mean, stderr)
    written = read(Score, document.folder / name / "evaluation" / "score.json")
    assert (written.correct, written.samples) == (correct, samples)
    assert written.stderr == pytest.approx(own, rel=1e-12)
    outcome = read_json(document.folder / name / "outcome.json")
    assert (outcome["correct"], outcome["mean"], outcome["stderr"]) == (written.correct, written.mean, written.stderr)


def test_the_baseline_was_cut_short_in_221_of_2000_answers(document: Built) -> None:
    proxy = read(Proxy, document.folder / EXPLORED / "proxy/001/outcome.json")
    assert proxy.cut_short == 0.1105
    rows = lines(document, f"{EXPLORED}/proxy/001/evaluation/samples.jsonl")
    assert sum(row["stop"] == "length" for row in rows) == 221


def test_score_and_compare_read_the_evaluations(document: Built) -> None:
    folders = [str(document.folder / EXPLORED / f"proxy/{number:03d}/evaluation") for number in (2, 3, 4)]
    said = CliRunner().invoke(score, [folders[0], "--json"])
    assert said.exit_code == 0, said.output
    assert json.loads(said.output)["correct"] == 1_669
    asked = CliRunner().invoke(compare, folders)
    assert asked.exit_code == 0, asked.output
    assert "can't be told apart" in asked.output or "cannot be told apart" in asked.output


@pytest.mark.parametrize(("first", "second"), [(2, 3), (2, 4), (3, 4)])
def test_no_two_of_the_40_step_variants_can_be_told_apart(document: Built, first: int, second: int) -> None:
    """Paired by question: the t test, and a permutation of 2,000 sign patterns, both worked out here."""
    a, b = (shares(document.folder / EXPLORED / f"proxy/{number:03d}") for number in (first, second))
    differences = np.array([b[question] - a[question] for question in a])
    p_t = float(ttest_1samp(differences, 0.0).pvalue)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(2_000, len(differences)))
    p_flips = float(np.mean(np.abs((signs * differences).sum(axis=1)) >= abs(differences.sum()) - 1e-9))
    assert min(p_t, p_flips) > 0.05
    folders = [document.folder / EXPLORED / f"proxy/{number:03d}/evaluation" for number in (first, second)]
    product = by_product(*map(read_results, folders))
    assert product.distinguishable is False
    assert product.p == pytest.approx(p_t, rel=1e-9)


def test_the_same_evaluations_are_told_apart_where_one_has_100_fewer_right(document: Built, with_facts: Any) -> None:
    built = with_facts(control=dataclasses.replace(CONTROL, correct=1_540, stderr=0.0158))
    folders = [built.folder / EXPLORED / f"proxy/{number:03d}/evaluation" for number in (5, 4)]
    assert by_product(*map(read_results, folders)).distinguishable is True


def test_three_hours_and_five_minutes_were_used_of_four(document: Built) -> None:
    exploration = read(Exploration, document.folder / EXPLORED / "outcome.json")
    submission = read(Submission, document.folder / "submission/outcome.json")
    assert exploration.given_seconds == document.attempt.task.contract.budgets.explore_seconds == 14_400
    assert submission.remaining_seconds == 3_289
    began, *_ = (event for event in document.attempt.events.read() if event.kind == "started")
    handed = next(event for event in document.attempt.events.read() if event.actor == "submission")
    assert (began.at.utc[11:16], handed.at.utc[11:16]) == ("13:08", "16:13")
    assert handed.at.monotonic - began.at.monotonic == 14_400 - 3_289


def test_the_shortest_pipeline_took_1759_s_by_the_ends_of_the_measurements(document: Built) -> None:
    exploration = read(Exploration, document.folder / EXPLORED / "outcome.json")
    ends = [0.0] + [
        read(Proxy, document.folder / EXPLORED / f"proxy/{number:03d}/outcome.json").ended_at_seconds
        for number in (1, 2, 3, 4)
    ]
    spans = [after - before for before, after in pairwise(ends)]
    assert min(spans) == exploration.shortest_pipeline_seconds == 1_759


def test_the_idle_seconds_are_those_of_the_ledger_and_the_device_was_idle_at_the_end(document: Built) -> None:
    seconds = lines(document, f"{EXPLORED}/device.jsonl")
    busy = [one["evaluating"] or one["gpus"][0]["busy"] > 0.05 for one in seconds]
    exploration = read(Exploration, document.folder / EXPLORED / "outcome.json")
    idle = busy.count(False)
    assert idle - 4 * 40 < exploration.idle_seconds <= idle  # windows of five seconds, cut by what begins and ends
    assert not any(busy[-200:])
    assert read(Submission, document.folder / "submission/outcome.json").processes == ("claude", "bash -c submit")


def test_the_patch_has_1543_bytes_and_gives_the_source_that_was_measured_last(document: Built) -> None:
    patch = (document.folder / "submission/candidate.patch").read_bytes()
    assert len(patch) == 1_543
    patched = digest_of(apply(patch, base_of(document.attempt)))
    submission = read(Submission, document.folder / "submission/outcome.json")
    assert submission.patched_sha256 == patched
    sources = [
        read(Proxy, document.folder / EXPLORED / f"proxy/{number:03d}/outcome.json").workspace
        for number in (1, 2, 3, 4)
    ]
    base = document.attempt.identity.base_sha256
    assert [one.tree_sha256 if one else None for one in sources] == [base, base, base, patched]


def test_the_first_formal_try_failed_of_errno_70_at_checkpoint_540_and_was_ruled_infrastructure(
    document: Built,
) -> None:
    first = read(Formal, document.folder / "formal/attempt-001/outcome.json")
    assert first.cause.evidence.claim is not None
    assert (first.cause.evidence.claim.errno, first.cause.evidence.claim.step) == (70, 540)
    assert [one["step"] for one in lines(document, "formal/attempt-001/checkout/checkpoints/metrics.jsonl")][
        -1
    ] == 539
    assert read_json(document.folder / "rulings/001/ruling.json")["verdict"] == "infrastructure"
    second = read(Formal, document.folder / "formal/attempt-002/outcome.json")
    assert second.patch_sha256 == first.patch_sha256
    assert second.checkout_sha256 == first.checkout_sha256


def test_the_formal_run_was_stopped_by_the_clock_at_96_53_percent_and_its_three_checkpoints_are_whole(
    document: Built,
) -> None:
    formal = read(Formal, document.folder / "formal/attempt-002/outcome.json")
    assert (formal.stop, formal.last_step) == ("wall_clock", 2_106)
    assert round(100 * formal.seconds / formal.given_seconds, 2) == 96.53
    assert [one.step for one in formal.artifacts] == [2_080, 2_100, 2_106]
    for one in formal.artifacts:
        validation = read(Validation, document.folder / f"validation/step-{one.step:06d}/outcome.json")
        assert validation.structure.parameters == PARAMETERS
        assert validation.artifact_sha256 == one.sha256


def test_the_probe_ended_at_step_6_and_the_long_run_was_stopped_at_63_of_110_with_an_export_at_55(
    document: Built,
) -> None:
    runs = document.folder / EXPLORED / "runs"
    probe, long = (read_json(runs / name / "run.json") for name in ("probe-240s", "stability"))
    assert (probe["stop"], probe["steps"]) == ("wall_clock", 6)
    assert (long["stop"], long["steps"], long["asked_steps"]) == ("interrupted", 63, 110)
    assert long["checkpoints"] == ["checkpoint-55"]
    assert (runs / "stability/checkpoint-55/config.json").is_file()
    assert not list(runs.rglob("*.safetensors")), "weights of exploration end with it"
    measured = {one["checkpoint"] for one in map(read_json, (runs.parent / "proxy").glob("*/outcome.json"))}
    assert "/runs/stability/checkpoint-55" not in measured


def test_every_line_of_metrics_and_the_trajectory_are_what_their_records_say(document: Built) -> None:
    for path in document.folder.rglob("metrics.jsonl"):
        for line in read_lines(path):
            validated(StepMetrics, line, source=str(path))
    trajectory = read_trajectory(document.folder / EXPLORED / "trajectory/atif.json")
    assert trajectory.agent.name == "claude-code"
    assert trajectory.agent.version == "2.1.220 (Claude Code)"
    commands = {call.arguments["command"] for step in trajectory.steps for call in step.tool_calls or ()}
    assert {one["command"] for one in lines(document, f"{EXPLORED}/commands.jsonl")} == commands


def test_twelve_files_hold_what_was_said_done_and_handed_in_and_no_final_question(document: Built) -> None:
    texts = [(document.folder / name).read_text(encoding="utf-8") for name in VISIBLE]
    assert len(texts) == 12
    problems = [problem(number) for number in range(60)]
    assert len(set(problems)) == 60
    assert not [one for one in problems if any(one in text for text in texts)]
    training = (document.folder / "inputs/train.jsonl").read_text(encoding="utf-8")
    assert len(training.splitlines()) == 15_285
    assert not [one for one in problems if one in training]


def test_a_leaked_question_stands_in_a_result_of_a_tool(with_facts: Any) -> None:
    built = with_facts(leaked=17)
    results = [
        block["content"]
        for event in lines(built, f"{EXPLORED}/trajectory/native.jsonl")
        if event["type"] == "user"
        for block in event["message"]["content"]
    ]
    assert [problem(17) in one for one in results].count(True) == 1


def test_every_file_that_is_changed_is_found(tampered: Built) -> None:
    sealed = [receipt.parent for receipt in tampered.folder.rglob(RECEIPT) if "proxy" not in receipt.parts]
    changed = []
    for folder in sealed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path not in {folder / RECEIPT, folder / COMPLETE}:
                replace(path, path.read_bytes() + b" ")
                changed.append(path.relative_to(tampered.folder).as_posix())
    assert len(changed) > 200
    found = {fault.partition(": ")[0] for one in verify(tampered.attempt).folders for fault in one.faults}
    assert not set(changed) - found


def test_what_is_changed_in_a_further_one_stays_as_it_is_in_the_first(tampered: Built, document: Built) -> None:
    name = "final/step-002100/outcome.json"
    before = (document.folder / name).read_bytes()
    replace(tampered.folder / name, before.replace(b"809", b"829"))
    assert not verify(tampered.attempt).holds
    assert (document.folder / name).read_bytes() == before
    assert verify(document.attempt).holds


@pytest.mark.parametrize(
    "changes",
    [
        {"pipeline_seconds": 4_000.0},
        {"first_try_errno": None},
        {"stop": "steps", "formal_seconds": 25_920.0},
        {"control_file": False, "formal_only_manifest": False},
        {"leaked": 17},
        {"idle_at_submission": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_attempt_with_another_fact_is_as_whole(with_facts: Any, changes: dict[str, Any]) -> None:
    built = with_facts(**changes)
    verification = verify(built.attempt)
    assert verification.holds, verification.text()
    official = status(built.attempt).official
    assert official is not None
    assert (official.step, official.correct) == (2_100, 809)
    assert read(Submission, built.folder / "submission/outcome.json").remaining_seconds == 3_289


def test_without_the_failed_try_the_first_is_the_one_that_counts(with_facts: Any) -> None:
    built = with_facts(first_try_errno=None)
    assert not (built.folder / "formal/attempt-002").exists()
    assert not (built.folder / "rulings").exists()
    assert read(Formal, built.folder / "formal/attempt-001/outcome.json").last_step == 2_106
