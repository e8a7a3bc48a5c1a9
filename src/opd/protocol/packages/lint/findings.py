"""What a finding is, and the rules that there are."""

from enum import StrEnum

from opd.records.settings import Settings


class Rule(StrEnum):
    """The rules, each with what it finds."""

    INVALID_TASK = "invalid-task"  # task.toml is missing, is no TOML, lacks a key, or breaks a rule of one
    UNKNOWN_KEY = "unknown-key"  # neither the contract nor Harbor knows it
    DISAGREES = "disagrees"  # a key of Harbor's says something else than the contract that it follows from
    EMPTY_INSTRUCTION = "empty-instruction"  # the explorer is told nothing
    UNPINNED_INPUT = "unpinned-input"  # another model of the same name would not be noticed
    FROZEN_SURFACE = "frozen-surface"  # a file is editable and frozen
    UNREACHABLE_SURFACE = "unreachable-surface"  # a glob of the surface names no file of the workspace
    SAME_QUESTIONS = "same-questions"  # proxy and final ask the same
    PROXY_BEYOND_FINAL = "proxy-beyond-final"  # the proxy gives an answer more room than the final
    ANOTHER_BENCHMARK = "another-benchmark"  # a measure is not what the benchmark of its name declares
    ANOTHER_INPUT = "another-input"  # a file at hand is not the one that is pinned
    REFERENCE_ARITHMETIC = "reference-arithmetic"  # correct / samples is not the score
    LOOSE_ARTIFACTS = "loose-artifacts"  # so many artifacts are evaluated that the best of them is chosen by chance
    HOLDS_FINAL_QUESTIONS = "holds-final-questions"  # what the explorer gets has a question of the final in it
    ESCAPING_PATH = "escaping-path"  # a link leads out or in a circle, or something is neither file nor folder
    STALE_PACKAGE = "stale-package"  # a file of the package is not what task.toml renders to


class Finding(Settings):
    """One thing that is wrong."""

    rule: Rule
    path: str
    """Of the file, relative to the task's folder."""
    message: str
    """What there is, what the rule is, what to do."""
    line: int | None = None
    """Of the file, from 1; null where it has none."""


class Report(Settings):
    """All findings, and what could not be looked at; a rule that had nothing to look at has found nothing."""

    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...] = ()
    """Each a sentence."""
