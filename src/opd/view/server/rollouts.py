"""Rollouts of a training run: which there are, a page of them, and one token by token.

gap = log teacher - log student, nats. A table keeps no verdict, so right and wrong are asked of the install's grader.
What else the teacher would have said is there where the recipe asked for it (`save.alternatives`), and else null.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opd.view.server.answers import Gone, Unreadable
from opd.view.server.grades import Grades
from opd.view.server.places import Place
from opd.view.server.shelf import Shelf
from opd.view.server.tables import FOLDER, Table, read_table, table_place, table_steps
from opd.view.server.texts import Texts
from opd.view.tokens import LEVELS

SORTS = ("order", "worst", "gap", "longest", "shortest")
FILTERS = ("truncated", "ended", "repeated", "right", "wrong", "ungraded")
_KINDS = ({"truncated", "ended"}, {"repeated"}, {"right", "wrong", "ungraded"})
_LONGEST_PROBLEM = 500  # characters, in a list
_WORST_SHOWN = 50
_TABLES_KEPT = 4
_DIGITS = 6  # of nats: what a float32 near zero tells apart


class Rollouts:
    """Reads a step's table once and keeps the last few."""

    def __init__(self, texts: Texts, grades: Grades) -> None:
        self._texts = texts
        self._grades = grades
        self._shelf: Shelf[Table] = Shelf(_TABLES_KEPT)

    def listing(self, run: Place) -> dict[str, Any]:
        """The tables that there are. Raises `Unreadable` where their folder can't be read."""
        if why := run.at(FOLDER).why_closed():
            raise Unreadable(why)
        tables = ((step, table_place(run, step)) for step in table_steps(run))
        sizes = [(step, one.stamp()) for step, one in tables if one.stamp() or one.why_closed()]
        missing = self._texts.missing(run)
        return {
            "tables": [{"step": step, "bytes": None if stamp is None else stamp.size} for step, stamp in sizes],
            "tokenizer": missing is None,
            "text_missing": missing,
        }

    def page(
        self,
        run: Place,
        step: int,
        *,
        offset: int,
        limit: int,
        filters: Sequence[str],
        teachers: Sequence[str],
        sort: str,
        graded: bool,
    ) -> dict[str, Any]:
        """Some of a step's rollouts: those that pass, of these teachers or of all, in this order, from one on."""
        table = self.table(run, step)
        verdicts, missing = (None, None)
        if graded or {"right", "wrong", "ungraded"} & set(filters):
            verdicts, missing = self._grades.of(run, step, table, self._texts)
        kinds = [_kinds(table, index, verdicts) for index in range(len(table.facts))]
        wanted = [group & set(filters) for group in _KINDS]
        passing = [
            index
            for index, own in enumerate(kinds)
            if all(not group or group & own for group in wanted)
            and (not teachers or table.facts[index]["taught_by"] in teachers)
        ]
        passing.sort(key=lambda index: _rank(table, index, sort))
        counted: dict[str, int | None] = {name: sum(name in own for own in kinds) for name in FILTERS}
        if verdicts is None:
            counted.update(dict.fromkeys(("right", "wrong", "ungraded")))
        shown = passing[offset : offset + limit]
        return {
            "step": step,
            "total": len(table.facts),
            "matching": len(passing),
            "offset": offset,
            "counts": counted,
            "teachers": _teachers(table),
            "graded": verdicts is not None,
            "grades_missing": missing,
            "rows": [_row(table, index, None if verdicts is None else verdicts[index]) for index in shown],
        }

    def one(self, run: Place, step: int, index: int, *, begin: int, count: int) -> dict[str, Any]:
        """A rollout's tokens from one place on; its worst tokens are those of all of it."""
        table = self.table(run, step)
        if not 0 <= index < len(table.facts):
            raise Gone(f"step {step} has rollouts 0 to {len(table.facts) - 1}, and no {index}")
        facts, span = table.facts[index], table.span(index)
        gaps, ids = table.gaps(index), table.ids[span]
        texts, missing = self._texts.pieces(run, ids.tolist())
        order = np.argsort(-np.abs(np.nan_to_num(gaps)), kind="stable")[:_WORST_SHOWN]
        shown = slice(begin, begin + count)
        places = slice(*(min(span.start + at, span.stop) for at in (begin, begin + count)))
        return {
            "step": step,
            "index": index,
            **facts,
            "repeats_at": _place(table.loops[index]),
            "prompt": self._texts.prompt(run, table.prompts[index].as_py()),
            "teacher_prompt": self._teacher_prompt(run, table, index),
            "tokens": len(ids),
            "from": begin,
            "ids": ids[shown].tolist(),
            "texts": texts[shown],
            "student": _nats(table.student[span][shown]),
            "teacher": _nats(table.teacher[span][shown]),
            "alternatives": self._alternatives(run, table, places),
            "worst": [{"place": int(at) + 1, "gap": _finite(gaps[at])} for at in order],
            "mean_gap": _mean(gaps),
            "levels": list(LEVELS),
            "text_missing": missing,
        }

    def table(self, run: Place, step: int) -> Table:
        """A step's table, read once. Raises `Gone` where none is kept, and `Unreadable` for one that is closed."""
        place = table_place(run, step)
        stamp = place.stamp()
        if stamp is None and (why := place.why_closed()):
            raise Unreadable(why)
        if stamp is None:
            raise Gone(f"no rollouts of step {step} are kept in {run.at(FOLDER).path}")
        return self._shelf.get(place, stamp, lambda _: read_table(place))

    def _teacher_prompt(self, run: Place, table: Table, index: int) -> str | None:
        """The prompt as the teacher saw it; None where that is the student's."""
        ids = None if table.teacher_prompts is None else table.teacher_prompts[index].as_py()
        return None if ids is None else self._texts.prompt(run, ids)

    def _alternatives(self, run: Place, table: Table, places: slice) -> dict[str, Any] | None:
        """The teacher's likeliest tokens at these places: ids and nats, place after place, and the texts by id."""
        if table.others is None:
            return None
        ids_NK, logp_NK = table.others.ids_NK[places], table.others.logp_NK[places]
        return {
            "count": table.others.count,
            "ids": ids_NK.ravel().tolist(),
            "logp": _nats(logp_NK.ravel()),
            "texts": self._texts.words(run, np.unique(ids_NK).tolist()),
        }


