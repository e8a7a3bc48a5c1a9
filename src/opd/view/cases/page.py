"""A table over cases as one self-contained page: it sorts by a few lines of its own script, and reads without it.

Nothing comes from the network; the policy of the page lets that one script run, by its digest, and no other.
"""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from opd.records.cases import AttemptRow, CaseRow, CaseTable, Standing, Tally, TaskTable
from opd.records.files import write_text
from opd.view.cases.pictures import scores
from opd.view.cases.text import (
    COUNTED,
    NONE,
    above,
    best,
    called,
    measure,
    median,
    passed_over,
    reference,
    told_apart,
)
from opd.view.page import page
from opd.view.plain import shown
from opd.view.words import number

_TEMPLATE = "cases/cases.html.j2"
_SCRIPT = Path(__file__).with_name("cases_sort.js.j2")
_LONGEST = 200  # characters of a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is read, and what is sorted by: a number, or the text itself; nothing sorts last, either way."""

    text: str
    value: float | str | None


def write_page(path: Path, table: CaseTable) -> None:
    """The page stands in the file, whole or not at all."""
    write_text(path, render(table))


def render(table: CaseTable) -> str:
    """The page as HTML; equal tables give equal text."""
    script = _SCRIPT.read_text(encoding="utf-8").strip()
    cases = sum(len(task.cases) for task in table.tasks)
    attempts = sum(task.all.attempts for task in table.tasks)
    return page(
        _TEMPLATE,
        script=script,
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        title=f"{_counted(cases, 'case')} on {_counted(len(table.tasks), 'task')}",
        lead=f"{_counted(attempts, 'attempt')}, each read again from its first byte to its last for this page.",
        standings=[(str(one), _MEANS[one], sum(task.all.standings[one] for task in table.tasks)) for one in Standing],
        passed_over=passed_over(table) if table.passed_over else None,
        tasks=[_section(task, place) for place, task in enumerate(table.tasks, start=1)],
    )


_MEANS = {
    Standing.COMPLETED: "with an official score",
    Standing.TERMINAL: "ended without one by the explorer's or the candidate's doing",
    Standing.REJECTED: "handed in what breaks a rule",
    Standing.INFRASTRUCTURE: "ended by the machine's or the operator's doing",
    Standing.OPEN: "not over",
}


def _section(task: TaskTable, place: int) -> dict[str, object]:
    return {
        "name": shown(task.task, longest=_LONGEST),
        "measure": measure(task),
        "digest": task.task_sha256,
        "references": [(f"R{place}", reference(one), shown(one.source, longest=_LONGEST))
                       for place, one in enumerate(task.references, start=1)],
        "picture": scores(task, name=f"scores-{place}"),
        "case_header": (
            "case", "best", "median", *(f"above R{place}" for place in range(1, len(task.references) + 1)), "scores",
            *map(str, COUNTED),
        ),
        "cases": [_case(task, case) for case in task.cases],
        "all": _tally(f"all {len(task.cases)}", _score(task.all.best), task.all) if len(task.cases) > 1 else None,
        "attempt_header": ("attempt", "standing", "score", "step", "best of", "why there is no score", "log"),
        "attempts": [_attempt(task, row) for row in task.attempts],
        "pairs": [told_apart(pair) for pair in task.pairs],
        "unpaired": None if task.unpaired is None else shown(task.unpaired, longest=500),
        "notes": task.notes,
    }  # fmt: skip


def _case(task: TaskTable, case: CaseRow) -> list[Cell]:
    return _tally(shown(case.case, longest=_LONGEST), Cell(text=best(task, case), value=case.tally.best), case.tally)


def _tally(name: str, top: Cell, tally: Tally) -> list[Cell]:
    return [
        Cell(text=name, value=name),
        top,
        Cell(text=median(tally), value=tally.median),
        *(Cell(text=above(count, tally), value=count if tally.scores else None) for count in tally.above),
        Cell(text=f"{tally.scores} of {tally.attempts}", value=tally.scores),
        *(Cell(text=str(tally.standings[one]), value=tally.standings[one]) for one in COUNTED),
    ]


def _attempt(task: TaskTable, row: AttemptRow) -> list[Cell]:
    name, why = called(task, row), shown(row.because or "", longest=_LONGEST)
    result = row.result
    return [
        Cell(text=name, value=name),
        Cell(text=str(row.standing), value=str(row.standing)),
        _score(result.mean if result else None, result.stderr if result else None),
        Cell(text=str(result.step) if result else "", value=result.step if result else None),
        Cell(text=str(result.of) if result else "", value=result.of if result else None),
        Cell(text=why, value=why or None),
        Cell(text=f"{row.log_sha256[:12]}…", value=row.log_sha256),
    ]


def _score(mean: float | None, stderr: float | None = None) -> Cell:
    if mean is None:
        return Cell(text=NONE, value=None)
    return Cell(text=number(mean, 4) + ("" if stderr is None else f" ± {number(stderr, 4)}"), value=mean)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
