"""The list of runs: a row each, with what differs between recipes, and which score is of which training run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.view.runs.differences import differing
from opd.view.runs.folders import Closed, Kind
from opd.view.server.entries import Entry
from opd.view.server.files import shortened

_CHECKPOINT = "checkpoint-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a score is of: a checkpoint of a training run."""

    run: str  # its id
    step: int


class Links:
    """Which of the runs belong together, by the digests of checkpoints, or by place where a checkpoint is gone."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        runs = [one for one in entries if one.kind is Kind.TRAIN]
        by_digest = {
            digest: Subject(run=run.id, step=step)
            for run in runs
            for digest, step in run.facts.get("checkpoints", {}).items()
        }
        by_place = {run.place.path: run.id for run in runs}
        self.subjects: dict[str, Subject] = {}
        self._scores: dict[str, list[Entry]] = {}
        for score in (one for one in entries if one.kind is Kind.SCORE):
            subject = by_digest.get(score.facts.get("model_digest", "")) or _by_place(score, by_place)
            if subject is not None:
                self.subjects[score.id] = subject
                self._scores.setdefault(subject.run, []).append(score)

    def scores(self, run: str) -> list[Entry]:
        """The scores of a run's checkpoints, by step, of one step the one that was written last at the end."""
        found = self._scores.get(run, [])
        return sorted(found, key=lambda one: (self.subjects[one.id].step, one.summary.changed))


def row(entry: Entry, links: Links, *, varying: Iterable[str] = ()) -> dict[str, Any]:
    """A run as the API gives it."""
    line = entry.summary
    values: dict[str, Any] = {
        "id": entry.id,
        "kind": entry.kind.value,
        "name": entry.name,
        "root": entry.root,
        "path": str(entry.place.path),
        "state": line.state.value,
        "said": line.said,
        "changed": line.changed,
        "trouble": line.trouble,
        "step": line.step,
        "asked": line.asked,
        "mean": line.mean,
        "stderr": line.stderr,
        "ci95": line.ci95,
        "scored": line.scored,
        "score_id": None,
        "seconds": line.seconds,
        "parent": entry.parent,
    }
    return values | _OF_KIND[entry.kind](entry, links, tuple(varying))


def listing(
    entries: Sequence[Entry], *, version: int, roots: Sequence[Path], closed: Sequence[Closed] = ()
) -> dict[str, Any]:
    """All rows, the keys in which the recipes of the training runs differ, and what couldn't be looked into."""
    links = Links(entries)
    varying = differing([one.summary.recipe for one in entries if one.kind is Kind.TRAIN and one.summary.recipe])
    return {
        "version": version,
        "roots": [{"path": str(root), "name": root.name} for root in roots],
        "varying": list(varying),
        "closed": [{"path": str(one.path), "why": one.why} for one in closed],
        "runs": [row(one, links, varying=varying) for one in entries],
    }


def _train(entry: Entry, links: Links, varying: tuple[str, ...]) -> dict[str, Any]:
    recipe = entry.summary.recipe
    values: dict[str, Any] = {
        "varies": {key: shortened(recipe[key]) for key in varying if key in recipe},
        "objective": recipe.get("objective.name"),
        "student": recipe.get("student.model"),
        "teacher": entry.summary.teacher,
    }
    scored = [one for one in links.scores(entry.id) if one.summary.mean is not None]
    if scored:
        newest = scored[-1]
        values |= _score_of(newest.summary) | {
            "scored": f"{_CHECKPOINT}{links.subjects[newest.id].step}",
            "score_id": newest.id,
        }
    return values


def _score_of(line: Any) -> dict[str, Any]:
    return {"mean": line.mean, "stderr": line.stderr, "ci95": line.ci95}


def _score(entry: Entry, links: Links, _: tuple[str, ...]) -> dict[str, Any]:
    subject = links.subjects.get(entry.id)
    return {
        **{name: entry.facts.get(name) for name in ("benchmark", "model", "protocol_digest")},
        "run_id": None if subject is None else subject.run,
        "trained_steps": None if subject is None else subject.step,
    }


def _attempt(entry: Entry, _: Links, __: tuple[str, ...]) -> dict[str, Any]:
    return {name: entry.facts.get(name) for name in ("case", "task")}


_OF_KIND: Mapping[Kind, Callable[[Entry, Links, tuple[str, ...]], dict[str, Any]]] = {
    Kind.TRAIN: _train,
    Kind.SCORE: _score,
    Kind.ATTEMPT: _attempt,
}


def _by_place(score: Entry, runs: Mapping[Path, str]) -> Subject | None:
    model = Path(str(score.facts.get("model", "")))
    number = model.name.removeprefix(_CHECKPOINT)
    run = runs.get(model.parent)
    if run is None or not model.name.startswith(_CHECKPOINT) or not number.isdecimal():
        return None
    return Subject(run=run, step=int(number))
