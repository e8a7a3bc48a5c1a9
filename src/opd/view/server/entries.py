"""A run as the index remembers it: its line, the few facts that link it to others, and what tells that it changed."""

import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opd.records.errors import OpdError
from opd.records.files import PARTIAL
from opd.view.runs.folders import STAGES, Folder, Kind, State, read_object
from opd.view.runs.summaries import Summary, checkpoint_digests, name_of, summary
from opd.view.server.metrics import Metrics
from opd.view.server.places import Place

_FILES: Mapping[Kind, tuple[str, ...]] = {
    Kind.TRAIN: ("recipe.json", "metrics.jsonl", "run.json", "failure.json", "events.jsonl", "rollouts", ""),
    Kind.SCORE: ("protocol.json", "score.json", "samples.jsonl", "generations", ""),
    Kind.ATTEMPT: ("run.json", "task.lock.json", "events.jsonl", "lease.json", *STAGES, ""),
}
"""What is looked at to tell whether a run changed; the empty name is the folder itself, whose names come and go."""

_GROWING = ("device.jsonl", "desk.jsonl", "stdout.log", "proxy", "runs")  # of a try that is being filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A run that was found."""

    id: str
    place: Place
    root: int  # which of the given folders it lies below
    parent: str | None  # the attempt that it lies in
    signature: object  # equal while its files are the same
    summary: Summary
    facts: Mapping[str, Any]  # by kind: see `_facts`

    @property
    def kind(self) -> Kind:
        """What it is a run of."""
        return self.summary.folder.kind

    @property
    def name(self) -> str:
        """Its path below the given folder, or that folder's name."""
        inside = self.place.inside.as_posix()
        return self.place.root.name if inside == "." else inside


def signature(folder: Folder) -> tuple[object, ...]:
    """Number, size and time of each file that says something of the run; no link is followed."""
    return tuple(_stamp(path) for path in _looked_at(folder))


def read_entry(
    folder: Folder,
    *,
    id_: str,
    place: Place,
    root: int,
    parent: str | None,
    signature_: object,
    metrics: Metrics,
) -> Entry:
    """The run as its files have it now; damage is said in its summary, and raises nothing."""
    link = next((path.name for path in _looked_at(folder) if path.is_symlink()), None)
    if link is not None:  # it could lead anywhere
        line, facts = _damaged(folder, f"{link} is a link, and links are not followed"), {}
    else:
        try:
            line, facts = _summary(folder, place, metrics), _facts(folder)
        except RecursionError:
            line, facts = _damaged(folder, "a file of it has sections in sections without end"), {}
        if line.state is State.DAMAGED and line.trouble is None:
            line = replace(line, trouble="what says what it is, or how it ended, can't be read")
    return Entry(id=id_, place=place, root=root, parent=parent, signature=signature_, summary=line, facts=facts)


def _summary(folder: Folder, place: Place, metrics: Metrics) -> Summary:
    """A run that has not ended was at work for as long as its steps took; of a log that grew only that is read."""
    line = summary(folder, counts_seconds=False)
    if folder.kind is not Kind.TRAIN or line.seconds is not None:
        return line
    with suppress(OpdError, OSError):
        return replace(line, seconds=metrics.seconds(place))
    return line


def _damaged(folder: Folder, trouble: str) -> Summary:
    return Summary(folder=folder, name=name_of(folder), state=State.DAMAGED, said="can't be read", trouble=trouble)


def _looked_at(folder: Folder) -> Iterator[Path]:
    for name in _FILES[folder.kind]:
        yield folder.path / name
    if folder.kind is Kind.ATTEMPT:
        for stage in STAGES:
            half = (one for one in _names(folder.path / stage) if one.endswith(PARTIAL))
            yield from (folder.path / stage / one / name for one in half for name in _GROWING)


def _names(folder: Path) -> list[str]:
    try:
        return [] if folder.is_symlink() else sorted(one.name for one in folder.iterdir())
    except OSError:
        return []


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    return status.st_mode, status.st_ino, size, status.st_mtime_ns


def _facts(folder: Folder) -> dict[str, Any]:
    """train: digests of its checkpoints; score: benchmark, model and protocol; attempt: case and task."""
    facts: dict[str, Any] = {}
    with suppress(OpdError, OSError, KeyError, TypeError, AttributeError):
        if folder.kind is Kind.TRAIN:
            facts["checkpoints"] = checkpoint_digests(folder.path)
        elif folder.kind is Kind.ATTEMPT:
            identity = read_object(folder.path / "run.json")
            facts |= {"case": identity["case"], "task": identity["task"]}
        elif (folder.path / "score.json").is_file():
            score = read_object(folder.path / "score.json")
            facts |= {name: score[name] for name in ("benchmark", "model", "model_digest", "protocol_digest")}
        else:
            claim = read_object(folder.path / "protocol.json")
            facts |= {"benchmark": claim["protocol"]["benchmark"], "model_digest": claim["model_digest"]}
    return {name: value for name, value in facts.items() if name == "checkpoints" or isinstance(value, str)}
