"""`submit` and `no-candidate`: the exploration's two ways to say that it is over.

A submission is derived from the workspace as it is on the disk, checked against the task's surface, applied to the
clean base and compared, all while the explorer can still mend what is refused. Accepted, it is sealed at once.
"""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Event, Lock

from opd.protocol.explorer.desk import Question, Say
from opd.protocol.explorer.outlook import Outlook
from opd.protocol.patches.patch import apply, derive, prove
from opd.protocol.patches.refusals import Refusal, Rule
from opd.protocol.patches.source import Tree, changed_paths, digest_of
from opd.protocol.patches.surface import check
from opd.protocol.words import one_line
from opd.records.attempts import Explored, Submission
from opd.records.errors import AskedWrongly
from opd.records.tasks import Surface

_LONGEST = 2_000  # characters of what an explorer says


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A patch that was accepted."""

    patch: bytes
    submission: Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What the explorer said."""

    outcome: Explored
    because: str | None
    candidate: Candidate | None = None


class HandingIn:
    """Takes at most one ending."""

    def __init__(
        self,
        *,
        workspace: Path,
        base: Tree,
        surface: Surface,
        outputs: Collection[PurePosixPath],
        explored_in: str,
        outlook: Callable[[], Outlook],
        left_seconds: Callable[[], float],
        processes: Callable[[], tuple[str, ...]],
        accept: Callable[[Candidate], None],
    ) -> None:
        self._workspace = workspace
        self._base = base
        self._surface = surface
        self._outputs = outputs  # where programs write; no part of a submission
        self._explored_in = explored_in
        self._outlook = outlook
        self._left_seconds = left_seconds
        self._processes = processes
        self._accept = accept  # seals it
        self._one_at_a_time = Lock()
        self._closed = False
        self.ending: Ending | None = None
        self.over = Event()

    def close(self) -> None:
        """Nothing more is taken; what is just being taken is waited for."""
        with self._one_at_a_time:
            self._closed = True
            self.over.set()

    def submit(self, question: Question, say: Say) -> int:
        """0 when the workspace was accepted; 1 with every refusal, and nothing is over."""
        with self._one_at_a_time:
            self._refuse_second()
            candidate, refusals = self.candidate(note=question.arguments.get("note"))
            for refusal in refusals:
                say(refusal.sentence)
            if candidate is None:
                say(f"refused: {len(refusals)} to mend; the exploration goes on, with {self._left_seconds():.0f} s")
                return 1
            say(_summary(candidate))
            if question.arguments.get("check"):
                say("it would be accepted; nothing was submitted")
                return 0
            left = self._outlook()
            if _has_room(left):
                say(_room(left))
                if not question.arguments.get("with_time_left"):
                    say("`submit --with-time-left` submits all the same")
                    return 1
            self._accept(candidate)
            self.ending = Ending(outcome=Explored.SUBMITTED, because=None, candidate=candidate)
        self.over.set()
        say("accepted and sealed; the exploration ends now")
        return 0

    def no_candidate(self, question: Question, say: Say) -> int:
        """0: the exploration ends without a patch."""
        because = question.arguments.get("because")
        if not isinstance(because, str) or not because.strip():
            raise AskedWrongly("say why there is nothing to submit: --because TEXT")
        with self._one_at_a_time:
            self._refuse_second()
            self.ending = Ending(outcome=Explored.NO_CANDIDATE, because=one_line(because, most=_LONGEST))
        self.over.set()
        say("noted; the exploration ends now")
        return 0

    def candidate(self, *, note: str | None) -> tuple[Candidate | None, tuple[Refusal, ...]]:
        """The workspace as a patch, or everything that speaks against it."""
        derived = derive(self._workspace, self._base, outputs=self._outputs)
        refusals = [*derived.refusals, *check(derived.patch, self._base, self._surface)]
        refusals = [one for one in refusals if one.rule is not Rule.CHANGED]  # the base itself may be submitted
        if not refusals:
            refusals += prove(derived.patch, self._base, self._workspace, outputs=self._outputs)
        if refusals:
            return None, tuple(refusals)
        patched = apply(derived.patch, self._base)
        submission = Submission(
            origin="explorer",
            explored_in=self._explored_in,
            note=one_line(note, most=_LONGEST) if isinstance(note, str) else None,
            patch_sha256=hashlib.sha256(derived.patch).hexdigest(),
            patch_bytes=len(derived.patch),
            base_sha256=digest_of(self._base),
            patched_sha256=digest_of(patched),
            changed_paths=changed_paths(self._base, patched),
            remaining_seconds=round(self._left_seconds(), 3),
            processes=self._processes(),
        )
        return Candidate(patch=derived.patch, submission=submission), ()

    def _refuse_second(self) -> None:
        if self.ending is not None or self._closed:
            raise AskedWrongly(
                f"the exploration is over: {self.ending.outcome if self.ending else 'its time was up'}"
            )


def _has_room(left: Outlook) -> bool:
    """Whether so much is left that the explorer has to say that it knows."""
    return left.shortest is not None and left.left_seconds >= left.shortest.seconds


def _room(left: Outlook) -> str:
    """What a submission now leaves unused."""
    assert left.shortest is not None, "before the first score nobody knows what fits"
    shortest = left.shortest.seconds
    return (
        f"{left.left_seconds:.0f} s are left, and your shortest training with its measurement took {shortest:.0f} s: "
        f"{int(left.left_seconds // shortest)} more would fit, for a matched control or a second seed; {left.finds()}"
    )


def _summary(candidate: Candidate) -> str:
    submission = candidate.submission
    if not submission.changed_paths:
        return "nothing was changed: this submits the base as it is"
    names = ", ".join(submission.changed_paths[:5]) + (" …" if len(submission.changed_paths) > 5 else "")
    return f"patch of {submission.patch_bytes} bytes, sha256 {submission.patch_sha256[:12]}…: {names}"
