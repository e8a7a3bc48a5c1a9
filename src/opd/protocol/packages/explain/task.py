"""One of our own tasks, explained."""

from collections.abc import Iterator

from opd.protocol.packages.explain.explanation import Explanation, Section, section
from opd.protocol.packages.instruction import identity, share
from opd.protocol.packages.quantities import seconds, size
from opd.protocol.phases import Phase, phases
from opd.records.tasks import Contract, Measure, ModelInput, Task


def explain(task: Task) -> Explanation:
    """What the task says, in the order in which a person asks."""
    contract = task.contract
    return Explanation(
        kind="opd",
        name=task.name,
        sections=(
            section("task", _identity(task)),
            section("fixed inputs", _inputs(contract)),
            section("editable surface", _surface(contract)),
            section("budgets", _budgets(contract)),
            _measure("proxy", contract.proxy),
            _measure("final", contract.final),
            section("artifacts", _artifacts(contract)),
            section("references", [(one.name, f"{share(one)} ({getattr(contract, one.of).metric}; {one.source})")
                                   for one in contract.references]),
            section("forbidden", [(str(number), text) for number, text in enumerate(contract.forbidden, start=1)]),
            section("machine", _machine(contract)),
            *(_phase(phase) for phase in phases(contract)),
        ),
    )  # fmt: skip


def _identity(task: Task) -> Iterator[tuple[str, object]]:
    yield "version", task.task.version
    yield "description", task.task.description
    yield "aim", task.contract.brief.strip()
    yield "task digest", task.digest
    yield "contract digest", task.contract.digest


def _inputs(contract: Contract) -> Iterator[tuple[str, object]]:
    for role in ("student", "teacher", "verifier"):
        one: ModelInput | None = getattr(contract, role)
        if one is not None:
            yield role, identity(one)
            yield f"{role} digest", one.files_sha256
            yield f"{role} parameters", one.parameters
            yield f"{role} architecture", one.architecture
    data = contract.data
    yield "data", data.source
    yield "data digest", data.sha256
    yield "data rows", data.rows
    if data.where:
        yield "data rows where", data.where
        yield "digest of those rows", data.given_sha256
    yield "data is", data.description.strip() or None


def _surface(contract: Contract) -> Iterator[tuple[str, object]]:
    surface = contract.surface
    own = contract.workspace == "opd"
    yield "workspace", "the training code of opd, and run.sh" if own else "the folder workspace/ of the task"
    yield "editable", surface.editable
    yield "frozen", surface.frozen or None
    yield "files end in", surface.suffixes
    yield "largest file", size(surface.largest_file_bytes)
    yield "largest patch", size(surface.largest_patch_bytes)


def _budgets(contract: Contract) -> Iterator[tuple[str, object]]:
    budgets = contract.budgets
    yield "exploration", seconds(budgets.explore_seconds)
    yield "formal training", seconds(budgets.formal_seconds)
    yield "of it in reserve", seconds(budgets.reserve_seconds)
    yield "a validation", seconds(budgets.validation_seconds)
    yield "a final evaluation", seconds(budgets.final_seconds)
    yield "formal retries", f"{budgets.formal_retries}, after failures of the infrastructure alone"


def _measure(role: str, measure: Measure) -> Section:
    context = "" if measure.context_tokens is None else f", {measure.context_tokens:,} with the prompt"
    top_k = f", top_k {measure.top_k}" if measure.top_k else ""
    rows = [
        ("metric", f"{measure.metric}, to be {measure.direction}d"),
        ("benchmark", measure.benchmark),
        ("samples", f"{measure.questions:,} questions × {measure.samples_per_question} = {measure.samples:,}"),
        ("seeds", ", ".join(map(str, measure.seeds))),
        ("new tokens at most", f"{measure.limit_tokens:,}{context}"),
        ("sampling", f"temperature {measure.temperature:g}, top_p {measure.top_p:g}{top_k}"),
        ("prompt", measure.prompt),
        ("graded by", "rules; the verifier settles what they reject" if measure.judged else "rules"),
        ("error", "standard error clustered by question"),
        *[(f"questions {file.source}", f"{file.rows:,} rows, SHA-256 {file.sha256}") for file in measure.files],
    ]
    return section(role, rows)


def _artifacts(contract: Contract) -> Iterator[tuple[str, object]]:
    rule = contract.artifacts
    yield "found as", rule.pattern
    yield "at most", f"{rule.most}, those with the greatest numbers"
    yield "official", "the best valid final score"
    yield "architecture", rule.architectures
    yield "may hold", rule.files


def _machine(contract: Contract) -> Iterator[tuple[str, object]]:
    needs = contract.needs
    yield "network", "none, in no phase"
    yield "GPUs", needs.gpus
    yield "CPUs", needs.cpus
    yield "memory", size(needs.memory_bytes)
    yield "disk", size(needs.disk_bytes)
    yield "processes", needs.processes


def _phase(phase: Phase) -> Section:
    rows: list[tuple[str, object]] = [("time", seconds(phase.seconds)), ("runs", phase.command)]
    rows += [(str(given.place), f"{given.what}{', writable' if given.writable else ''}") for given in phase.given]
    rows += [(f"${name}", value) for name, value in phase.variables.items()]
    rows += [("can't see", what) for what in phase.withheld]
    return section(f"phase {phase.name}", rows)
