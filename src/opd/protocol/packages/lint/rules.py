"""What a task's contract says, held against itself, against Harbor's keys and against the benchmarks it names."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from opd.protocol.packages.catalogue import FILE
from opd.protocol.packages.lint.findings import Finding, Rule
from opd.protocol.packages.lint.lines import Place, line_of
from opd.protocol.packages.package import follows_from
from opd.protocol.patches.source import Tree, shown
from opd.records.settings import Settings
from opd.records.tasks import Contract, Measure, Reference, Task, matches

MOST_ARTIFACTS = 5  # of many correlated scores the best is a draw of luck

_OPD: Place = ("metadata", "opd")
_POLICY = {"network_mode", "allowed_hosts"}
_ENVIRONMENT = _POLICY | {
    "build_timeout_sec", "docker_image", "os", "workdir", "skills_dir", "cpus", "memory_mb", "storage_mb", "gpus",
    "gpu_types", "tpu", "env", "mcp_servers", "healthcheck",
}  # fmt: skip
HARBORS: Mapping[str, frozenset[str]] = {
    "task": frozenset({"name", "version", "description", "authors", "keywords"}),
    "agent": frozenset(_POLICY | {"timeout_sec", "user"}),
    "verifier": frozenset(_POLICY | {"timeout_sec", "env", "user", "environment_mode", "environment", "collect"}),
    "environment": frozenset(_ENVIRONMENT),
    "solution": frozenset({"env"}),
}


class Finder(Settings):
    """Makes findings about task.toml that name the line of a key."""

    lines: dict[Place, int]

    def at(self, rule: Rule, message: str, *place: str | int) -> Finding:
        """A finding about the key at a place."""
        return Finding(rule=rule, path=FILE, message=message, line=line_of(self.lines, place))

    def about(self, rule: Rule, message: str, *place: str | int) -> Finding:
        """A finding about a key of the contract."""
        return self.at(rule, message, *_OPD, *place)


def judge(task: Task, base: Tree, finder: Finder) -> Iterator[Finding]:
    """What can be said of a task without any other file; `base` is the tree of its workspace."""
    contract = task.contract
    if not contract.brief.strip():
        yield finder.about(Rule.EMPTY_INSTRUCTION, "brief is blank; say what is to be improved", "brief")
    yield from _harbors(task, finder)
    yield from _inputs(contract, finder)
    yield from _surface(contract, base, finder)
    yield from _measures(contract, finder)
    for number, reference in enumerate(contract.references):
        yield from _reference(reference, getattr(contract, reference.of), finder, number)
    if contract.artifacts.most > MOST_ARTIFACTS:
        message = (
            f"most = {contract.artifacts.most}: the best of so many correlated scores is luck; "
            f"{MOST_ARTIFACTS} at most, and the published protocol has 3"
        )
        yield finder.about(Rule.LOOSE_ARTIFACTS, message, "artifacts", "most")


def judge_benchmark(role: str, measure: Measure, declared: Mapping[str, Any], finder: Finder) -> Iterator[Finding]:
    """Where a measure is not what the benchmark of its name declares; `declared` are the benchmark's settings."""
    names = ("questions", "seeds", "prompt", "temperature", "top_p", "top_k", "limit_tokens", "context_tokens")
    said = measure.resolved()
    for name in names:
        if said[name] != declared[name]:
            message = f"{role}.{name} = {said[name]!r}, and {measure.benchmark} declares {declared[name]!r}; say that"
            yield finder.about(Rule.ANOTHER_BENCHMARK, message, role, name)
    files = [(file.source, file.sha256, file.rows) for file in measure.files]
    theirs = [(file["data"], file["sha256"], file["rows"]) for file in declared["files"]]
    if files != theirs:
        message = f"{role}.files are {files}, and {measure.benchmark} declares {theirs}; say that"
        yield finder.about(Rule.ANOTHER_BENCHMARK, message, role, "files", 0)


