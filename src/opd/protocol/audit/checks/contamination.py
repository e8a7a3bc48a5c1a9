"""Whether the final's questions stand anywhere in the attempt, in its task, or in what it trained on.

Every regular file is looked at, in every wrapping that the scanner opens. The questions are held in memory and named
by salted ids; the scanner's own controls are planted each time.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from opd.protocol.at_hand import near
from opd.protocol.audit.check import Check, Look
from opd.protocol.audit.evidence import Evidence
from opd.protocol.contamination.conclusion import conclude
from opd.protocol.contamination.needles import Needles
from opd.protocol.contamination.plants import controls
from opd.protocol.contamination.questions import final_questions, problems
from opd.protocol.contamination.scan import Hit, Source, scan
from opd.records.attempts import Stage
from opd.records.audits import Axis, Coverage, Pointer, Verdict
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import sha256
from opd.records.tasks import matches
from opd.records.trees import meant, written

_VISIBLE = (
    "explore/*/trajectory/native.*", "explore/*/trajectory/atif.json", "explore/*/commands.jsonl",
    "explore/*/desk.jsonl", "explore/*/runs/**/*.log", "submission/*.patch",
)  # fmt: skip
"""What an explorer did and was told, as it did and was told it."""
_JUDGED = tuple(f"{stage}/" for stage in (Stage.VALIDATION, Stage.FINAL, Stage.AUDIT, Stage.REPORT))
"""The evaluator's own side, where the questions belong."""
_DATA = "the training data"


def _look(evidence: Evidence) -> Look:
    if evidence.task is None:
        return _unanswered("the task is not the one that the attempt was made for, so nobody knows its final")
    try:
        questions = final_questions(evidence.task.value.contract.final, beside=near(evidence.folder))
    except (AskedWrongly, AnswerIsNo, OSError) as error:
        return _unanswered(f"the final's questions can't be had: {error}")
    data = _data(evidence)
    needles = Needles(questions, problems(data) if data else ())
    found = scan(_sources(evidence, data), needles)
    planted = controls(needles)
    visible = [file for file in evidence.files if any(matches(glob, file.path) for glob in _VISIBLE)]
    across = f"{len(visible):,} complete files of trajectory, tool results, commands and patch, and across all others"
    said = conclude(found, needles, planted, across=across)
    unread = said.unread if data else (*said.unread, f"{_DATA}: not at hand")
    verdict = Verdict.NOT_ASSESSED if said.verdict is Verdict.NONE_FOUND and not data else said.verdict
    return Look(
        verdict=verdict,
        sentence=said.sentence,
        details=said.details,
        evidence=tuple(dict.fromkeys(_pointers(evidence, said.places))),
        coverage=Coverage(files=found.files, bytes=found.bytes, unread=unread),
        controls=planted,
    )


def _unanswered(why: str) -> Look:
    return Look(verdict=Verdict.NOT_ASSESSED, sentence=why, coverage=Coverage(files=0, bytes=0), controls=())


def _data(evidence: Evidence) -> Path | None:
    """The training rows, where they are still at hand."""
    if evidence.inputs is None:
        return None
    path = evidence.inputs.value.under(evidence.folder).path("data")
    return path if path.is_file() else None


def _sources(evidence: Evidence, data: Path | None) -> Iterator[Source]:
    """What there is to look at: the attempt with its task, but not its judgement; all names; the training rows."""
    listed = {file.path for file in evidence.files}  # one that is gone is told of
    names = sorted(name for name in listed | set(_lying(evidence.folder)) if not name.startswith(_JUDGED))
    for name in names:
        yield Source(name=name, path=evidence.folder / meant(name))
    yield Source(name="the names of all files", content="\n".join(names).encode())
    if data is not None:
        yield Source(name=_DATA, path=data)


def _lying(folder: Path) -> Iterator[str]:
    """Every plain file that lies there, whether or not a receipt knows it."""
    for place, _, names in os.walk(folder):
        for path in (Path(place) / name for name in names):
            if path.is_file() and not path.is_symlink():
                yield written(path.relative_to(folder))


def _pointers(evidence: Evidence, places: tuple[Hit, ...]) -> Iterator[Pointer]:
    files = {file.path: file for file in evidence.files}
    for hit in places:
        where = "" if hit.line is None else f"line:{hit.line}"
        place = evidence.folder / meant(hit.source)
        if hit.source in files:
            yield files[hit.source].at(where)
        elif place.is_file() and not place.is_symlink():  # no receipt knows it: by what it is now
            yield Pointer(file=hit.source, pointer=where, sha256=sha256(place))


CHECK = Check(axis=Axis.CONTAMINATION, look=_look)
