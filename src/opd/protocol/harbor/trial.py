"""The one trial of an attempt's job: its configuration, its lock and its result, in Harbor's words.

agent phase       the exploration that was handed in from
verifier phase    everything behind it: the formal tries, the validations, the finals
reward            the official score; without one there is no reward and an exception says why, for a missing
                  result is no zero
"""

import hashlib
from typing import Any
from uuid import UUID, uuid5

from opd.protocol.attempts.creating import base_of
from opd.protocol.harbor.facts import Facts
from opd.protocol.packages.package import render
from opd.protocol.packages.verdict import rewards
from opd.records.attempts import Explored, Stage
from opd.records.files import digest
from opd.records.trajectories import FinalMetrics, Trajectory

ENVIRONMENT = "opd.protocol.harbor.environment:BubblewrapEnvironment"

_LONGEST_TASK = 32  # characters of a trial's name that tell the task
_HASHED_FILES = frozenset({"task.toml", "instruction.md", "README.md"})
_HASHED_FOLDERS = frozenset({"environment", "tests", "solution"})
_EXCEPTIONS = {  # Harbor tells by its type what an exception means
    Explored.DEADLINE: "AgentTimeoutError",
    Explored.AGENT_ERROR: "NonZeroAgentExitCodeError",
    Explored.CANCELLED: "CancelledError",
}
_NO_RESULT = "NoOfficialResult"


def trial_name(facts: Facts) -> str:
    """The task's name and seven characters that follow from the attempt."""
    return f"{facts.task.short_name[:_LONGEST_TASK]}__{_mark(facts)[:7]}"


def identity_of(facts: Facts, what: str) -> str:
    """A UUID that follows from the attempt."""
    return str(uuid5(UUID(_mark(facts)[:32]), what))


def config(facts: Facts) -> dict[str, Any]:
    """config.json of the trial."""
    return {
        "task": {"path": facts.task.short_name},
        "trial_name": trial_name(facts),
        "trials_dir": "harbor-job",
        "agent": agent_config(facts),
        "environment": {"import_path": ENVIRONMENT},
        "verifier": {},
        "job_id": identity_of(facts, "job"),
    }


def agent_config(facts: Facts) -> dict[str, Any]:
    """Who explored."""
    one = facts.identity
    kwargs = {"command": list(one.command), **({"effort": one.effort} if one.effort else {})}
    return {"name": one.harness, **({"model_name": one.model} if one.model else {}), "kwargs": kwargs}


def lock(facts: Facts) -> dict[str, Any]:
    """lock.json of the trial: what it was made from, resolved."""
    return {
        "schema_version": 2,
        "task": {
            "name": facts.task.short_name,
            "version": facts.task.task.version,
            "type": "local",
            "digest": f"sha256:{package_digest(facts)}",
            "path": facts.task.short_name,
        },
        "agent": agent_config(facts),
        "environment": {"import_path": ENVIRONMENT},
        "verifier": {"environment_mode": "separate"},
    }


def package_digest(facts: Facts) -> str:
    """Harbor's content hash of the task's package, as `opd task build` of this version writes it."""
    outer = hashlib.sha256()
    tree = {path.as_posix(): file for path, file in render(facts.task, base_of(facts.attempt)).items()}
    for path in sorted(tree):
        if path in _HASHED_FILES or path.partition("/")[0] in _HASHED_FOLDERS:
            outer.update(f"{path}\0{hashlib.sha256(tree[path].content).hexdigest()}\n".encode())
    return outer.hexdigest()


def result(facts: Facts, trajectory: Trajectory | None) -> dict[str, Any]:
    """result.json of the trial."""
    judged = [one for stage in (Stage.FORMAL, Stage.VALIDATION, Stage.FINAL) for one in facts.of(stage)]
    official = facts.status.official
    return {
        "schema_version": 1,
        "id": identity_of(facts, "trial"),
        "task_name": facts.task.name,
        "trial_name": trial_name(facts),
        "trial_uri": f"urn:opd:attempt:{facts.identity.case}",
        "task_id": {"path": facts.task.short_name},
        "source": None,
        "task_checksum": package_digest(facts),
        "config": config(facts),
        "agent_info": _agent_info(facts, trajectory),
        "agent_result": _agent_result(facts, trajectory),
        "verifier_result": {"rewards": rewards(official)} if official else None,
        "verifier_environment_mode": "separate",
        "exception_info": None if official else _exception(facts),
        "started_at": facts.began_utc,
        "finished_at": facts.ended_utc,
        "environment_setup": None,
        "agent_setup": None,
        "agent_execution": _timing([facts.explored] if facts.explored else []),
        "verifier": _timing(judged),
        "step_results": None,
    }


def _mark(facts: Facts) -> str:
    return digest(facts.identity.resolved())


def _agent_info(facts: Facts, trajectory: Trajectory | None) -> dict[str, Any]:
    model = facts.identity.model
    info: dict[str, Any] = {
        "name": facts.identity.harness,
        "version": trajectory.agent.version if trajectory else "unknown",
    }
    if model is not None:
        provider, slash, name = model.rpartition("/")
        info["model_info"] = {"name": name, "provider": provider if slash else None}
    return info


def _agent_result(facts: Facts, trajectory: Trajectory | None) -> dict[str, Any] | None:
    if facts.explored is None:
        return None
    totals = (trajectory.final_metrics if trajectory else None) or FinalMetrics()
    return {
        "n_input_tokens": totals.total_prompt_tokens,
        "n_cache_tokens": totals.total_cached_tokens,
        "n_output_tokens": totals.total_completion_tokens,
        "cost_usd": totals.total_cost_usd,
        "metadata": {
            "opd": {
                "outcome": facts.explored.receipt.outcome,
                "because": facts.explored.receipt.because,
                "active_seconds": facts.explored.receipt.active_seconds,
                "state": facts.status.state,
            }
        },
    }


def _exception(facts: Facts) -> dict[str, Any]:
    """Why there is no reward."""
    outcome = facts.explored.receipt.outcome if facts.explored and facts.submission is None else None
    kind = _EXCEPTIONS.get(Explored(outcome), _NO_RESULT) if outcome else _NO_RESULT
    return {
        "exception_type": kind,
        "exception_message": facts.status.missing or facts.status.waits_for or "there is no result yet",
        "exception_traceback": "",
        "occurred_at": facts.ended_utc,
    }


def _timing(tries: list[Any]) -> dict[str, str] | None:
    if not tries:
        return None
    return {
        "started_at": min(one.receipt.began_utc for one in tries),
        "finished_at": max(one.receipt.ended_utc for one in tries),
    }