def _harbors(task: Task, finder: Finder) -> Iterator[Finding]:
    values = task.model_dump(mode="json")
    for table, known in HARBORS.items():
        for key in sorted(values[table].keys() - known):
            yield finder.at(Rule.UNKNOWN_KEY, f"Harbor's table [{table}] has no key {key!r}; remove it", table, key)
    for table, follows in follows_from(task.contract).items():
        for key, value in follows.items():
            if key in values[table] and values[table][key] != value:
                message = (
                    f"{table}.{key} = {values[table][key]!r}, and the contract comes to {value!r}; leave it out, "
                    "or change the contract"
                )
                yield finder.at(Rule.DISAGREES, message, table, key)


def _inputs(contract: Contract, finder: Finder) -> Iterator[Finding]:
    for role in ("student", "teacher", "verifier"):
        one = getattr(contract, role)
        if one is not None and not one.is_pinned:
            message = f"{role} {one.source} has neither revision nor files_sha256: another one would not be noticed"
            yield finder.about(Rule.UNPINNED_INPUT, message, role, "source")


def _surface(contract: Contract, base: Tree, finder: Finder) -> Iterator[Finding]:
    surface, paths = contract.surface, [shown(path) for path in base]
    for glob in surface.editable:
        named = [path for path in paths if matches(glob, path)]
        if both := [path for path in named if surface.is_frozen(path)]:
            more = f" and {len(both) - 1} more" if len(both) > 1 else ""
            message = f"editable {glob!r} names {both[0]}{more}, which is frozen; write a narrower glob"
            yield finder.about(Rule.FROZEN_SURFACE, message, "surface", "editable")
        if not named:
            message = f"editable {glob!r} names no file of the workspace; correct it or remove it"
            yield finder.about(Rule.UNREACHABLE_SURFACE, message, "surface", "editable")


def _measures(contract: Contract, finder: Finder) -> Iterator[Finding]:
    proxy, final = contract.proxy, contract.final
    shared = {file.sha256 for file in proxy.files} & {file.sha256 for file in final.files}
    if proxy.benchmark == final.benchmark or shared:
        what = (
            f"the benchmark {final.benchmark}"
            if proxy.benchmark == final.benchmark
            else f"a file, {min(shared)[:12]}…"
        )
        message = f"proxy and final share {what}: exploration would tune on what counts; ask other questions"
        yield finder.about(Rule.SAME_QUESTIONS, message, "final", "benchmark")
    for name in ("limit_tokens", "context_tokens"):
        mine, theirs = getattr(proxy, name), getattr(final, name)
        if mine is not None and theirs is not None and mine > theirs:
            message = (
                f"proxy.{name} = {mine:,} is more than the final's {theirs:,}: what is chosen by long answers is "
                "cut short when it counts; make it no larger"
            )
            yield finder.about(Rule.PROXY_BEYOND_FINAL, message, "proxy", name)


def _reference(reference: Reference, measure: Measure, finder: Finder, number: int) -> Iterator[Finding]:
    place = ("references", number)
    if reference.samples != measure.samples:
        message = (
            f"{reference.name!r} has {reference.samples:,} samples, and {measure.metric} has {measure.samples:,}"
        )
        yield finder.about(Rule.REFERENCE_ARITHMETIC, message, *place, "samples")
    if reference.correct is None:
        return
    digits = max(1, -int(Decimal(repr(reference.score)).as_tuple().exponent))
    exact = Decimal(reference.correct) / Decimal(reference.samples)
    if abs(exact - Decimal(repr(reference.score))) > Decimal(5).scaleb(-digits - 1):
        message = (
            f"{reference.name!r}: {reference.correct}/{reference.samples} = {exact:.6f}, and its score says "
            f"{reference.score}; one of them is wrong"
        )
        yield finder.about(Rule.REFERENCE_ARITHMETIC, message, *place, "score")
