"""All that is wrong with a task's folder, be it a source or a rendered package."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from opd.protocol.packages.catalogue import FILE, read_task
from opd.protocol.packages.folders import read_text
from opd.protocol.packages.instruction import instruction
from opd.protocol.packages.lint.findings import Finding, Report, Rule
from opd.protocol.packages.lint.lines import line_of, lines_of
from opd.protocol.packages.lint.packages import is_package, judge_folder, judge_package, told
from opd.protocol.packages.lint.questions import judge_inputs, judge_leaks
from opd.protocol.packages.lint.rules import Finder, judge, judge_benchmark
from opd.protocol.packages.package import BUILT_WORKSPACE, base_tree
from opd.protocol.patches.source import Tree, shown
from opd.records.errors import AskedWrongly
from opd.records.tasks import Task

Benchmarks = Mapping[str, Mapping[str, Any]]


def check(folder: Path, *, benchmarks: Benchmarks, data: Path | None = None) -> Report:
    """Every finding about the task in a folder, by path, line and rule.

    `benchmarks` are the settings of those that this install declares, by name; `data` is a folder where files of
    problems and questions may lie. Nothing of the folder is run, and nothing outside it is changed.
    """
    findings = list(judge_folder(folder))
    try:
        text = read_text(folder, FILE)
        task = read_task(folder)
    except AskedWrongly as error:
        return _report([*findings, *_invalid(error, folder)], [])
    try:
        base = base_tree(task, folder)
    except AskedWrongly as error:
        findings.append(Finding(rule=Rule.INVALID_TASK, path=str(BUILT_WORKSPACE), message=str(error)))
        return _report(findings, ["the workspace can't be read: nothing that depends on it was checked"])
    finder = Finder(lines=lines_of(text))
    unchecked: list[str] = []
    findings += judge(task, base, finder)
    for role in ("proxy", "final"):
        measure = getattr(task.contract, role)
        if measure.benchmark in benchmarks:
            findings += judge_benchmark(role, measure, benchmarks[measure.benchmark], finder)
        else:
            message = f"{role}: this install has no benchmark {measure.benchmark!r}; `opd show benchmarks` lists them"
            findings.append(finder.about(Rule.ANOTHER_BENCHMARK, message, role, "benchmark"))
    for one in judge_inputs(task.contract, finder, data):
        if isinstance(one, str):
            unchecked.append(one)
        else:
            findings.append(one)
    findings += judge_leaks(task.contract, _told(task, folder, base), finder, data)
    if is_package(folder):
        findings += judge_package(task, folder, base)
    return _report(findings, unchecked)


def _told(task: Task, folder: Path, base: Tree) -> Mapping[str, str]:
    """What the explorer may come to read, by path."""
    if is_package(folder):
        return told(folder)
    texts = {FILE: read_text(folder, FILE), "instruction.md": instruction(task)}
    sources = {f"workspace/{shown(path)}": file.content.decode("utf-8", "replace") for path, file in base.items()}
    return texts | sources


def _invalid(error: AskedWrongly, folder: Path) -> Iterator[Finding]:
    """A finding for each fault of a task.toml that is none."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        yield Finding(rule=Rule.INVALID_TASK, path=FILE, message=str(error))
        return
    lines = lines_of(read_text(folder, FILE))
    for fault in cause.errors(include_url=False):
        key = ".".join(map(str, fault["loc"]))
        unknown, missing = fault["type"] == "extra_forbidden", fault["type"] == "missing"
        says = str(fault["msg"]).removeprefix("Value error, ")
        what = "unknown key; remove it" if unknown else "is required" if missing else says
        rule = Rule.UNKNOWN_KEY if unknown else Rule.INVALID_TASK
        yield Finding(
            rule=rule, path=FILE, message=f"{key}: {what}" if key else what, line=line_of(lines, fault["loc"])
        )


def _report(findings: list[Finding], unchecked: list[str]) -> Report:
    order = sorted(dict.fromkeys(findings), key=lambda one: (one.path, one.line or 0, one.rule, one.message))
    return Report(findings=tuple(order), unchecked=tuple(unchecked))
