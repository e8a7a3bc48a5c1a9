"""An attempt for readers elsewhere: the same attempt, the same bytes.

    harbor-job/  config.json lock.json result.json              a job of one trial, as Harbor lays one down
      <task>__1a2b3c4/  config.json lock.json result.json
        agent/      trajectory.json and the harness's own record, byte for byte
        verifier/   reward.json, where there is an official score, and what each final came to
        artifacts/  manifest.json candidate.patch
    attestations/   a statement for each receipt
    ro-crate-metadata.json

Nothing is written before every byte of it was looked at for known secrets. Times of the trial are UTC; those of the
job are local and say no zone, for so Harbor writes them.
"""

import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from opd.protocol.attempts.attempt import OUTCOME, Attempt
from opd.protocol.attempts.verify import verify
from opd.protocol.clock import Instant, now
from opd.protocol.harbor import attestations, crate, trial
from opd.protocol.harbor.facts import Facts, facts_of
from opd.protocol.harbor.secrets import Content, check
from opd.protocol.packages.verdict import rewards
from opd.protocol.stages.submission import PATCH
from opd.records.attempts import Stage
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import PARTIAL, check_writable

JOB = "harbor-job"
_DATASET = "adhoc"  # Harbor's word for a task that comes from no data set


def export(attempt: Attempt, out: Path, *, secrets: Mapping[str, str], at: Instant | None = None) -> Facts:
    """The facts that were exported, after the new folder `out` holds them; `secrets` are values by variable.

    Every byte is read again first. Raises `AskedWrongly` where `out` exists, and `AnswerIsNo` for an attempt that
    doesn't hold, or contradicts itself, and for a secret that stands in what would be written.
    """
    check_writable(out)
    if out.exists():
        raise AskedWrongly(f"{out} exists already and is never overwritten; name another folder")
    facts = facts_of(attempt, at or now())
    found = verify(attempt)
    if not found.holds:
        raise AnswerIsNo(f"{attempt.folder} does not hold, and is not handed out as if it did:\n{found.text()}")
    files = contents(facts)
    check(files, secrets)
    partial = out.with_name(f"{out.name}{PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)  # of an export that was killed
    for name, content in files.items():
        path = partial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, path)
        else:
            path.write_bytes(content)
    partial.replace(out)
    return facts


def contents(facts: Facts) -> dict[str, Content]:
    """Every file of the export, by its path."""
    told = trial.result(facts, facts.trajectory())
    files: dict[str, Content] = {
        f"{JOB}/config.json": _json(_job_config(facts)),
        f"{JOB}/lock.json": _json(_job_lock(facts)),
        f"{JOB}/result.json": _json(_job_result(facts, told)),
    }
    files |= {f"{JOB}/{trial.trial_name(facts)}/{name}": content for name, content in _trial(facts, told).items()}
    for one in facts.tries:
        files[attestations.file_name(one)] = _json(attestations.statement(facts, one))
    files[crate.METADATA] = _json(crate.crate(facts, files))
    return dict(sorted(files.items()))


def _trial(facts: Facts, told: Mapping[str, Any]) -> dict[str, Content]:
    files: dict[str, Content] = {
        "config.json": _json(trial.config(facts)),
        "lock.json": _json(trial.lock(facts)),
        "result.json": _json(told),
    }
    if facts.atif is not None:
        files["agent/trajectory.json"] = facts.atif
    if facts.record is not None:
        files[f"agent/{facts.record.name}"] = facts.record
    if facts.status.official is not None:
        files["verifier/reward.json"] = _json(rewards(facts.status.official))
    for final in facts.of(Stage.FINAL):
        if (final.folder / OUTCOME).is_file():
            files[f"verifier/{final.folder.name}.json"] = final.folder / OUTCOME
    kept = facts.submission is not None and (facts.submission.folder / PATCH).is_file()
    if facts.submission is not None and kept:
        files[f"artifacts/{PATCH}"] = facts.submission.folder / PATCH
    files["artifacts/manifest.json"] = _json(
        [{"source": f"/{PATCH}", "destination": PATCH, "type": "file", "status": "ok" if kept else "empty",
          "service": None, "exclude": []}]
    )  # fmt: skip
    return files


def _job_config(facts: Facts) -> dict[str, Any]:
    return {
        "job_name": JOB,
        "jobs_dir": ".",
        "n_attempts": 1,
        "n_concurrent_trials": 1,
        "environment": {"import_path": trial.ENVIRONMENT},
        "agents": [trial.agent_config(facts)],
        "tasks": [{"path": facts.task.short_name}],
    }


def _job_lock(facts: Facts) -> dict[str, Any]:
    return {
        "schema_version": 3,
        "created_at": facts.began_utc,
        "harbor": {"version": None, "git_commit_hash": None, "is_editable": None},
        "n_concurrent_trials": 1,
        "retry": {"max_retries": 0},
        "trials": [trial.lock(facts)],
    }


def _job_result(facts: Facts, told: Mapping[str, Any]) -> dict[str, Any]:
    agent = told["agent_info"]
    model = agent.get("model_info", {}).get("name")
    key = "__".join(part for part in (agent["name"], model, _DATASET) if part)
    used = told["agent_result"] or {}
    return {
        "schema_version": 1,
        "id": trial.identity_of(facts, "job"),
        "started_at": _local(facts.began_utc),
        "updated_at": _local(facts.ended_utc),
        "finished_at": _local(facts.ended_utc),
        "n_total_trials": 1,
        "stats": {
            "n_completed_trials": 1,
            "n_errored_trials": 0 if facts.status.official else 1,
            "n_running_trials": 0,
            "n_pending_trials": 0,
            "n_cancelled_trials": int((told["exception_info"] or {}).get("exception_type") == "CancelledError"),
            "n_retries": 0,
            "evals": {key: _evaluated(facts, told)},
            **{name: used.get(name) for name in ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")},
        },
        "trial_results": [],
    }


def _evaluated(facts: Facts, told: Mapping[str, Any]) -> dict[str, Any]:
    name, official = trial.trial_name(facts), facts.status.official
    values = rewards(official) if official else {}
    return {
        "n_trials": int(official is not None),
        "n_errors": int(official is None),
        "metrics": [{"mean": official.mean}] if official else [],
        "pass_at_k": {},
        "reward_stats": {key: {str(value): [name]} for key, value in values.items()},
        "exception_stats": {} if official else {told["exception_info"]["exception_type"]: [name]},
    }


def _local(utc: str) -> str:
    return datetime.fromisoformat(utc).astimezone().replace(tzinfo=None).isoformat()


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
