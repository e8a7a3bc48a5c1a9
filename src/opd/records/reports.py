"""`report.json`: what the pictures of a report are drawn from, and how a report is sealed.

Times are active seconds since the explorer's program was started, unless they say otherwise. Every score names the
folder in which `opd evaluate` left it; every file is named relative to the attempt.
"""

from enum import StrEnum
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.records.settings import Settings

BRIEF, ANALYSIS, CLAIMS, REPORT, PAGE = "brief.md", "analysis.md", "claims.json", "report.json", "index.html"
COMPARISONS = "comparisons"


class Activity(StrEnum):
    """What a stretch of the exploration was taken up by."""

    TRAINING = "training"  # a command that had the device
    EVALUATION = "evaluation"  # a proxy measurement
    IDLE = "idle"  # the device did nothing


class Stretch(Settings):
    """Some time of the exploration."""

    activity: Activity
    begin_seconds: NonNegativeFloat
    end_seconds: NonNegativeFloat
    label: str
    """Of a training the command, of an evaluation the checkpoint; empty for idle time."""
    unit: str | None
    """U-01 …, where it belongs to one."""


class Moment(Settings):
    """Something that happened at one moment of the exploration."""

    kind: Literal["note", "submit", "no-candidate", "deadline"]
    at_seconds: NonNegativeFloat
    label: str
    """What was said, cut to one line."""


class StageSpan(Settings):
    """A sealed try of any stage, by the calendar."""

    name: str
    """`formal/attempt-002`."""
    outcome: str
    began_utc: str
    ended_utc: str
    active_seconds: NonNegativeFloat
    because: str | None
    counts: bool
    """False for a formal try that stays as history."""


class Exploring(Settings):
    """The time line of the exploration that the report is about."""

    name: str
    """`explore/attempt-001`."""
    began_utc: str
    given_seconds: NonNegativeFloat
    used_seconds: NonNegativeFloat
    left_seconds: NonNegativeFloat
    """Of the budget, at its end: by the submission's own record where there is one."""
    device: Literal["GPU", "processor"]
    """A processor has the explorer's own program on it, too: idle time tells little there."""
    idle_seconds: NonNegativeFloat
    stretches: tuple[Stretch, ...]
    moments: tuple[Moment, ...]


class Scored(Settings):
    """A measurement: of a proxy, or a final. Null where there is no score, with `missing` saying why."""

    label: str
    """`proxy 004`, `step 2100`; what comparisons name it by."""
    of: Literal["proxy", "final"]
    what: str
    """The checkpoint as the explorer named it, or the artifact's folder."""
    unit: str | None
    """U-01 … of a proxy."""
    step: NonNegativeInt | None
    """Training steps behind it, where they are known."""
    evaluation: str | None
    """Folder with score.json and samples.jsonl."""
    correct: NonNegativeInt | None
    samples: NonNegativeInt | None
    questions: NonNegativeInt | None
    mean: float | None
    stderr: float | None
    """Clustered by question."""
    stderr_naive: float | None
    design_effect: float | None
    ci95: tuple[float, float] | None
    cut_short: float | None
    missing: str | None
    official: bool = False
    """Of the finals: the one that counts."""


class Compared(Settings):
    """Two measurements of one protocol, paired by question, as `opd compare` of the install gave it."""

    file: str
    """`comparisons/01.json`, relative to the report."""
    pointer: str
    """Of this comparison in it."""
    of: Literal["proxy", "final"]
    a: str
    """Label of the one that is compared with."""
    b: str
    differs_in: tuple[str, ...] | None
    """In what the two trainings differ, where it is known: one thing alone makes A a matched control of B."""
    matched: bool
    """Whether A is a matched control of B: one difference, the same number of steps."""
    difference: float
    """B - A."""
    ci95: tuple[float, float] | None
    p: float | None
    """The larger of the two tests', adjusted for the family that it was taken in."""
    distinguishable: bool | None


class ReferenceLine(Settings):
    """A published number of the task's."""

    name: str
    of: Literal["proxy", "final"]
    score: float
    stderr: float | None
    correct: NonNegativeInt | None
    samples: NonNegativeInt


class Coverage(Settings):
    """How many of the training rows a training saw, as its own summary or metrics say."""

    label: str
    """`formal/attempt-002`, `proxy 004`."""
    rows_seen: NonNegativeInt
    rows: NonNegativeInt
    shuffled: bool | None
    """Null where its recipe doesn't say; false: the first rows of the file, always the same."""
    claimed_by: Literal["candidate", "explorer"]


class Curve(Settings):
    """Metrics that a training's own program wrote, a line a step: its claims, and nobody else's."""

    label: str
    file: str
    """metrics.jsonl."""
    claimed_by: Literal["candidate", "explorer"]


class Unit(Settings):
    """A unit of the exploration."""

    id: str
    """U-01 …"""
    title: str
    begin_seconds: NonNegativeFloat
    end_seconds: NonNegativeFloat
    proxy: str | None
    """Label of its measurement."""
    control: str | None
    """Label of its matched control; null where there is none."""
    adopted: bool
    """Whether what was handed in is what this unit measured."""


class Report(Settings):
    """The whole."""

    schema_version: Literal[1] = 1
    case: str
    task: str
    """Its name."""
    title: str
    """What the task is about, in a line."""
    made_utc: str
    stages: tuple[StageSpan, ...]
    exploring: Exploring | None
    """Null where nothing was explored."""
    units: tuple[Unit, ...]
    proxy_metric: str
    final_metric: str
    proxies: tuple[Scored, ...]
    finals: tuple[Scored, ...]
    comparisons: tuple[Compared, ...]
    references: tuple[ReferenceLine, ...]
    coverages: tuple[Coverage, ...]
    curves: tuple[Curve, ...]
    patch: str | None
    """The submitted patch; null where nothing was submitted."""
    audit: str | None
    """outcome.json of the audit that it was made with."""
    missing: str | None
    """Why there is no official score."""


class Rendered(Settings):
    """`outcome.json` of a report."""

    audit: str | None
    """The audit that it tells of: `audit/attempt-001`."""
    head_sha256: str
    """Of the attempt's log when it was made; every file was read again up to there, and held."""
    claims: NonNegativeInt
    numbers: NonNegativeInt
    """Places in the texts at which a claim stands."""
    not_established: NonNegativeInt
    """Sentences that say so."""
    files: tuple[str, ...]
    """What was written, for people first."""
    pdf: str | None
    """`report.pdf`; null where none was made."""
    pdf_missing: str | None
    """Why there is none."""
