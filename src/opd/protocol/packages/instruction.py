"""The text of `instruction.md`: what the explorer is told. Every figure in it comes from the contract.

The words around the figures are in `templates/instruction.md`.
"""

import re
from collections.abc import Iterable

from opd.protocol.packages.quantities import seconds, size
from opd.protocol.packages.templates import filled
from opd.protocol.phases import BUDGET, COMMANDS, RUNS, STUDENT, TEACHER, WORKSPACE, data_place, variables
from opd.records.tasks import Contract, DataInput, Measure, ModelInput, Reference, Surface, Task, Tool

_CALLED = {
    Tool.FAST_EVAL: "fast-eval CHECKPOINT",
    Tool.TIMER: "timer",
    Tool.NOTE: 'note "TEXT" [--about RUN]',
    Tool.SUBMIT: "submit",
    Tool.NO_CANDIDATE: 'no-candidate --because "REASON"',
}
_DOES = {
    Tool.FAST_EVAL: "scores a checkpoint by the proxy and keeps the record; it has the device alone meanwhile",
    Tool.TIMER: (
        "says what is left of the exploration, which of your own experiments still fit into it, and what difference "
        "they could find"
    ),
    Tool.NOTE: (
        "puts your own words into the record, free of charge: why you try something before you run it, and what you "
        "make of its result. The report quotes them, and has no other source for what you meant"
    ),
    Tool.SUBMIT: (
        "checks the workspace's patch and, if it is accepted, ends the exploration; `--check` only checks. While "
        "time is left for another measurement it wants `--with-time-left`, which is recorded"
    ),
    Tool.NO_CANDIDATE: "ends the exploration without a patch, when nothing that you have can be trusted",
}
_PROBE = "`OUT=$RUNS/probe-1 bash run.sh --set budget.steps=20` trains a probe into a folder of its own."
_BLANK_LINES = re.compile(r"\n{3,}")


def instruction(task: Task) -> str:
    """The text for this task, in Markdown."""
    text = filled("instruction.md", _words(task) | _figures(task.contract))
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.splitlines())) + "\n"


def share(reference: Reference) -> str:
    """A published number: `820/1920 = 0.427083 ± 0.051615, cut short 0.0645`, without what is not known."""
    said = "" if reference.correct is None else f"{reference.correct}/{reference.samples} = "
    said += str(reference.score)
    said += "" if reference.stderr is None else f" ± {reference.stderr:g}"
    return said + ("" if reference.cut_short is None else f", cut short {reference.cut_short:g}")


def identity(one: ModelInput) -> str:
    """Where a model comes from, and which one it is: `owner/name@commit`."""
    return one.source + (f"@{one.revision}" if one.revision else "")


def _words(task: Task) -> dict[str, str]:
    contract = task.contract
    return {
        "title": task.task.description or task.name,
        "brief": contract.brief.strip(),
        "student": identity(contract.student),
        "teacher": identity(contract.teacher),
        "chosen": _chosen(contract.data),
        "editable": _listed(contract.surface.editable),
        "suffixes": _listed(contract.surface.suffixes),
        "frozen": _frozen(contract.surface),
        "directions": _directions(contract),
        "architectures": _listed(contract.artifacts.architectures),
        "checkpoint": contract.artifacts.pattern.removesuffix("*"),
        "commands": _table(
            ("command", "what it does"), [(f"`{_CALLED[one]}`", _DOES[one]) for one in contract.tools]
        ),
        "probe": _PROBE if contract.workspace == "opd" else "",
        "forbidden": "\n".join(f"- {sentence}" for sentence in contract.forbidden),
        "references": _references(contract),
        "workspace": str(WORKSPACE),
        "runs_place": str(RUNS),
        "student_place": str(STUDENT),
        "teacher_place": str(TEACHER),
        "data_place": str(data_place(contract)),
        "commands_place": str(COMMANDS),
        "budget_place": str(BUDGET),
    }


def _figures(contract: Contract) -> dict[str, str]:
    budgets, surface = contract.budgets, contract.surface
    given = [(f"`{name}`", f"`{value}`") for name, value in variables(contract).items()]
    return {
        "explore": seconds(budgets.explore_seconds),
        "formal": seconds(budgets.formal_seconds),
        "reserve": seconds(budgets.reserve_seconds),
        "validation": seconds(budgets.validation_seconds),
        "final_seconds": seconds(budgets.final_seconds),
        "rows": f"{contract.data.rows:,}",
        "largest_file": size(surface.largest_file_bytes),
        "largest_patch": size(surface.largest_patch_bytes),
        "most": str(contract.artifacts.most),
        "proxy": _measure(contract.proxy),
        "final": _measure(contract.final),
        "variables": _table(("variable", "value"), given),
    }


def _chosen(data: DataInput) -> str:
    if not data.where:
        return ""
    conditions = ", ".join(f"`{field}` is `{value}`" for field, value in data.where.items())
    return f"The file with the problems holds the rows of {data.source} whose {conditions}, and no others."


def _frozen(surface: Surface) -> str:
    return f"Frozen, whatever else is said: {_listed(surface.frozen)}." if surface.frozen else ""


def _directions(contract: Contract) -> str:
    proxy, final = contract.proxy.direction, contract.final.direction
    if proxy == final:
        return f"Both are to be {proxy}d."
    return f"The proxy is to be {proxy}d, the final {final}d."


def _measure(measure: Measure) -> str:
    context = "" if measure.context_tokens is None else f" (context {measure.context_tokens:,})"
    cells = (
        f"`{measure.metric}`",
        f"{measure.questions:,} × {measure.samples_per_question} = {measure.samples:,}",
        f"{measure.limit_tokens:,}{context}",
        f"temperature {measure.temperature:g}, top_p {measure.top_p:g}",
        "rules, then a verifier" if measure.judged else "rules",
    )
    return " | ".join(cells)


def _references(contract: Contract) -> str:
    rows = [(one.name, f"`{getattr(contract, one.of).metric}`", share(one)) for one in contract.references]
    return _table(("for comparison", "metric", "number"), rows) if rows else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _listed(names: Iterable[str]) -> str:
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} and {last}" if first else last
