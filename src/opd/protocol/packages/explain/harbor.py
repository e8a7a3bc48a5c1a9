"""Any Harbor task, explained: who may take how long, on which network, and what the verifier gets to see."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from opd.protocol.packages.explain.explanation import Explanation, as_time, first_of, section, table_in
from opd.protocol.packages.folders import has, read_text
from opd.records.errors import AskedWrongly
from opd.records.fields import value_in

_PARTS = ("instruction.md", "environment", "tests/test.sh", "solution/solve.sh", "steps", "trajectory.json")
_VERIFIER_SECONDS = 600.0  # Harbor's own limit where none is set
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)


def explain(values: Mapping[str, Any], folder: Path) -> Explanation:
    """What the task says."""
    return Explanation(
        kind="Harbor",
        name=str(value_in(values, "task.name") or folder.name),
        sections=(
            section("task", _identity(values, folder)),
            section("budgets", _budgets(values)),
            section("network", _network(values)),
            section("verifier", _verifier(values)),
            section("machine", _machine(values, folder)),
            section("exploration can't see", _withheld(values, folder)),
            section("parts", [(part, "there" if has(folder, part) else "missing") for part in _PARTS]),
            section("metadata", table_in(values, "metadata").items()),
        ),
    )


def _identity(values: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Any]]:
    yield "version", value_in(values, "task.version")
    yield "description", value_in(values, "task.description")
    yield "keywords", value_in(values, "task.keywords")
    yield "schema", values.get("schema_version") or values.get("version")
    steps = values.get("steps")
    if isinstance(steps, list):
        yield "steps", [str(value_in(step, "name")) for step in steps if isinstance(step, Mapping)]
    if has(folder, "instruction.md"):
        yield "instruction", _text(folder, "instruction.md")


def _budgets(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    agent = value_in(values, "agent.timeout_sec")
    yield "agent", "no limit" if agent is None else as_time(agent)
    yield "verifier", as_time(first_of(value_in(values, "verifier.timeout_sec"), _VERIFIER_SECONDS))
    yield "building the image", as_time(first_of(value_in(values, "environment.build_timeout_sec"), 600.0))


def _network(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    allowed = "no-network" if value_in(values, "environment.allow_internet") is False else "public"
    base = first_of(value_in(values, "environment.network_mode"), allowed)
    yield "environment", base
    for phase in ("agent", "verifier"):
        yield phase, first_of(value_in(values, f"{phase}.network_mode"), f"{base}, as the environment")
    for place in ("environment", "agent", "verifier"):
        yield f"hosts of {place}", value_in(values, f"{place}.allowed_hosts")


def _verifier(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    inferred = "shared" if value_in(values, "verifier.environment") is None else "separate"
    mode = first_of(value_in(values, "verifier.environment_mode"), inferred)
    yield "environment", mode
    sources = [value_in(one, "source") if isinstance(one, Mapping) else one for one in _list(values, "artifacts")]
    if mode == "separate":
        yield "gets from the agent", sources or "nothing: no artifact is declared, so that honest work would be lost"
    else:
        yield "gets from the agent", "the agent's own environment, with whatever the agent left running in it"
        yield "keeps", sources or None
    yield "reward", "/logs/verifier/reward.json, or else reward.txt"


def _machine(values: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Any]]:
    for name in ("os", "cpus", "memory_mb", "memory", "storage_mb", "storage", "gpus", "gpu_types", "docker_image"):
        yield name, value_in(values, f"environment.{name}")
    if has(folder, "environment/Dockerfile"):
        text = _text(folder, "environment/Dockerfile")
        yield "image is made from", _FROM.findall(text) or text
    yield "agent's user", first_of(value_in(values, "agent.user"), "the image's, perhaps root")


def _withheld(values: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Any]]:
    if has(folder, "tests"):
        yield "tests/", "copied in when the agent has ended"
    if has(folder, "solution"):
        yield "solution/", "given to the oracle alone"
    if _list(values, "steps"):
        yield "steps/", "the tests and solutions of each step, likewise"


def _text(folder: Path, name: str) -> str:
    try:
        return read_text(folder, name).strip()
    except AskedWrongly as error:
        return f"not read: {error}"


def _list(values: Mapping[str, Any], key: str) -> list[Any]:
    found = values.get(key)
    return found if isinstance(found, list) else []
