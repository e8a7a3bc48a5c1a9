"""What an audit looks at: an attempt's files as values, each of which knows the file that it came from.

Collected once by `collection`, and never changed: a control that is planted gives another `Evidence`. What could not
be read, or is not as its receipt says, is in `unread` and nowhere else, so that no check takes it for nothing found.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from opd.protocol.attempts.events import Event
from opd.protocol.attempts.verify import Verification
from opd.protocol.explorer.proxy import Proxy
from opd.protocol.inputs import Inputs
from opd.protocol.openings.opened import Line as Opening
from opd.protocol.openings.opened import Opened
from opd.protocol.sandbox.probes import Isolation
from opd.protocol.supervision.device import Second
from opd.records.attempts import Exploration, Final, Formal, Identity, RetryOrder, Submission, Validation
from opd.records.audits import Coverage, Pointer
from opd.records.causes import Ruling
from opd.records.receipts import Receipt
from opd.records.scores import Score
from opd.records.tasks import Task
from opd.records.trajectories import Trajectory
from opd.records.trees import Entry

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Generic[T]):
    """What a file holds."""

    value: T
    file: str  # relative to the attempt
    sha256: str
    bytes: int

    def at(self, pointer: str = "") -> Pointer:
        """The place in the file: RFC 6901, or `line:N`."""
        return Pointer(file=self.file, pointer=pointer, sha256=self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A regular file of a sealed folder, as its receipt lists it."""

    path: str  # relative to the attempt
    bytes: int
    sha256: str

    def at(self, pointer: str = "") -> Pointer:
        """The place in the file: RFC 6901, or `line:N`."""
        return Pointer(file=self.path, pointer=pointer, sha256=self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A line of desk.jsonl: what the explorer asked, and what came of it."""

    line: int
    command: str
    arguments: dict[str, Any]
    began: str  # UTC
    ended: str
    exit_code: int
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line of commands.jsonl: what one of the explorer's shells ran, or how much came when the record was full."""

    line: int
    at: str  # UTC
    text: str
    lost_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A line of processes.jsonl: a process of the try's program when it was first seen."""

    line: int
    at: str  # UTC
    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A proxy measurement."""

    name: str  # `explore/attempt-001/proxy/003`
    facts: Held[Proxy]
    receipt: Held[Receipt]
    score: Held[Score] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreTry:
    """An exploration that is over. None: the file isn't there, or is in `Evidence.unread`."""

    name: str
    outcome: str
    receipt: Held[Receipt]
    facts: Held[Exploration] | None
    isolation: Held[Isolation] | None
    measured: tuple[Measured, ...]
    asked: Held[tuple[Asked, ...]] | None
    commands: Held[tuple[Command, ...]] | None
    started: Held[tuple[Started, ...]] | None
    seconds: Held[tuple[Second, ...]] | None
    runs: Held[tuple[Entry, ...]] | None  # all that lay in its runs, the weights that were not kept among it
    trajectory: Held[Trajectory] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """How much the added lines of a patch hold."""

    added_bytes: int
    packed_bytes: int  # of them, when compressed
    digits: int  # in runs of such as base64 and base85 are written in


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The submission."""

    name: str
    receipt: Held[Receipt]
    facts: Held[Submission] | None
    patch: File | None
    carried: Held[Carried] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FormalTry:
    """A formal try that is over."""

    name: str
    number: int
    outcome: str  # as it counts: after a ruling
    receipt: Held[Receipt]
    facts: Held[Formal] | None
    isolation: Held[Isolation] | None
    opened: Held[Opened] | None
    openings: Held[tuple[Opening, ...]] | None
    order: Held[RetryOrder] | None
    started: Held[tuple[Started, ...]] | None
    seconds: Held[tuple[Second, ...]] | None  # None of a try of before there was such a record, too
    artifact_files: tuple[File, ...]  # of its checkpoints that count
    claim: Held[dict[str, Any]] | None  # what the candidate's own trainer says of its run: a claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A checkpoint's validation that is over."""

    name: str
    step: int
    outcome: str
    receipt: Held[Receipt]
    facts: Held[Validation] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A checkpoint's final that is over."""

    name: str
    step: int
    outcome: str
    receipt: Held[Receipt]
    facts: Held[Final] | None
    score: Held[Score] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What the machine says at the moment of the audit, of what the attempt has pinned."""

    install_sha256: str
    inputs: dict[str, str | None]  # digest by role; None: it is not here any more, or can't be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All of it."""

    folder: Path  # of the attempt; for the check that reads every file
    identity: Held[Identity]
    task: Held[Task] | None
    inputs: Held[Inputs] | None
    log: Held[tuple[Event, ...]]
    explorations: tuple[ExploreTry, ...]
    submission: Handover | None
    formals: tuple[FormalTry, ...]
    counted: str | None  # the formal try that counts
    validations: tuple[Checked, ...]
    finals: tuple[Evaluated, ...]
    rulings: tuple[Held[Ruling], ...]  # what people decided of formal tries
    verification: Verification
    now: Now
    files: tuple[File, ...]  # every regular file of every sealed folder that the result or its history consists of
    states: tuple[Held[dict[str, Any]], ...]  # what says in an exploration or a formal try how far something is
    unread: tuple[str, ...]  # `path: why`

    @property
    def on_gpus(self) -> bool:
        """Whether the task gives GPUs: a processor runs the explorer's program too, and no share tells idleness."""
        return self.task is None or self.task.value.contract.needs.gpus > 0

    @property
    def explored(self) -> ExploreTry | None:
        """The exploration that was handed in from, or else the last one."""
        facts = self.submission.facts if self.submission else None
        if facts and facts.value.explored_in:
            return next((one for one in self.explorations if one.name == facts.value.explored_in), None)
        return self.explorations[-1] if self.explorations else None

    @property
    def tries(self) -> "tuple[ExploreTry | FormalTry, ...]":
        """The explorations and the formal tries: what ran programs of strangers."""
        return (*self.explorations, *self.formals)

    @property
    def of_artifacts(self) -> "tuple[Checked | Evaluated, ...]":
        """The validations and the finals."""
        return (*self.validations, *self.finals)

    @property
    def formal(self) -> FormalTry | None:
        """The formal try that counts."""
        return next((one for one in self.formals if one.name == self.counted), None)

    def coverage(self, *held: "Held[Any] | File | None", unread: tuple[str, ...] = ()) -> Coverage:
        """How much these come to; None counts for nothing."""
        files = {self._name(one): one.bytes for one in held if one is not None}
        return Coverage(files=len(files), bytes=sum(files.values()), unread=unread)

    def ruling_on(self, name: str) -> Held[Ruling] | None:
        """The ruling that counts for a formal try: the first."""
        return next((one for one in self.rulings if one.value.about == name), None)

    def unread_in(self, *places: str) -> tuple[str, ...]:
        """What could not be read of these folders or files."""
        return tuple(one for one in self.unread if one.startswith(places))

    def receipts(self) -> Iterator[Held[Receipt]]:
        """Of every try, in the order of the stages."""
        handed = (self.submission,) if self.submission else ()
        for one in (*self.explorations, *handed, *self.formals, *self.validations, *self.finals):
            yield one.receipt

    @staticmethod
    def _name(one: "Held[Any] | File") -> str:
        return one.path if isinstance(one, File) else one.file
