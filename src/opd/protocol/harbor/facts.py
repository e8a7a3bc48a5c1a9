"""What an attempt has come to, gathered for those who read it elsewhere."""

from dataclasses import dataclass
from pathlib import Path

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.evidence import Evidence, Seen
from opd.protocol.attempts.state import status
from opd.protocol.clock import Instant
from opd.protocol.explorer.adapters import adapter_of
from opd.protocol.explorer.trajectory import ATIF, FOLDER
from opd.records.attempts import Identity, Stage, Status, Submission
from opd.records.errors import AnswerIsNo
from opd.records.receipts import Receipt
from opd.records.tasks import Task
from opd.records.trajectories import Trajectory, read_trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A try that is over."""

    name: str  # `formal/attempt-001`
    stage: Stage
    number: int
    folder: Path
    receipt: Receipt
    receipt_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One attempt, at one moment."""

    attempt: Attempt
    identity: Identity
    task: Task
    status: Status
    evidence: Evidence
    tries: tuple[Try, ...]  # in the order of the stages
    explored: Try | None  # the exploration that was handed in from, or else the last one
    submission: Try | None

    @property
    def began_utc(self) -> str:
        """When the attempt was made."""
        return self.identity.created_utc

    @property
    def ended_utc(self) -> str:
        """When the last try was over; when the attempt was made, where none is."""
        return max((one.receipt.ended_utc for one in self.tries), default=self.began_utc)

    def of(self, stage: Stage) -> tuple[Try, ...]:
        """The tries of a stage."""
        return tuple(one for one in self.tries if one.stage is stage)

    @property
    def record(self) -> Path | None:
        """The harness's own record of that exploration."""
        if self.explored is None:
            return None
        path = self.explored.folder / FOLDER / adapter_of(self.identity.harness).native
        return path if path.is_file() else None

    @property
    def atif(self) -> Path | None:
        """Its trajectory as a file."""
        path = self.explored.folder / FOLDER / ATIF if self.explored else None
        return path if path and path.is_file() else None

    def trajectory(self) -> Trajectory | None:
        """Its trajectory."""
        return read_trajectory(self.atif) if self.atif else None


def facts_of(attempt: Attempt, at: Instant) -> Facts:
    """The facts of an attempt; raises `AnswerIsNo` where they contradict each other."""
    here = status(attempt, at=at)
    if here.contradictions:
        raise AnswerIsNo(f"{attempt.folder} contradicts itself, and isn't exported: {'; '.join(here.contradictions)}")
    evidence = Evidence(attempt, at)
    tries = tuple(_over(seen) for seen in evidence.all() if seen.receipt)
    submission = next((one for one in tries if one.stage is Stage.SUBMISSION), None)
    return Facts(
        attempt=attempt,
        identity=attempt.identity,
        task=attempt.task,
        status=here,
        evidence=evidence,
        tries=tries,
        explored=_explored(evidence, tries),
        submission=submission if evidence.submission else None,
    )


def _over(seen: Seen) -> Try:
    assert seen.receipt is not None, "only what is over"
    assert seen.receipt_sha256 is not None, "a receipt has bytes"
    return Try(
        name=seen.place.name,
        stage=seen.place.stage,
        number=seen.place.number,
        folder=seen.place.folder,
        receipt=seen.receipt,
        receipt_sha256=seen.receipt_sha256,
    )


def _explored(evidence: Evidence, tries: tuple[Try, ...]) -> Try | None:
    explorations = [one for one in tries if one.stage is Stage.EXPLORE]
    said = evidence.facts(Submission, evidence.submission) if evidence.submission else None
    if said is not None:
        return next((one for one in explorations if one.name == said.explored_in), None)
    return explorations[-1] if explorations else None
