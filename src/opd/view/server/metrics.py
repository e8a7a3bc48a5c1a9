"""The metrics of a training run, as columns by step; see `docs/a-step.md` for what each of them is."""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from opd.view.server.answers import Unreadable
from opd.view.server.columns import Columns, bucketed, read_columns
from opd.view.server.places import Place
from opd.view.server.shelf import Shelf

FILE = "metrics.jsonl"
_MOST_STEPS = 10**9  # beyond it is no step
_KEPT = 24  # runs at once: a comparison of many curves


class Metrics:
    """Reads each run's file once, and then what is added to it."""

    def __init__(self) -> None:
        self._shelf: Shelf[Columns] = Shelf(_KEPT)

    def columns(self, run: Place) -> Columns | None:
        """All steps; None where nothing was written yet, or what was can't be read."""
        place = run.at(FILE)
        stamp = place.stamp()
        if stamp is None:
            return None
        return self._shelf.get(place, stamp, lambda before: read_columns(place, before, key=_step))

    def seconds(self, run: Place) -> float | None:
        """What all steps took; None before the first has ended."""
        columns = self.columns(run)
        taken = None if columns is None else columns.values.get("seconds/total")
        return None if taken is None else math.fsum(taken[~np.isnan(taken)])

    def page(self, run: Place, *, names: Sequence[str], after: int, points: int) -> dict[str, Any]:
        """The steps after one, in at most so many buckets; all names where none is given.

        `*` in a name stands for any characters. Raises `Unreadable` for a file that can't be read.
        """
        columns = self.columns(run)
        if columns is None and (why := run.at(FILE).why_closed()):
            raise Unreadable(why)
        if columns is None:
            return {"names": [], "steps": 0, "last": None, "passed_over": 0, **_EMPTY}
        shown = columns.after(after)
        known = [name for name in columns.values if name != "step"]
        wanted = [one for name in names for one in ([name] if "*" not in name else _matching(known, name))]
        return {
            "names": known,
            "steps": len(shown.keys),
            "last": int(columns.keys[-1]) if len(columns.keys) else None,
            "passed_over": columns.passed_over,
            **bucketed(shown, wanted if names else known, most=points),
        }

    def facts(self, run: Place) -> dict[str, Any]:
        """How many steps there are, the last of them, and what is known of each."""
        columns = self.columns(run)
        keys: list[float] = [] if columns is None else columns.keys.tolist()
        known = [] if columns is None else [name for name in columns.values if name != "step"]
        return {"steps": len(keys), "last": int(keys[-1]) if len(keys) else None, "names": known}


_EMPTY: dict[str, Any] = {"buckets": {"first": [], "until": [], "rows": []}, "series": {}}


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    return [name for name in names if fnmatchcase(name, pattern)]


def _step(line: Mapping[str, Any]) -> float | None:
    step = line.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < _MOST_STEPS else None
