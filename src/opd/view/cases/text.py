"""A table over cases as text for a terminal, and the sentences that the page has in common with it."""

import textwrap
from collections.abc import Sequence

from opd.records.cases import AttemptRow, CaseRow, CaseTable, Pair, Standing, Tally, TaskTable
from opd.records.tasks import Reference
from opd.view.plain import shown
from opd.view.words import UNDEFINED, chance, interval, number, signed

NONE = "none"  # in the place of a score that is missing
COUNTED = (Standing.TERMINAL, Standing.REJECTED, Standing.INFRASTRUCTURE, Standing.OPEN)
_COLUMNS = 100
_LONGEST = 200  # characters of a name
_LONGEST_NOTE = 2_000
_PASSED_OVER = 5  # folders that are named


def terminal(table: CaseTable) -> str:
    """Each task with its cases, what has no score and why, what can be told apart, and what the numbers don't say."""
    said = [passed_over(table)] if table.passed_over else []
    return "\n\n".join([*(_task(one) for one in table.tasks), *("\n".join(_wrapped(one, indent="")) for one in said)])


def passed_over(table: CaseTable) -> str:
    """`Passed over, as no attempt: runs/train.`"""
    names = [shown(name, longest=_LONGEST) for name in table.passed_over]
    more = [f"and {len(names) - _PASSED_OVER} more"] if len(names) > _PASSED_OVER else []
    return f"Passed over, as no attempt: {', '.join([*names[:_PASSED_OVER], *more])}."


def measure(task: TaskTable) -> str:
    """What a score is the mean of."""
    better = "higher" if task.higher_is_better else "lower"
    return f"{shown(task.metric)} over {task.questions:,} questions, {task.samples:,} samples; {better} is better"


def reference(one: Reference) -> str:
    """`fixed start: 0.4585 ± 0.0122 (917/2,000)`."""
    error = "" if one.stderr is None else f" ± {number(one.stderr, 4)}"
    counted = "" if one.correct is None else f" ({one.correct:,}/{one.samples:,})"
    return f"{shown(one.name, longest=_LONGEST)}: {number(one.score, 4)}{error}{counted}"


def best(task: TaskTable, case: CaseRow) -> str:
    """A case's best score with its error."""
    row = task.best(case)
    if row is None or row.result is None:
        return NONE
    found = row.result
    return number(found.mean, 4) + ("" if found.stderr is None else f" ± {number(found.stderr, 4)}")


def median(tally: Tally) -> str:
    """Of the scores that there are."""
    return NONE if tally.median is None else number(tally.median, 4)


def above(count: int, tally: Tally) -> str:
    """`1 of 3`: of the scores that there are, so many are better than a reference; no share of nothing."""
    return f"{count} of {tally.scores}" if tally.scores else NONE


def told_apart(pair: Pair) -> str:
    """What a paired test says of two cases: a difference, or that none can be told from noise."""
    found = pair.comparison
    p = found.p_holm if found.p_holm is not None else _larger(found.p, found.p_permutation)
    said = (
        f"{signed(found.difference, 4)}, 95 % interval {interval(found.ci95, difference=True, digits=4)}, {chance(p)}"
    )
    case, against = shown(pair.case, longest=_LONGEST), shown(pair.against, longest=_LONGEST)
    if found.distinguishable is None:
        return f"Whether {case} differs from {against} is {UNDEFINED}: one question says nothing of others."
    if found.distinguishable:
        return f"{case} scores {'higher' if found.difference > 0 else 'lower'} than {against}: {said}."
    reach = "" if found.detectable is None else f"; {number(found.detectable, 4)} is found four times in five"
    return f"{case} and {against} cannot be told apart: {said}{reach}."


def called(task: TaskTable, row: AttemptRow) -> str:
    """An attempt's name, with its folder where the name alone does not tell which."""
    return shown(task.called(row), longest=2 * _LONGEST)


def without_score(task: TaskTable, row: AttemptRow) -> str:
    """`NAME: terminal: why`."""
    because = shown(row.because or "", longest=_LONGEST)
    return f"{called(task, row)}: {row.standing}: {because}"


def _task(task: TaskTable) -> str:
    lines = [f"{shown(task.task, longest=_LONGEST)} ({task.task_sha256[:12]}…)", measure(task)]
    lines += [f"  R{place}  {reference(one)}" for place, one in enumerate(task.references, start=1)]
    lines += ["", *(f"  {line}" for line in _table(task))]
    if missing := [row for row in task.attempts if row.result is None]:
        lines += ["", "Without a score, and in no mean:", *(f"  {without_score(task, row)}" for row in missing)]
    if task.pairs:
        lines += ["", f"Paired by question, p after Holm over {len(task.pairs)}:"]
        lines += [line for pair in task.pairs for line in _wrapped(told_apart(pair))]
    elif task.unpaired:
        lines += ["", *_wrapped(f"No pairs: {shown(task.unpaired, longest=500)}.", indent="")]
    return "\n".join(
        [
            *lines,
            *(line for note in task.notes for line in ("", *_wrapped(shown(note, longest=_LONGEST_NOTE), indent=""))),
        ]
    )


def _table(task: TaskTable) -> list[str]:
    reached = [f"above R{place}" for place in range(1, len(task.references) + 1)]
    rows = [["case", "best", "median", *reached, "scores", "without one"]]
    rows += [_cells(shown(case.case, longest=_LONGEST), best(task, case), case.tally) for case in task.cases]
    if len(task.cases) > 1:
        top = NONE if task.all.best is None else number(task.all.best, 4)
        rows.append(_cells(f"all {len(task.cases)}", top, task.all))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_padded(row, widths)).rstrip() for row in rows]


def _cells(name: str, top: str, tally: Tally) -> list[str]:
    reached = [above(count, tally) for count in tally.above]
    without = ", ".join(f"{tally.standings[one]} {one}" for one in COUNTED if tally.standings[one])
    return [name, top, median(tally), *reached, f"{tally.scores} of {tally.attempts}", without]


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = zip(row, widths, strict=True)
    return [f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in rest)]


def _wrapped(text: str, *, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, _COLUMNS, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def _larger(p: float | None, other: float | None) -> float | None:
    return max((one for one in (p, other) if one is not None), default=None)
