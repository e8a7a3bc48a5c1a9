"""A task package of the public AI4AI-Bench layout, explained: task.toml beside a declaration.py of phases.

declaration.py is read as a syntax tree. What only running it would tell is shown as `not a literal`, with its source;
where task.toml and declaration.py say different things, both are shown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.protocol.packages.explain.explanation import Explanation, Section, as_time, first_of, section, table_in
from opd.protocol.packages.explain.literals import NotLiteral, Record, names_of
from opd.protocol.packages.folders import has, read_text
from opd.records.errors import AskedWrongly
from opd.records.fields import value_in

DECLARATION = "declaration.py"
_ASSET = "asset:"
_EXPLORE, _RETRAIN, _SCORE = "explore", "retrain", "score"
_SHOWN_ELSEWHERE = {"name", "timeout_sec", "command", "mounts", "exports", "hooks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """One phase as it is declared."""

    name: str
    says: Mapping[str, Any]  # the keywords of its call; empty when only running the source would tell
    source: str = ""  # of a phase that can't be read

    @property
    def mounts(self) -> tuple[tuple[str, str, bool], ...] | None:
        """Source, place and whether it is read-only; None when it can't be read."""
        mounts = self.says.get("mounts")
        return mounts if isinstance(mounts, tuple) and all(map(_is_mount, mounts)) else None


def is_bench(values: Mapping[str, Any], folder: Path) -> bool:
    """Whether a folder with these values in its task.toml has that layout."""
    own = {"assets", "x-ai4ai"} & values.keys() or value_in(values, "metadata.fast_metric") is not None
    return bool(own) and has(folder, DECLARATION)


def explain(values: Mapping[str, Any], folder: Path) -> Explanation:
    """What the package says."""
    phases, fault = _phases(folder)
    by_name = {phase.name: phase for phase in phases}
    said = [("declaration.py", fault)] if fault else []
    return Explanation(
        kind="AI4AI-Bench",
        name=str(value_in(values, "task.name") or value_in(values, "name") or folder.name),
        sections=(
            section("task", [*_rows(values, _IDENTITY), *said]),
            section("fixed assets", table_in(values, "assets").items()),
            section("budgets", _budgets(values, by_name)),
            section("proxy", _rows(values, _PROXY)),
            section("final", _rows(values, _FINAL)),
            section("artifacts", _artifacts(values, by_name)),
            section("machine", _rows(values, _MACHINE)),
            *map(_phase, phases),
            section("exploration can't see", _withheld(values, by_name)),
            section("disagreements", _disagreements(values, by_name)),
            section("more metadata", _more(values)),
        ),
    )


_IDENTITY = {
    "version": "task.version",
    "description": "task.description",
    "track": "metadata.track",
    "schema": "schema_version",
    "image": "environment.image",
    "image digest": "environment.digest",
}
_PROXY = {f"{name}": f"metadata.fast_{name}" for name in ("metric", "direction", "protocol")}
_FINAL = {f"{name}": f"metadata.final_{name}" for name in ("metric", "direction", "protocol")}
_MACHINE = {
    "network": "environment.network_mode",
    "GPUs": "environment.gpus",
    "GPU types": "environment.gpu_types",
    "CPUs": "environment.cpus",
    "memory, MB": "environment.memory_mb",
    "storage, MB": "environment.storage_mb",
    "shared memory": "x-ai4ai.container.shm_size",
    "processes": "x-ai4ai.container.pids_limit",
    "peak GPU memory, MiB": "x-ai4ai.gpu.peak_memory_mib",
    "verifier": "verifier.environment_mode",
}


