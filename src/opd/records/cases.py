"""Many attempts side by side: a table over case ids, task by task.

    case       harness__task__model__effort; one or more attempts
    attempt    one way through the task, with a score, or with the reason why it has none

A missing score is null and stands beside the counts. It is in no mean, no median and no comparison, and never a zero.
"""

from enum import StrEnum

from pydantic import NonNegativeInt, PositiveInt

from opd.records.scores import Comparison
from opd.records.settings import Settings
from opd.records.tasks import Reference


class Standing(StrEnum):
    """What an attempt has come to, as it counts in a table."""

    COMPLETED = "completed"  # it has an official score
    TERMINAL = "terminal"  # it ended without one by the explorer's or the candidate's doing
    REJECTED = "rejected"  # what was handed in breaks a rule: every submission refused, or no checkpoint valid
    INFRASTRUCTURE = "infrastructure"  # it ended without one by the machine's doing, or the operator's
    OPEN = "open"  # it goes on: something is due, somebody is at work, or a person has to rule


class Result(Settings):
    """An official score."""

    step: NonNegativeInt
    correct: NonNegativeInt
    samples: PositiveInt
    mean: float
    stderr: float | None
    """Clustered by question."""
    ci95: tuple[float, float] | None
    """As the score says it."""
    of: PositiveInt
    """The best of so many finals of one training."""
    protocol_sha256: str
    file: str
    """Relative to the attempt."""


class AttemptRow(Settings):
    """One attempt."""

    name: str
    """Its case id, and `__2` … for a further one. Not its alone: two folders of runs may hold one name each."""
    folder: str
    """As it was given; its alone."""
    case: str
    standing: Standing
    because: str | None
    """Why there is no score; null where there is one."""
    result: Result | None
    from_outside: bool
    """Its patch was not made in its exploration."""
    install_sha256: str
    """Digest of the code that judged."""
    log_sha256: str
    """Of its log's last line, when everything was verified; see `opd attempt verify --head`."""
    above: tuple[bool | None, ...]
    """For each reference whether its score is the better one, as numbers; null without a score."""


class Tally(Settings):
    """Some attempts together."""

    attempts: PositiveInt
    standings: dict[Standing, NonNegativeInt]
    """Each of them, zeros included."""
    best: float | None
    """Of the scores; null where there is none."""
    median: float | None
    """Of the scores that there are; see `standings` for how many."""
    above: tuple[NonNegativeInt, ...]
    """For each reference how many scores are better, as numbers."""

    @property
    def scores(self) -> int:
        """How many there are."""
        return self.standings[Standing.COMPLETED]


class CaseRow(Settings):
    """One case."""

    case: str
    harness: str
    model: str | None
    effort: str | None
    tally: Tally
    best_attempt: str | None
    """Its name."""
    best_folder: str | None
    """Its folder, which tells it from others of that name."""


class Pair(Settings):
    """Two cases by their best attempts, paired by question."""

    case: str
    against: str
    comparison: Comparison
    """Of `case` (b) with `against` (a), by `opd compare`; p is adjusted for all pairs of the table."""


class TaskTable(Settings):
    """All attempts on one task."""

    task: str
    task_sha256: str
    metric: str
    higher_is_better: bool
    questions: PositiveInt
    samples: PositiveInt
    references: tuple[Reference, ...]
    """Those of the final, in the task's order."""
    all: Tally
    cases: tuple[CaseRow, ...]
    """The best first; those without a score last, by name."""
    attempts: tuple[AttemptRow, ...]
    """In the order of their cases."""
    pairs: tuple[Pair, ...]
    """The leading case against each other that has a score."""
    unpaired: str | None
    """Why there are no pairs; null where there are."""
    notes: tuple[str, ...]
    """What the numbers don't say."""

    def best(self, case: CaseRow) -> AttemptRow | None:
        """The attempt of this case's best score; none where it has no score."""
        return next((row for row in self.attempts if row.folder == case.best_folder), None)

    def called(self, row: AttemptRow) -> str:
        """An attempt's name, with its folder where others of this table have that name too."""
        shared = sum(other.name == row.name for other in self.attempts) > 1
        return f"{row.name} ({row.folder})" if shared else row.name


class CaseTable(Settings):
    """One table for each task; two digests of a task are two tasks."""

    tasks: tuple[TaskTable, ...]
    passed_over: tuple[str, ...] = ()
    """Folders beside the attempts that have a run.json and are none, such as trainings."""
