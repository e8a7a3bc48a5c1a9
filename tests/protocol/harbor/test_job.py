"""An exported attempt: what stands where, what is missing and stays so, and that Harbor reads it as its own."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opd.cli.export import export as command
from opd.protocol.attempts.attempt import Attempt
from opd.protocol.explorer.adapters import adapter_of
from opd.protocol.explorer.trajectory import record_trajectory
from opd.protocol.harbor import trial
from opd.protocol.harbor.job import JOB, export
from opd.protocol.packages import catalogue, package
from opd.protocol.patches.source import digest_of
from opd.records.attempts import Explored, Replayed, Validated
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import sha256, write_json
from opd.records.receipts import RECEIPT, read_receipt

RECORD = b'{"type": "odd"}\nnot json, caf\xc3\xa9 \xff\n'


def explore_with_record(lab: Any, outcome: Explored = Explored.SUBMITTED, record: bytes = RECORD) -> None:
    """An exploration that leaves what the real one does: the record, and the trajectory of it."""
    identity = lab.attempt.identity
    with lab.trying(lab.attempt.place("explore", 1), {"base": identity.base_sha256}) as this:
        (this.folder / "trajectory").mkdir()
        (this.folder / "trajectory" / "native.log").write_bytes(record)
        write_json(this.folder / "desk.jsonl", {})
        record_trajectory(
            adapter_of("command"), this.folder, identity=identity, version="sha256:abc", instruction="improve it"
        )
        if outcome is Explored.SUBMITTED:
            here, lab.holder = lab.holder, this._holder
            lab.submit(explored_in=this.place.name)
            lab.holder = here
        this.end(outcome)


def scored(lab: Any) -> None:
    explore_with_record(lab)
    lab.formal(Replayed.INFRA_FAILED)
    lab.formal(steps=(10, 20))
    for step in (10, 20):
        lab.validate(step, of="formal/attempt-002")
    lab.final(10, 0.5, of="formal/attempt-002")
    lab.final(20, 0.75, of="formal/attempt-002")


def exported(lab: Any, out: Path, **secrets: str) -> Path:
    """The folder of the one trial."""
    export(Attempt(lab.folder), out, secrets=secrets)
    (folder,) = [path for path in (out / JOB).iterdir() if path.is_dir()]
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def files(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): sha256(path) for path in folder.rglob("*") if path.is_file()}


def test_the_same_attempt_gives_the_same_bytes_and_changes_nothing_in_it(lab: Any, tmp_path: Path) -> None:
    scored(lab)
    before = files(lab.folder)
    exported(lab, tmp_path / "one")
    exported(lab, tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert files(lab.folder) == before
    assert not list(tmp_path.glob("*.partial"))


def test_a_scored_attempt_has_its_official_score_as_reward(lab: Any, tmp_path: Path) -> None:
    scored(lab)
    folder = exported(lab, tmp_path / "out")
    official = lab.status.official
    assert official.mean == 0.75
    reward = read(folder / "verifier" / "reward.json")
    assert reward == {"reward": 0.75, "correct": 1500, "samples": 2000, "step": 20, "best_of": 2}
    result = read(folder / "result.json")
    assert result["verifier_result"] == {"rewards": reward}
    assert result["exception_info"] is None
    assert result["task_name"] == "opd/arith_tiny"
    assert folder.name == result["trial_name"]
    assert folder.name.startswith("arith_tiny__")
    job = read(folder.parent / "result.json")
    assert job["stats"]["evals"]["command__adhoc"]["reward_stats"]["reward"] == {"0.75": [folder.name]}
    assert (job["stats"]["n_completed_trials"], job["stats"]["n_errored_trials"]) == (1, 0)
    assert read(folder / "verifier" / "step-000020.json")["mean"] == 0.75


def test_the_record_stands_byte_for_byte_beside_the_trajectory_of_the_exploration_that_was_handed_in(
    lab: Any, tmp_path: Path
) -> None:
    scored(lab)
    folder = exported(lab, tmp_path / "out")
    assert (folder / "agent" / "native.log").read_bytes() == RECORD
    trajectory = read(folder / "agent" / "trajectory.json")
    assert trajectory["schema_version"] == "ATIF-v1.7"
    assert trajectory["steps"][0]["message"] == "improve it"
    result = read(folder / "result.json")
    assert result["agent_info"]["version"] == "sha256:abc"
    receipt = read_receipt(lab.folder / "explore" / "attempt-001")
    assert result["agent_execution"] == {"started_at": receipt.began_utc, "finished_at": receipt.ended_utc}


def test_times_of_the_trial_are_utc_and_those_of_the_job_are_local_and_say_no_zone(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    scored(lab)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")  # 5 hours and 45 minutes ahead
    time.tzset()
    try:
        folder = exported(lab, tmp_path / "out")
    finally:
        monkeypatch.undo()
        time.tzset()
    began = read(folder / "result.json")["started_at"]
    job = read(folder.parent / "result.json")["started_at"]
    assert began.endswith("Z")
    ahead = datetime.fromisoformat(job) - datetime.fromisoformat(began).replace(tzinfo=None)
    assert ahead.total_seconds() == (5 * 60 + 45) * 60


def _no_candidate(lab: Any) -> None:
    explore_with_record(lab, Explored.NO_CANDIDATE)


def _deadline(lab: Any) -> None:
    explore_with_record(lab, Explored.DEADLINE)


def _failed_formally(lab: Any) -> None:
    explore_with_record(lab)
    lab.formal(Replayed.FAILED_CANDIDATE)


def _invalid(lab: Any) -> None:
    explore_with_record(lab)
    lab.formal(steps=(10,))
    lab.validate(10, Validated.INVALID)


def _unscored(lab: Any) -> None:
    explore_with_record(lab)
    lab.formal(steps=(10,))
    lab.validate(10)
    lab.final(10, None)


MISSING: dict[str, tuple[Callable[[Any], None], str]] = {
    "nothing was done": (lambda lab: None, "NoOfficialResult"),
    "no candidate": (_no_candidate, "NoOfficialResult"),
    "the budget ended": (_deadline, "AgentTimeoutError"),
    "formal training failed": (_failed_formally, "NoOfficialResult"),
    "no checkpoint is valid": (_invalid, "NoOfficialResult"),
    "the final evaluation gave no score": (_unscored, "NoOfficialResult"),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_result_stays_missing_with_its_reason_and_is_no_zero(lab: Any, tmp_path: Path, name: str) -> None:
    happen, kind = MISSING[name]
    happen(lab)
    folder = exported(lab, tmp_path / "out")
    assert not list((folder / "verifier").glob("reward.*")) if (folder / "verifier").exists() else True
    result, job = read(folder / "result.json"), read(folder.parent / "result.json")
    assert result["verifier_result"] is None
    assert result["exception_info"]["exception_type"] == kind
    assert result["exception_info"]["exception_message"] == lab.status.missing
    assert job["stats"]["n_errored_trials"] == 1
    (evals,) = job["stats"]["evals"].values()
    assert (evals["n_trials"], evals["reward_stats"], evals["metrics"]) == (0, {}, [])
    assert "0.0" not in json.dumps(evals)


def test_a_patch_from_outside_has_no_agent_phase(lab: Any, tmp_path: Path) -> None:
    explore_with_record(lab, Explored.NO_CANDIDATE)
    lab.submit()
    folder = exported(lab, tmp_path / "out")
    result = read(folder / "result.json")
    assert (result["agent_execution"], result["agent_result"]) == (None, None)
    assert not (folder / "agent").exists()
    assert sha256(folder / "artifacts" / "candidate.patch") == sha256(lab.folder / "submission" / "candidate.patch")
    (entry,) = read(folder / "artifacts" / "manifest.json")
    assert (entry["destination"], entry["status"]) == ("candidate.patch", "ok")


def test_every_receipt_has_a_statement_whose_subjects_are_the_files_that_lie_there(lab: Any, tmp_path: Path) -> None:
    scored(lab)
    exported(lab, tmp_path / "out")
    statements = {path.name: read(path) for path in (tmp_path / "out" / "attestations").iterdir()}
    assert len(statements) == len(lab.status.tries) == 8
    for statement in statements.values():
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        for subject in statement["subject"]:
            assert sha256(lab.folder / subject["name"]) == subject["digest"]["sha256"]
        (folder,) = {Path(one["name"]) for one in statement["subject"] if Path(one["name"]).name == RECEIPT}
        there = {path for path in (lab.folder / folder.parent).rglob("*") if path.is_file()}
        named = {lab.folder / one["name"] for one in statement["subject"]}
        assert there - named == {lab.folder / folder.parent / ".complete"}
    built = statements["formal--attempt-002.intoto.json"]
    assert built["predicateType"] == "https://slsa.dev/provenance/v1"
    given = {
        one["name"]: one["digest"]["sha256"] for one in built["predicate"]["buildDefinition"]["resolvedDependencies"]
    }
    assert given["candidate.patch"] == sha256(lab.folder / "submission" / "candidate.patch")
    assert given["task:opd/arith_tiny"] == lab.attempt.identity.task_sha256
    assert {"student", "data", "base", "checkout"} <= given.keys()
    assert statements["submission.intoto.json"]["predicateType"] == "urn:opd:receipt:v1"


def test_the_crate_names_every_file_and_refers_to_nothing_that_it_does_not_hold(lab: Any, tmp_path: Path) -> None:
    scored(lab)
    exported(lab, tmp_path / "out")
    graph = read(tmp_path / "out" / "ro-crate-metadata.json")["@graph"]
    held = [one["@id"] for one in graph]
    assert len(held) == len(set(held))

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            inner = [one for key, part in value.items() if key != "@id" for one in references(part)]
            return [*inner, *([value["@id"]] if set(value) == {"@id"} else [])]
        return [one for part in value for one in references(part)] if isinstance(value, list) else []

    outside = {one for one in references(graph) if one not in held}
    assert outside == {
        "https://w3id.org/ro/crate/1.1",
        "http://schema.org/CompletedActionStatus",
        "http://schema.org/FailedActionStatus",
    }
    there = set(files(tmp_path / "out"))
    assert {one["@id"] for one in graph if one["@type"] == "File"} == there - {"ro-crate-metadata.json"}
    failed = [one for one in graph if one["@type"] == "CreateAction" and "error" in one]
    assert [one["@id"] for one in failed] == ["#formal/attempt-001"]


def test_a_secret_anywhere_is_refused_with_file_and_variable_and_nothing_is_written(lab: Any, tmp_path: Path) -> None:
    explore_with_record(lab, Explored.NO_CANDIDATE, record=b'{"env": "sk-made-up-0001"}\n')
    export(Attempt(lab.folder), tmp_path / "fine", secrets={"OTHER_KEY": "sk-made-up-0002"})
    with pytest.raises(AnswerIsNo, match=r"agent/native\.log holds the value of MY_API_KEY") as refused:
        export(Attempt(lab.folder), tmp_path / "out", secrets={"MY_API_KEY": "sk-made-up-0001"})
    assert "sk-made-up-0001" not in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fine"]


def test_changed_bytes_are_not_handed_out(lab: Any, tmp_path: Path) -> None:
    """Such as of the patch, which would come with a statement about other bytes."""
    lab.whole()
    patch = lab.folder / "submission" / "candidate.patch"
    patch.chmod(0o644)
    patch.write_bytes(patch.read_bytes() + b"\n")
    with pytest.raises(AnswerIsNo, match=r"candidate\.patch"):
        export(lab.attempt, tmp_path / "out", secrets={})
    assert not (tmp_path / "out").exists()


def test_an_attempt_that_contradicts_itself_is_not_exported(lab: Any, tmp_path: Path) -> None:
    scored(lab)
    shutil.rmtree(lab.folder / "final" / "step-000020")
    assert lab.status.contradictions
    with pytest.raises(AnswerIsNo, match="contradicts itself"):
        exported(lab, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_export_is_never_written_over_anything(lab: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(AskedWrongly, match="exists already"):
        export(Attempt(lab.folder), tmp_path / "out", secrets={})


def test_what_a_killed_export_left_is_taken_away(lab: Any, tmp_path: Path) -> None:
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "half").write_text("half")
    exported(lab, tmp_path / "out")
    assert not (tmp_path / "out" / "half").exists()


# What Harbor makes of it


def harbor(name: str) -> Any:
    os.environ.setdefault("HARBOR_TELEMETRY", "0")
    return pytest.importorskip(f"harbor.{name}", reason="harbor (Python ≥ 3.12) isn't installed")


@pytest.mark.parametrize("name", ["scored", *MISSING])
def test_harbors_models_read_every_file_of_the_job(lab: Any, tmp_path: Path, name: str) -> None:
    results, jobs = harbor("models.trial.result"), harbor("models.job.result")
    (MISSING[name][0] if name in MISSING else scored)(lab)
    folder = exported(lab, tmp_path / "out")
    result = results.TrialResult.model_validate_json((folder / "result.json").read_text())
    assert result.reward_valid == (name == "scored")
    job = jobs.JobResult.model_validate_json((folder.parent / "result.json").read_text())
    counted = jobs.JobStats.from_trial_results([result])
    for field in ("n_completed_trials", "n_errored_trials", "n_cancelled_trials", "cost_usd", "n_input_tokens"):
        assert getattr(job.stats, field) == getattr(counted, field)
    ours, theirs = job.stats.evals, counted.evals
    assert ours.keys() == theirs.keys()
    for key in ours:
        for field in ("n_trials", "n_errors", "reward_stats", "exception_stats"):
            assert getattr(ours[key], field) == getattr(theirs[key], field), field
    harbor("models.trial.config").TrialConfig.model_validate_json((folder / "config.json").read_text())
    harbor("models.job.config").JobConfig.model_validate_json((folder.parent / "config.json").read_text())
    locks = harbor("models.job.lock")
    lock = locks.TrialLock.model_validate_json((folder / "lock.json").read_text())
    assert locks.JobLock.model_validate_json((folder.parent / "lock.json").read_text()).trials == [lock]


def test_harbors_validator_takes_the_trajectory(lab: Any, tmp_path: Path) -> None:
    validator = harbor("utils.trajectory_validator").TrajectoryValidator()
    scored(lab)
    folder = exported(lab, tmp_path / "out")
    assert validator.validate(folder / "agent" / "trajectory.json"), validator.errors


def test_the_locks_digest_is_the_one_that_harbor_gives_the_built_package(
    lab: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    packager = harbor("publisher.packager").Packager
    task, folder = catalogue.find("arith_tiny")
    package.build(task, folder, tmp_path / "arith_tiny")
    base = package.base_tree(task, folder)
    monkeypatch.setattr(trial, "base_of", lambda attempt: base)
    facts = export(Attempt(lab.folder), tmp_path / "out", secrets={})
    assert trial.package_digest(facts) == packager.compute_content_hash(tmp_path / "arith_tiny")[0]
    assert digest_of(base)


def test_harbors_viewer_serves_the_job(lab: Any, tmp_path: Path) -> None:
    viewer = harbor("viewer.server")
    client = pytest.importorskip("starlette.testclient")
    scored(lab)
    folder = exported(lab, tmp_path / "out")
    with client.TestClient(viewer.create_app(tmp_path / "out")) as browser:
        assert JOB in browser.get("/api/jobs").text
        shown = browser.get(f"/api/jobs/{JOB}/trials/{folder.name}")
        assert shown.status_code == 200
        assert shown.json()["verifier_result"]["rewards"]["reward"] == 0.75
        steps = browser.get(f"/api/jobs/{JOB}/trials/{folder.name}/trajectory").json()["steps"]
        assert steps[0]["message"] == "improve it"


# What a person types


def test_the_command_says_what_was_exported_and_refuses_what_this_shells_variables_hold(
    lab: Any, tmp_path: Path
) -> None:
    scored(lab)
    words = [str(lab.folder), "--out", str(tmp_path / "out")]
    refused = CliRunner(env={"SOME_TOKEN": "not json, caf"}).invoke(command, words)
    assert isinstance(refused.exception, AnswerIsNo)
    assert "agent/native.log holds the value of SOME_TOKEN" in str(refused.exception)
    assert not (tmp_path / "out").exists()
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    assert "8 receipts, reward 0.750000" in done.output
    assert (tmp_path / "out" / JOB / "result.json").is_file()
