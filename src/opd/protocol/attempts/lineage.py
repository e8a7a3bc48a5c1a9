"""The chain from the task to the scores: what each step says that it came from, held against what is there.

task ── base ── explore ── patch ── checkout ── formal ── artifact ── validation ── final ── audit ── report
"""

from collections.abc import Iterator

from pydantic import NonNegativeInt

from opd.protocol.attempts.attempt import BASE
from opd.protocol.attempts.evidence import Evidence, Seen
from opd.protocol.inputs import locked
from opd.records.attempts import Artifact, Final, Formal, Stage, Submission, Validation
from opd.records.errors import AskedWrongly
from opd.records.files import COMPLETE, digest
from opd.records.receipts import RECEIPT, Receipt, read_receipt
from opd.records.settings import Settings
from opd.records.trees import Entry, Kind, tree_digest

_TREE, _PATCH = "tree", "candidate.patch"


class Link(Settings):
    """One step of the chain."""

    name: str
    """`base → patch`, with the try that it is about."""
    said: str
    """The digest that the later one gives for the earlier."""
    found: str | None
    """The one that the earlier has; null where there is none."""
    compared: NonNegativeInt = 1
    """How many digests stand behind the two."""

    @property
    def holds(self) -> bool:
        """Whether they are one."""
        return self.said == self.found


def lineage(evidence: Evidence) -> Iterator[Link]:
    """Every link that is there by now, in order, by what the receipts say of the files: those are read elsewhere."""
    identity = evidence.attempt.identity
    yield Link(name="task → attempt", said=identity.task_sha256, found=_task_sha256(evidence))
    yield Link(name="base → attempt", said=identity.base_sha256, found=_base_sha256(evidence))
    for seen in evidence.sealed(Stage.EXPLORE):
        said = seen.receipt.made_from.get("base", "") if seen.receipt else ""
        yield Link(name=f"base → {seen.place.name}", said=said, found=identity.base_sha256)
    yield from _of_submission(evidence)
    yield from _of_receipts(evidence)


def _of_submission(evidence: Evidence) -> Iterator[Link]:
    attempt, identity = evidence.attempt, evidence.attempt.identity
    submission = evidence.facts(Submission, evidence.submission) if evidence.submission else None
    if submission is None or evidence.submission is None or evidence.submission.receipt is None:
        return
    yield Link(name="base → submission", said=submission.base_sha256, found=identity.base_sha256)
    patch = _file(evidence.submission.receipt, _PATCH)
    yield Link(name="patch → submission", said=submission.patch_sha256, found=patch.sha256 if patch else None)
    fixed = digest({one.role: one.sha256 for one in locked(attempt).fixed})
    for seen in evidence.sealed(Stage.FORMAL):
        formal = evidence.facts(Formal, seen)
        if formal is None:
            continue  # ended before there was anything to say; what it was made from is in its receipt
        name = seen.place.name
        yield Link(name=f"patch → {name}", said=formal.patch_sha256, found=submission.patch_sha256)
        yield Link(name=f"checkout → {name}", said=formal.checkout_sha256, found=submission.patched_sha256)
        said = digest(formal.inputs_sha256)
        yield Link(name=f"inputs → {name}", said=said, found=fixed, compared=len(formal.inputs_sha256))
        for artifact in formal.artifacts:
            yield Link(
                name=f"{name} → step {artifact.step}", said=artifact.sha256, found=_artifact_sha256(seen, artifact)
            )
    yield from _of_artifacts(evidence)


def _of_artifacts(evidence: Evidence) -> Iterator[Link]:
    artifacts = {one.step: one.sha256 for one in evidence.formal.artifacts} if evidence.formal else {}
    for stage, kind in ((Stage.VALIDATION, Validation), (Stage.FINAL, Final)):
        for seen in evidence.sealed(stage):
            facts = evidence.facts(kind, seen)
            step = seen.place.number
            if isinstance(facts, Validation | Final):
                name = f"step {step} → {seen.place.name}"
                yield Link(name=name, said=facts.artifact_sha256, found=artifacts.get(step))


def _of_receipts(evidence: Evidence) -> Iterator[Link]:
    """What audits say that they have seen, and of which audit a report is."""
    for seen in (*evidence.sealed(Stage.AUDIT), *evidence.sealed(Stage.REPORT)):
        made_from = seen.receipt.made_from if seen.receipt else {}
        said = {name: sha256 for name, sha256 in made_from.items() if name.endswith(f"/{RECEIPT}")}
        found = {name: evidence.digests.get(name) for name in said}
        yield Link(name=f"receipts → {seen.place.name}", said=digest(said), found=digest(found), compared=len(said))


def _task_sha256(evidence: Evidence) -> str | None:
    try:
        return evidence.attempt.task.digest
    except AskedWrongly:
        return None


def _base_sha256(evidence: Evidence) -> str | None:
    try:
        receipt = read_receipt(evidence.attempt.folder / BASE)
    except AskedWrongly:
        return None
    return tree_digest(_as_source(entry) for entry in _below(receipt, _TREE))


def _as_source(entry: Entry) -> Entry:
    """With the mode that it has in a source tree: sealing took the right to write from it."""
    executable = entry.kind is Kind.FOLDER or entry.mode & 0o100
    return entry.model_copy(update={"mode": 0o755 if executable else 0o644})


def _artifact_sha256(seen: Seen, artifact: Artifact) -> str:
    """As `Score.model_digest` has it: of the names and bytes of its files, without the mark."""
    assert seen.receipt, "what left an artifact is sealed"
    files = [entry for entry in _below(seen.receipt, artifact.folder) if entry.kind is Kind.FILE]
    return digest({entry.path: entry.sha256 for entry in files if entry.path.rpartition("/")[2] != COMPLETE})


def _below(receipt: Receipt, folder: str) -> list[Entry]:
    """What the receipt says of a folder, relative to it."""
    prefix = f"{folder}/"
    found = [entry for entry in receipt.files if entry.path.startswith(prefix)]
    return [entry.model_copy(update={"path": entry.path.removeprefix(prefix)}) for entry in found]


def _file(receipt: Receipt, path: str) -> Entry | None:
    return next((entry for entry in receipt.files if entry.path == path), None)
