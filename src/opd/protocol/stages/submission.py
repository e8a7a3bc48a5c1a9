"""The submission: one patch, sealed the moment it is accepted, by the explorer's `submit` or by who brings one.

submission/
  candidate.patch
  patched-tree.json      every path of base + patch, with mode and digest
  outcome.json
"""

import hashlib
from pathlib import Path

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.creating import base_of
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.tries import a_try
from opd.protocol.patches.patch import apply
from opd.protocol.patches.refusals import Refused, Rule
from opd.protocol.patches.source import changed_paths, digest_of, entries_of
from opd.protocol.patches.surface import check
from opd.records.attempts import Handed, Submission
from opd.records.errors import AskedWrongly
from opd.records.files import write_json

PATCH = "candidate.patch"
PATCHED = "patched-tree.json"


def seal_submission(attempt: Attempt, holder: Holder, patch: bytes, submission: Submission) -> None:
    """The submission is in place, for good. Raises `AskedWrongly` when there is one already."""
    made_from = {"base": submission.base_sha256, "patch": submission.patch_sha256}
    with a_try(attempt, holder, attempt.submission, made_from=made_from) as this:
        (this.folder / PATCH).write_bytes(patch)
        patched = apply(patch, base_of(attempt))
        write_json(this.folder / PATCHED, [entry.resolved() for entry in entries_of(patched)])
        this.end(Handed.SEALED, submission)


def submit_outside(attempt: Attempt, holder: Holder, path: Path, *, note: str | None) -> None:
    """A patch that was made elsewhere is the submission, and says so.

    Raises `Refused` with every rule that it breaks, `AskedWrongly` for a file that isn't there.
    """
    try:
        patch = path.read_bytes()
    except OSError as error:
        raise AskedWrongly(f"{path} can't be read: {error.strerror}; give the file of a patch") from error
    base = base_of(attempt)
    refusals = [
        one for one in check(patch, base, attempt.task.contract.surface) if one.rule is not Rule.CHANGED or patch
    ]
    if refusals:
        raise Refused(refusals)
    patched = apply(patch, base)
    submission = Submission(
        origin="outside",
        explored_in=None,
        note=note,
        patch_sha256=hashlib.sha256(patch).hexdigest(),
        patch_bytes=len(patch),
        base_sha256=digest_of(base),
        patched_sha256=digest_of(patched),
        changed_paths=changed_paths(base, patched),
        remaining_seconds=None,
        processes=(),
    )
    seal_submission(attempt, holder, patch, submission)
