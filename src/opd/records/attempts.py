"""An attempt on a task: who made it, how each stage can end, and what it has come to.

    explore ─submitted→ submission → formal ─completed→ validation → final ─→ audit → report
       │                               │                                          │
       no_candidate, deadline …        infra_failed, interrupted                  however the attempt ended
                                       → the next formal try, same patch

Words for how a stage ended and words for whether it is alive are two vocabularies that share none.
"""

from enum import StrEnum
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.records.audits import Axis, Verdict
from opd.records.causes import Cause
from opd.records.checkpoints import Loaded, Structure
from opd.records.settings import Settings


class Stage(StrEnum):
    """What is done to an attempt, in order; also the names of its folders."""

    EXPLORE = "explore"
    SUBMISSION = "submission"
    FORMAL = "formal"
    VALIDATION = "validation"
    FINAL = "final"
    AUDIT = "audit"
    REPORT = "report"


CLOSING = frozenset({Stage.AUDIT, Stage.REPORT})
"""What is done about an attempt when all else is done; the result does not rest on it."""


class Explored(StrEnum):
    """How an exploration ended."""

    SUBMITTED = "submitted"
    NO_CANDIDATE = "no_candidate"  # the explorer says that it has nothing better than the start, and why
    ENDED_EARLY = "ended_early"  # its program ended well, with time left and without a word
    AGENT_ERROR = "agent_error"  # its program ended with an error
    DEADLINE = "deadline"  # the budget ended first; what stood there then is kept for recovery, and is not eligible
    CANCELLED = "cancelled"  # by the operator
    INTERRUPTED = "interrupted"  # the orchestrator died
    INFRA_FAILED = "infra_failed"


class Handed(StrEnum):
    """How a submission ended: there is one way. What was refused never was one."""

    SEALED = "sealed"


class Replayed(StrEnum):
    """How a formal try ended."""

    COMPLETED = "completed"  # artifacts are there; the stop cause is a fact beside it
    FAILED_CANDIDATE = "failed_candidate"
    AMBIGUOUS = "ambiguous"  # waits for a ruling
    INFRA_FAILED = "infra_failed"
    INTERRUPTED = "interrupted"


class Validated(StrEnum):
    """What a checkpoint was found to be."""

    VALID = "valid"
    INVALID = "invalid"


class Evaluated(StrEnum):
    """How a final evaluation ended. A missing score is no zero.

    One that the machine's fault stopped has not ended: it goes on where it was, by the same protocol.
    """

    SCORED = "scored"
    FAILED = "failed"


class Audited(StrEnum):
    """How an audit ended that was made to its end, whatever it found."""

    ASSESSED = "assessed"


class Reported(StrEnum):
    """How a report ended that was written to its end."""

    RENDERED = "rendered"


ANOTHER_TRY = frozenset({Explored.INTERRUPTED.value, Explored.INFRA_FAILED.value})  # of explore and formal alike


class Liveness(StrEnum):
    """What is known of a try without asking how it ended."""

    RUNNING = "running"  # a living process holds the lease
    LEFT = "left"  # begun, and nobody is at work: `opd attempt resume` seals it
    UNMARKED = "unmarked"  # in place and without its mark: a crash in the last instant; `resume` marks it
    SEALED = "sealed"
    DAMAGED = "damaged"  # its mark or its receipt is not what was written


class Identity(Settings):
    """`run.json`: what makes this attempt this one. Written once."""

    schema_version: Literal[1] = 1
    case: str
    """harness__task__model__effort."""
    task: str
    task_sha256: str
    """Digest of the resolved task, which lies beside it in task.lock.json."""
    harness: str
    """Which adapter runs the explorer: command, claude-code, codex."""
    command: tuple[str, ...]
    """The explorer's program and its arguments."""
    shown: tuple[str, ...]
    """What it sees besides, read-only, as it is: the scripts that its command names, and what was asked for."""
    endpoint: str | None
    """Unix socket at which the explorer's model answers; null for an explorer that asks none."""
    model: str | None
    effort: str | None
    opd_version: str
    install_sha256: str
    """Digest of the tree of the installed package that judges."""
    base_sha256: str
    """Digest of the tree that the explorer begins with."""
    created_utc: str


class TryState(Settings):
    """One try of a stage."""

    stage: Stage
    name: str
    """Its folder, relative to the attempt's."""
    liveness: Liveness
    outcome: str | None
    """Of a sealed one."""
    because: str | None
    active_seconds: NonNegativeFloat | None


class Official(Settings):
    """The best of the valid checkpoints' finals: the attempt's result."""

    step: NonNegativeInt
    correct: NonNegativeInt
    samples: NonNegativeInt
    mean: float
    stderr: float | None
    of: NonNegativeInt
    """How many finals it is the best of: the greatest of several correlated estimates is a little too high."""


class Due(Settings):
    """What comes next."""

    stage: Stage
    name: str | None
    """Of the checkpoint that it is about; null for the other stages."""
    because: str