def _rows(values: Mapping[str, Any], keys: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    yield from ((name, value_in(values, key)) for name, key in keys.items())


def _phases(folder: Path) -> tuple[list[_Phase], str | None]:
    """The phases that the declaration names, and why there are none."""
    try:
        names = names_of(read_text(folder, DECLARATION))
    except AskedWrongly as error:
        return [], str(error)
    declared = names.get("PHASES")
    if not isinstance(declared, Mapping):
        shown = "missing" if declared is None else str(declared)
        return [_read(name, value) for name, value in names.items() if isinstance(value, Record)], f"PHASES: {shown}"
    return [_read(str(name), value) for name, value in declared.items()], None


def _read(name: str, value: Any) -> _Phase:
    if isinstance(value, Record) and not value.arguments and "timeout_sec" in value.keywords:
        return _Phase(name=name, says=value.keywords)
    return _Phase(name=name, says={}, source=str(value))


def _is_mount(value: Any) -> bool:
    kinds = (str, str, bool)
    return isinstance(value, tuple) and tuple(map(type, value)) == kinds


def _phase(phase: _Phase) -> Section:
    if not phase.says:
        return section(f"phase {phase.name}", [("says", phase.source)])
    says = phase.says
    rows: list[tuple[str, Any]] = [("time", as_time(says.get("timeout_sec"))), ("runs", _words(says.get("command")))]
    if phase.mounts is None:
        rows.append(("mounts", says.get("mounts")))
    else:
        rows += [(place, f"{source}{'' if fixed else ', writable'}") for source, place, fixed in phase.mounts]
    exports = says.get("exports")
    rows += [(f"${name}", value) for name, value in exports.items()] if isinstance(exports, Mapping) else []
    rows.append(("hooks", says.get("hooks")))
    rows += [(name, value) for name, value in says.items() if name not in _SHOWN_ELSEWHERE]
    return section(f"phase {phase.name}", rows)


def _budgets(values: Mapping[str, Any], phases: Mapping[str, _Phase]) -> Iterator[tuple[str, Any]]:
    yield (
        "exploration",
        as_time(first_of(value_in(values, "agent.timeout_sec"), _says(phases, _EXPLORE, "timeout_sec"))),
    )
    formal = first_of(value_in(values, "x-ai4ai.formal.retrain_budget_sec"), _says(phases, _RETRAIN, "timeout_sec"))
    yield "formal training", as_time(formal)
    yield "of it in reserve", as_time(_says(phases, _RETRAIN, "reserve_sec"))
    yield "a final evaluation", as_time(_says(phases, _SCORE, "timeout_sec"))
    yield "the verifier in all", as_time(value_in(values, "verifier.timeout_sec"))
    yield "free disk before training, GiB", _says(phases, _RETRAIN, "free_gib")


def _artifacts(values: Mapping[str, Any], phases: Mapping[str, _Phase]) -> Iterator[tuple[str, Any]]:
    yield "found as", _says(phases, _RETRAIN, "checkpoint_glob")
    limit = first_of(value_in(values, "x-ai4ai.formal.artifact_limit"), _says(phases, _RETRAIN, "artifact_limit"))
    yield "at most", limit
    yield "official", value_in(values, "x-ai4ai.formal.selection_rule")
    yield "kind", _says(phases, _RETRAIN, "checkpoint_kind")


def _withheld(values: Mapping[str, Any], phases: Mapping[str, _Phase]) -> Iterator[tuple[str, Any]]:
    """The assets that no mount of exploration covers, and the phases that have them."""
    explore = phases.get(_EXPLORE)
    if explore is None or explore.mounts is None:
        shown = "" if explore is None else f": {explore.says.get('mounts') or explore.source}"
        yield "unknown", f"the mounts of {_EXPLORE} can't be read{shown}"
        return
    for asset in table_in(values, "assets"):
        if not _covers(explore, asset):
            seen = [phase.name for phase in phases.values() if _covers(phase, asset)]
            yield asset, f"mounted in {', '.join(seen)} alone" if seen else "mounted in no phase that can be read"


def _disagreements(values: Mapping[str, Any], phases: Mapping[str, _Phase]) -> Iterator[tuple[str, Any]]:
    pairs = {
        "agent.timeout_sec": (_EXPLORE, "timeout_sec"),
        "x-ai4ai.formal.retrain_budget_sec": (_RETRAIN, "timeout_sec"),
        "x-ai4ai.formal.artifact_limit": (_RETRAIN, "artifact_limit"),
    }
    for key, (name, keyword) in pairs.items():
        mine, theirs = value_in(values, key), _says(phases, name, keyword)
        if mine is not None and theirs is not None and mine != theirs:
            yield key, f"{mine} in task.toml, {theirs} as {keyword} of {name}"
    assets = table_in(values, "assets")
    for phase in phases.values():
        for source, _, _ in phase.mounts or ():
            mounted = source.removeprefix(_ASSET)
            if source.startswith(_ASSET) and not any(f"{one}/".startswith(f"{mounted}/") for one in assets):
                yield f"{phase.name} mounts {mounted}", "which [assets] does not name"


def _more(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    shown = {key.removeprefix("metadata.") for keys in (_IDENTITY, _PROXY, _FINAL) for key in keys.values()}
    yield from ((name, value) for name, value in table_in(values, "metadata").items() if name not in shown)


def _covers(phase: _Phase, asset: str) -> bool:
    mounted = [source.removeprefix(_ASSET) for source, _, _ in phase.mounts or () if source.startswith(_ASSET)]
    return any(f"{asset}/".startswith(f"{name}/") for name in mounted)


def _says(phases: Mapping[str, _Phase], name: str, keyword: str) -> Any:
    return phases[name].says.get(keyword) if name in phases else None


def _words(command: Any) -> Any:
    is_command = isinstance(command, tuple) and not any(isinstance(word, NotLiteral | Record) for word in command)
    return " ".join(map(str, command)) if is_command else command