def _teachers(table: Table) -> dict[str, int]:
    """How many rollouts each teacher scored, by name; none where rows name no teacher."""
    names = (facts["taught_by"] for facts in table.facts)
    return dict(sorted(Counter(name for name in names if name is not None).items()))


def _row(table: Table, index: int, verdict: Mapping[str, Any] | None) -> dict[str, Any]:
    facts, span, gaps = table.facts[index], table.span(index), table.gaps(index)
    worst = table.worst[index]
    return {
        "index": index,
        **facts,
        "problem": str(facts["problem"])[:_LONGEST_PROBLEM],
        "tokens": span.stop - span.start,
        "repeated": table.loops[index] is not None,
        "repeats_at": _place(table.loops[index]),
        "verdict": None if verdict is None else verdict.get("verdict"),
        "extracted": None if verdict is None else verdict.get("extracted"),
        "mean_gap": _mean(gaps),
        "worst": None if worst is None else {"place": worst + 1, "gap": _finite(gaps[worst])},
        "student_mean": _mean(table.student[span]),
        "teacher_mean": _mean(table.teacher[span]),
    }


def _kinds(table: Table, index: int, verdicts: Sequence[Mapping[str, Any]] | None) -> set[str]:
    """The names of the filters that a rollout passes."""
    own = {"truncated" if table.facts[index]["stop"] == "length" else "ended"}
    if table.loops[index] is not None:
        own.add("repeated")
    if verdicts is not None:
        correct = verdicts[index].get("correct")
        own.add("ungraded" if correct is None else "right" if correct else "wrong")
    return own


def _rank(table: Table, index: int, sort: str) -> tuple[float, int]:
    """Sorts as asked, least first; equal ones by their place in the table."""
    span, worst = table.span(index), table.worst[index]
    length = span.stop - span.start
    if sort == "worst":
        return (-abs(float(table.gaps(index)[worst])) if worst is not None else 1.0, index)
    if sort == "gap":
        mean = _mean(table.gaps(index))
        return (mean if mean is not None else np.inf, index)  # where the teacher is least pleased
    return ({"longest": -length, "shortest": length}.get(sort, 0), index)


def _place(loop: int | None) -> int | None:
    return None if loop is None else loop + 1


def _nats(values: NDArray[np.float32]) -> list[float | None]:
    rounded: list[float] = values.astype(np.float64).round(_DIGITS).tolist()
    return [one if math.isfinite(one) else None for one in rounded]


def _mean(values: np.ndarray) -> float | None:
    return _finite(np.mean(values, dtype=np.float64)) if len(values) else None


def _finite(value: float) -> float | None:
    """Rounded; null for NaN and infinity."""
    return round(float(value), _DIGITS) if np.isfinite(value) else None