class Status(Settings):
    """What an attempt has come to, worked out from its files at one moment."""

    case: str
    task: str
    state: str
    """new, exploring, submitted, replaying, waits_for_a_ruling, replayed, validating, validated, evaluating,
    evaluated; ended (without a score); auditing, audited, reporting, reported; interrupted (somebody was at work
    and died), inconsistent (contradictions)."""
    tries: tuple[TryState, ...]
    due: tuple[Due, ...]
    """Empty when all is done, when somebody is at it, or when nothing can be done without a person."""
    waits_for: str | None
    """What a person has to say first."""
    official: Official | None
    """Null with a reason in `missing`, never zero; null while the attempt contradicts itself."""
    missing: str | None
    verdicts: dict[Axis, Verdict] | None
    """Of the audit that counts: the newest that has seen all that is sealed; null without one."""
    contradictions: tuple[str, ...]


class RetryOrder(Settings):
    """`retry-order.json`: why there is a further try of the same patch. There is no other way to one."""

    after: str
    """The try before it: `formal/attempt-001`."""
    outcome: str
    """How that one counts: infra_failed or interrupted, after a ruling where there was one."""
    rule: str
    """What makes it so: the rule of the classification, or the ruling."""
    by: str
    """`rule`, or who ruled."""
    patch_sha256: str
    """The same as before."""
    receipt_sha256: str
    """Of the try before it."""
    number: NonNegativeInt
    """Of the further try."""
    most: NonNegativeInt
    """Tries that the task allows."""


class Exploration(Settings):
    """`outcome.json` of an exploration."""

    isolation: str
    """The rung of the sandbox."""
    exit_code: int | None
    signal: str | None
    seconds: NonNegativeFloat
    """Active, from the start of the explorer's program to its end."""
    given_seconds: NonNegativeFloat
    suspended_seconds: NonNegativeFloat
    """That the machine slept meanwhile; not charged."""
    idle_seconds: NonNegativeFloat
    """In which the device did nothing."""
    shortest_pipeline_seconds: NonNegativeFloat | None
    """The least that a training with its measurement took; null where nothing was measured."""
    proxies: NonNegativeInt
    """Measurements, those without a score included."""
    left_processes: tuple[str, ...]
    """Command lines of what was still running when the explorer's program had ended; it was ended."""
    recovery: str | None
    """A patch of what stood in the workspace, where nothing was handed in. Not eligible."""


class Submission(Settings):
    """`outcome.json` of the submission: a source patch, and what was true when it was handed in."""

    origin: Literal["explorer", "outside"]
    """`outside`: a patch that was given to `opd attempt replay --patch`, not made in this attempt's exploration."""
    explored_in: str | None
    """The try that it comes from."""
    note: str | None
    """What the explorer says about it."""
    patch_sha256: str
    patch_bytes: NonNegativeInt
    base_sha256: str
    """Digest of the tree that it applies to."""
    patched_sha256: str
    """Digest of the tree that it gives."""
    changed_paths: tuple[str, ...]
    """Paths, in order; none where the base itself is submitted."""
    remaining_seconds: float | None
    """Of the exploration's budget."""
    processes: tuple[str, ...]
    """Command lines that were running besides the one that submitted."""


class Artifact(Settings):
    """A checkpoint that a formal try left."""

    step: NonNegativeInt
    folder: str
    """Relative to the try."""
    sha256: str
    """Digest of its tree."""


class Formal(Settings):
    """`outcome.json` of a formal try."""

    patch_sha256: str
    checkout_sha256: str
    """Digest of base + patch, before `bash run.sh`."""
    inputs_sha256: dict[str, str]
    """Of each fixed input, the same before and after."""
    isolation: str
    """The rung of the sandbox."""
    exit_code: int | None
    signal: str | None
    stop: str
    """As it was seen from outside: wall_clock (its time was up), by_itself, error, stopped, limit, lost, not_started.
    What its own program says of that is in its own run.json, and a claim."""
    seconds: float
    """Active."""
    given_seconds: float
    last_step: int | None
    artifacts: tuple[Artifact, ...]
    """Those that count: at most as many as the task takes, with the greatest numbers."""
    passed_over: dict[str, str]
    """What else lay there, with the reason why it doesn't count."""
    left_processes: tuple[str, ...]
    """Command lines of what was still running when its program had ended; it was ended."""
    unexpected_files: tuple[str, ...]
    """What it opened beside the inputs, its checkout and the system, where the kernel tells; see opened.json."""
    cause: Cause
    """Whose failure it was, with the evidence; of a try that completed, that it was none."""


class Validation(Settings):
    """`outcome.json` of the validation of one artifact."""

    step: NonNegativeInt
    artifact_sha256: str
    structure: Structure
    """By its files alone, before anything was loaded."""
    loaded: Loaded | None
    """By `opd load`; null where the structure forbade it, or the program gave no answer."""
    faults: tuple[str, ...]
    """Each a sentence; empty for a valid one."""


class Final(Settings):
    """`outcome.json` of a final evaluation."""

    step: NonNegativeInt
    artifact_sha256: str
    benchmark: str
    protocol_sha256: str | None
    evaluator_sha256: str
    """Digest of the code that judged, the same before and after."""
    correct: NonNegativeInt | None
    samples: NonNegativeInt
    mean: float | None
    stderr: float | None
    cut_short: float | None
    seconds: float
    missing: str | None
    """Why there is no score; null where there is one."""
