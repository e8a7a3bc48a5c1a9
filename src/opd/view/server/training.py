"""A training run in full: its recipe, what was asked of it, and what became of that."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opd.records.files import COMPLETE
from opd.view.runs.differences import flat
from opd.view.runs.summaries import Summary
from opd.view.server.columns import Columns
from opd.view.server.entries import Entry
from opd.view.server.files import last_lines, object_or_none, shortened
from opd.view.server.lines import lines_from, object_in, opened
from opd.view.server.metrics import FILE, Metrics
from opd.view.server.places import Place
from opd.view.server.programs import WAITING, Programs, Said
from opd.view.server.rows import Links, row
from opd.view.server.shelf import Shelf
from opd.view.server.tables import FOLDER, table_steps

_FAILURE = re.compile(r"failure(?:-([0-9]{1,6}))?\.json")
_CHECKPOINT = re.compile(r"checkpoint-([0-9]{1,9})")
_PARTS = ("metrics.jsonl", "events.jsonl", FOLDER)  # of which a page would show nothing, were they not to be read
_SHOWN = 200  # warnings, and events
_KEPT = 64
_PLAN_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """What a run was warned of."""

    count: int
    newest: tuple[dict[str, Any], ...]


class Training:
    """What is said of a training run."""

    def __init__(self, metrics: Metrics, programs: Programs) -> None:
        self._metrics = metrics
        self._programs = programs
        self._warned: Shelf[Warned] = Shelf(_KEPT)
        self._defaults: Shelf[Said] = Shelf(1, waiting=WAITING)
        self._plans: Shelf[Said] = Shelf(_KEPT, waiting=WAITING)

    def whole(self, entry: Entry, links: Links) -> dict[str, Any]:
        """The page of a run, but for its curves and rollouts."""
        place = entry.place
        said = entry.summary.trouble
        closed = {name: why for name in _PARTS if (why := place.at(name).why_closed())}
        recipe = object_or_none(place.at("recipe.json")) or {}
        summary = object_or_none(place.at("run.json")) or {}
        steps = table_steps(place)
        warned = self._warnings(place)
        best = summary.get("best")
        scores = _scores(entry, links)
        return {
            "row": row(entry, links),
            "recipe": [{"key": key, "value": shortened(value)} for key, value in flat(recipe).items()],
            "summary": shortened(summary) or None,
            "budget": _budget(flat(recipe), summary, self._metrics.columns(place), line=entry.summary),
            "warnings": {"count": warned.count, "newest": list(warned.newest)},
            "events": shortened(last_lines(place.at("events.jsonl"), most=_SHOWN)),
            "failures": _failures(place),
            "notes": shortened(summary.get("notes", [])),
            "scores": scores,
            "checkpoints": _checkpoints(place, scores, best if isinstance(best, list) else []),
            "rollouts": {
                "tables": None if FOLDER in closed else len(steps),
                "first": steps[0] if steps else None,
                "last": steps[-1] if steps else None,
            },
            "metrics": self._metrics.facts(place),
            "trouble": list(dict.fromkeys([*([said] if said else []), *closed.values()])),
        }

    def defaults(self) -> dict[str, Any]:
        """Every key that a recipe can have, with its default and what it means, as the install says; asked once."""
        said = self._defaults.get("keys", None, lambda _: self._programs.ask("show", "keys", "--json"))
        return {"defaults": said.value, "missing": said.missing}

    def plan(self, entry: Entry) -> dict[str, Any]:
        """What the install plans for this recipe, beside what the run came to."""
        recipe = entry.place.at("recipe.json")
        if entry.parent is not None:  # planning tries a grader that the recipe names: an explorer's words are not run
            said = Said(value=None, missing="what a run inside of an attempt asks for is not planned here")
        else:
            arguments = ("plan", "--json", "--", str(recipe.path))
            said = self._plans.get(
                recipe, recipe.stamp(), lambda _: self._programs.ask(*arguments, limit_seconds=_PLAN_SECONDS)
            )
        return {"plan": said.value, "missing": said.missing, "reality": _reality(self._metrics.columns(entry.place))}

    def _warnings(self, run: Place) -> Warned:
        place = run.at(FILE)
        stamp = place.stamp()
        if stamp is None:
            return Warned(count=0, newest=())
        return self._warned.get(place, stamp, lambda _: _warned(place))


def _warned(place: Place) -> Warned:
    count = 0
    newest: deque[dict[str, Any]] = deque(maxlen=_SHOWN)
    with opened(place) as file:
        for _, line in lines_from(file, 0):
            if line is None or b'"warnings": [' not in line or b'"warnings": []' in line:
                continue
            value = object_in(line) or {}
            texts = value.get("warnings")
            for text in texts if isinstance(texts, list) else []:
                count += 1
                newest.append({"step": value.get("step"), "text": shortened(str(text))})
    return Warned(count=count, newest=tuple(reversed(newest)))


def _budget(
    recipe: Mapping[str, Any], summary: Mapping[str, Any], columns: Columns | None, *, line: Summary
) -> list[dict[str, Any]]:
    """What the recipe asks for or allows, beside what was used of it so far."""
    last = (
        {name: float(column[-1]) for name, column in columns.values.items()} if columns and len(columns.keys) else {}
    )
    asked_and_used = (
        ("steps", "steps", recipe.get("budget.steps"), last.get("step", line.step)),
        ("wall clock", "seconds", recipe.get("budget.max_wall_seconds"), line.seconds),
        ("rows", "rows", summary.get("rows"), last.get("rows_seen")),
        ("tokens of a rollout, mean", "tokens", recipe.get("rollouts.limit_tokens"), last.get("mean_tokens")),
    )
    return [{"what": what, "unit": unit, "asked": asked, "used": used} for what, unit, asked, used in asked_and_used]


def _reality(columns: Columns | None) -> dict[str, Any]:
    if columns is None or not len(columns.keys):
        unknown = dict.fromkeys(("rows_seen", "rollout_tokens", "peak_bytes", "seconds_per_step"))
        return {"steps": 0, **unknown, "seconds": {}}
    with np.errstate(invalid="ignore"):
        means = {
            name.removeprefix("seconds/"): float(np.nanmean(column))
            for name, column in columns.values.items()
            if name.startswith("seconds/") and not np.isnan(column).all()
        }
    held = columns.values
    sampled = held["rollouts"] * held["mean_tokens"] if {"rollouts", "mean_tokens"} <= held.keys() else None
    return {
        "steps": len(columns.keys),
        "rows_seen": float(held["rows_seen"][-1]) if "rows_seen" in held else None,
        "rollout_tokens": None if sampled is None else float(np.nansum(sampled)),
        "peak_bytes": float(np.fmax.reduce(held["peak_bytes"])) if "peak_bytes" in held else None,
        "seconds_per_step": means.get("total"),
        "seconds": means,
    }


def _failures(run: Place) -> list[dict[str, Any]]:
    """Of each try that ended in one, newest first: failure.json is of the last, failure-1.json of the first."""
    found = [(int(match[1] or 10**6), match[0]) for name in run.names() if (match := _FAILURE.fullmatch(name))]
    failures = []
    for _, name in sorted(found, reverse=True):
        failures.append({"exceptions": [], **(shortened(object_or_none(run.at(name))) or {}), "file": name})
    return failures


def _scores(entry: Entry, links: Links) -> list[dict[str, Any]]:
    """What its checkpoints came to, by step; also of those that are no more."""
    return [
        {
            "id": one.id,
            "step": links.subjects[one.id].step,
            **{name: one.facts.get(name) for name in ("benchmark", "protocol_digest")},
            **{field: getattr(one.summary, field) for field in ("mean", "stderr", "ci95")},
        }
        for one in links.scores(entry.id)
    ]


def _checkpoints(run: Place, scores: Sequence[dict[str, Any]], best: Sequence[Any]) -> list[dict[str, Any]]:
    found = []
    for name in run.names():
        if (match := _CHECKPOINT.fullmatch(name)) is None:
            continue
        folder, step = run.at(name), int(match[1])
        stamps = [folder.at(one).stamp() for one in folder.names()]
        found.append(
            {
                "name": name,
                "step": step,
                "complete": folder.at(COMPLETE).stamp() is not None,
                "best": best.index(name) + 1 if name in best else None,
                "bytes": sum(stamp.size for stamp in stamps if stamp is not None),
                "scores": [one for one in scores if one["step"] == step],
            }
        )
    return sorted(found, key=lambda one: one["step"])
