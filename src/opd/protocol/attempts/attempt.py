"""An attempt as a folder: where what lies, and how its tries are numbered.

    runs/claude-code__opd_math_1p5b__sonnet__xhigh/
      run.json  task.lock.json                          who, on what; written once
      events.jsonl                                      what happened, hash-chained
      lease.json                                        who is at work, if anybody
      explore/attempt-001/  submission/  formal/attempt-001/  formal/attempt-002/
      validation/step-002080/  final/step-002080/  rulings/001/

Every folder of a try is a sealed receipt, or stands under `<name>.partial` while it is being filled. Nothing here
says how far the attempt is: that is worked out by `opd.protocol.attempts.state`.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from opd.protocol.attempts.events import Events
from opd.records.attempts import Identity, Stage
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import PARTIAL
from opd.records.receipts import partial_of
from opd.records.settings import read
from opd.records.tasks import Task

RUN = "run.json"
TASK_LOCK = "task.lock.json"
EVENTS = "events.jsonl"
BASE = "base"  # the tree that a submission is a patch to, sealed
OUTCOME = "outcome.json"
RULINGS = "rulings"
RULING = "ruling.json"

_NUMBERED = re.compile(r"(?:attempt|step)-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one try of a stage is, or would be."""

    stage: Stage
    number: int  # of the try, or the step of the checkpoint that it is about; 1 for the submission
    folder: Path  # under its own name

    @property
    def name(self) -> str:
        """Relative to the attempt: `formal/attempt-002`."""
        return self.folder.name if self.stage is Stage.SUBMISSION else f"{self.stage}/{self.folder.name}"

    @property
    def partial(self) -> Path:
        """Where it is filled."""
        return partial_of(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulingPlace:
    """Where a ruling is, or would be."""

    number: int
    folder: Path

    @property
    def name(self) -> str:
        """Relative to the attempt: `rulings/001`."""
        return f"{RULINGS}/{self.folder.name}"


class Attempt:
    """The folder of one attempt.

    Raises `AskedWrongly` where there is none, and `AnswerIsNo` where there is one whose run.json is gone.
    """

    def __init__(self, folder: Path) -> None:
        if not is_attempt(folder):
            why = f"its {RUN} is of something else" if (folder / RUN).is_file() else f"it has no {RUN}"
            raise AskedWrongly(f"{folder} is no attempt: {why}; `opd attempt new TASK` makes one")
        if not (folder / RUN).is_file():
            raise AnswerIsNo(f"{folder} is a damaged attempt: its {RUN} is gone, and the rest is there")
        self.folder = folder
        self.events = Events(folder / EVENTS)

    @cached_property
    def identity(self) -> Identity:
        """Who, on what task."""
        return read(Identity, self.folder / RUN)

    @cached_property
    def task(self) -> Task:
        """The task as it was when the attempt was made; raises `AskedWrongly` when it was changed since."""
        path = self.folder / TASK_LOCK
        task = read(Task, path)
        if task.digest != self.identity.task_sha256:
            raise AskedWrongly(
                f"{path} has digest {task.digest[:12]}…, and the attempt was made for "
                f"{self.identity.task_sha256[:12]}…: somebody changed it; an attempt keeps its task"
            )
        return task

    def places(self, stage: Stage) -> tuple[Place, ...]:
        """The tries of a stage that were begun, by number, sealed or not."""
        if stage is Stage.SUBMISSION:
            one = self.submission
            return (one,) if one.folder.exists() or one.partial.exists() else ()
        found = _names(self.folder / stage)
        numbers = {int(match[1]) for name in found if (match := _NUMBERED.fullmatch(name))}
        places = (self.place(stage, number) for number in sorted(numbers))
        return tuple(place for place in places if place.folder.name in found)  # attempt-1 is no name of ours

    def place(self, stage: Stage, number: int) -> Place:
        """The try of this number, or of the checkpoint of this step."""
        name = f"step-{number:06d}" if stage in {Stage.VALIDATION, Stage.FINAL} else f"attempt-{number:03d}"
        return Place(stage=stage, number=number, folder=self.folder / stage / name)

    @property
    def submission(self) -> Place:
        """Where the one submission is, or would be."""
        return Place(stage=Stage.SUBMISSION, number=1, folder=self.folder / Stage.SUBMISSION)

    def next(self, stage: Stage) -> Place:
        """The first number that no try of this stage ever had."""
        return self.place(stage, max((place.number for place in self.places(stage)), default=0) + 1)

    def ruling_places(self) -> tuple[RulingPlace, ...]:
        """What people decided, in order; the rulings that were begun, sealed or not."""
        found = _names(self.folder / RULINGS)
        places = (self.ruling_place(int(name)) for name in sorted(found) if name.isdecimal())
        return tuple(place for place in places if place.folder.name in found)

    def ruling_place(self, number: int) -> RulingPlace:
        """The ruling of this number."""
        return RulingPlace(number=number, folder=self.folder / RULINGS / f"{number:03d}")


def is_attempt(folder: Path) -> bool:
    """Whether an attempt lies here, damaged or not: a training's folder has a run.json too, and is none.

    Any one of an attempt's own files makes it one, so that none is passed over for want of another.
    """
    if any((folder / name).is_file() for name in (EVENTS, TASK_LOCK)):
        return True
    try:
        return (folder / RUN).is_file() and bool(read(Identity, folder / RUN).case)
    except AskedWrongly:
        return False


def _names(folder: Path) -> frozenset[str]:
    """The names in a folder, of what is begun and of what is in place alike; none where there is no folder."""
    return frozenset(path.name.removesuffix(PARTIAL) for path in folder.iterdir()) if folder.is_dir() else frozenset()
