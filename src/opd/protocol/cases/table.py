"""The table over cases, task by task: counts, best and median, references, and what can be told apart."""

import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from opd.protocol.attempts.attempt import OUTCOME
from opd.protocol.cases.finding import Found, found
from opd.protocol.cases.pairing import MOST, comparisons
from opd.protocol.cases.standing import standing
from opd.protocol.clock import Instant, now
from opd.protocol.measures import SCORE
from opd.records.attempts import Stage, Submission
from opd.records.cases import AttemptRow, CaseRow, CaseTable, Pair, Result, Standing, Tally, TaskTable
from opd.records.errors import AnswerIsNo
from opd.records.scores import Score
from opd.records.settings import read
from opd.records.tasks import Contract, Reference

EVALUATION = "evaluation"  # what `opd evaluate` left of a final


def table(paths: Sequence[Path], *, at: Instant | None = None) -> CaseTable:
    """The attempts that these paths mean, in one table for each task. Errors as in `found`."""
    held = found(paths, at or now())
    tasks = [_task_table(list(some)) for _, some in groupby(sorted(held.attempts, key=_task), key=_task)]
    names = Counter(one.task for one in tasks)
    return CaseTable(
        tasks=tuple(_told_of_others(one, names[one.task] - 1) for one in tasks),
        passed_over=tuple(map(str, held.passed_over)),
    )


def _told_of_others(task: TaskTable, others: int) -> TaskTable:
    """The same, with a note where other versions of the task have tables of their own."""
    if not others:
        return task
    note = (
        f"{others} other version{'s' if others > 1 else ''} of this task: no score of one stands beside a score here."
    )
    return task.model_copy(update={"notes": (note, *task.notes)})


def _task(one: Found) -> tuple[str, str]:
    return one.attempt.identity.task, one.attempt.identity.task_sha256


def _task_table(held: Sequence[Found]) -> TaskTable:
    contract = held[0].attempt.task.contract
    task, task_sha256 = _task(held[0])
    references = tuple(one for one in contract.references if one.of == "final")
    rows = [_attempt_row(one, references) for one in held]
    cases = _cases(held, rows, contract)
    order = {row.case: place for place, row in enumerate(cases)}
    pairs, unpaired = _pairs(rows, cases, contract)
    made = TaskTable(
        task=task,
        task_sha256=task_sha256,
        metric=contract.final.metric,
        higher_is_better=contract.final.direction == "maximize",
        questions=contract.final.questions,
        samples=contract.final.samples,
        references=references,
        all=_tally(rows, contract),
        cases=cases,
        attempts=tuple(sorted(rows, key=lambda row: (order[row.case], row.name, row.folder))),
        pairs=pairs,
        unpaired=unpaired,
        notes=(),
    )
    return made.model_copy(update={"notes": tuple(_notes(made))})


def _attempt_row(one: Found, references: Sequence[Reference]) -> AttemptRow:
    identity, evidence = one.attempt.identity, one.evidence
    submission = evidence.facts(Submission, evidence.submission) if evidence.submission else None
    result = _result(one)
    lower = one.attempt.task.contract.final.direction == "minimize"
    return AttemptRow(
        name=identity.case,
        folder=str(one.folder),
        case=_case(one),
        standing=standing(one),
        because=None if result else one.status.missing,
        result=result,
        from_outside=submission is not None and submission.origin == "outside",
        install_sha256=identity.install_sha256,
        log_sha256=one.head_sha256,
        above=tuple(
            None if result is None else _is_better(result.mean, reference.score, lower=lower)
            for reference in references
        ),
    )


def _result(one: Found) -> Result | None:
    official = one.status.official
    if official is None:
        return None
    final = next(final for final in one.evidence.finals if final.step == official.step)
    assert final.protocol_sha256, "a final with a score has a protocol"
    place = one.attempt.place(Stage.FINAL, official.step)
    score = read(Score, place.folder / EVALUATION / SCORE)
    return Result(
        step=official.step,
        correct=official.correct,
        samples=official.samples,
        mean=official.mean,
        stderr=official.stderr,
        ci95=score.ci95,
        of=official.of,
        protocol_sha256=final.protocol_sha256,
        file=f"{place.name}/{OUTCOME}",
    )


def _case(one: Found) -> str:
    """Its id without the number of a further attempt."""
    identity = one.attempt.identity
    return "__".join((identity.harness, identity.task, identity.model or "none", identity.effort or "none"))


def _cases(held: Sequence[Found], rows: Sequence[AttemptRow], contract: Contract) -> tuple[CaseRow, ...]:
    sign = 1 if contract.final.direction == "minimize" else -1
    made = []
    for case in sorted({row.case for row in rows}):
        own = [row for row in rows if row.case == case]
        who = next(one.attempt.identity for one in held if _case(one) == case)
        best = _best(own, contract)
        made.append(
            CaseRow(
                case=case,
                harness=who.harness,
                model=who.model,
                effort=who.effort,
                tally=_tally(own, contract),
                best_attempt=best.name if best else None,
                best_folder=best.folder if best else None,
            )
        )
    return tuple(sorted(made, key=lambda row: (row.tally.best is None, sign * (row.tally.best or 0.0), row.case)))


def _tally(rows: Sequence[AttemptRow], contract: Contract) -> Tally:
    scores = [row.result.mean for row in rows if row.result]
    best = _best(rows, contract)
    return Tally(
        attempts=len(rows),
        standings={one: sum(row.standing is one for row in rows) for one in Standing},
        best=best.result.mean if best and best.result else None,
        median=statistics.median(scores) if scores else None,
        above=tuple(
            sum(bool(found) for found in column) for column in zip(*(row.above for row in rows), strict=True)
        ),
    )


def _best(rows: Sequence[AttemptRow], contract: Contract) -> AttemptRow | None:
    """Of equal scores the first."""
    scored = [(row.result.mean, row) for row in rows if row.result]
    choose = min if contract.final.direction == "minimize" else max
    return choose(scored, key=lambda pair: pair[0])[1] if scored else None


def _is_better(score: float, other: float, *, lower: bool) -> bool:
    return score < other if lower else score > other


def _pairs(
    rows: Sequence[AttemptRow], cases: Sequence[CaseRow], contract: Contract
) -> tuple[tuple[Pair, ...], str | None]:
    """The first case against the others that have a score, by the finals of their best attempts."""
    best = {case.case: _best([row for row in rows if row.case == case.case], contract) for case in cases}
    scored = [(case, _evaluation(row, row.result)) for case, row in best.items() if row and row.result]
    if len(scored) < 2:
        return (), "fewer than two cases have a score"
    (leading, place), *others = scored[: MOST + 1]
    try:
        compared = comparisons(place, [folder for _, folder in others])
    except AnswerIsNo as error:
        return (), str(error)
    pairs = zip(others, compared, strict=True)
    return tuple(Pair(case=case, against=leading, comparison=one) for (case, _), one in pairs), None


def _evaluation(row: AttemptRow, result: Result) -> Path:
    """The folder with the records by question."""
    return Path(row.folder) / result.file.removesuffix(OUTCOME) / EVALUATION


def _notes(task: TaskTable) -> list[str]:
    rows, cases, references = task.attempts, task.cases, task.references
    notes = []
    finals = {row.result.of for row in rows if row.result}
    if any(of > 1 for of in finals):
        each = f"{max(finals)}" if len(finals) == 1 else f"up to {max(finals)}"
        notes.append(
            f"Each score is the best of {each} finals of one training: the greatest of several correlated estimates "
            "is a little too high, and nothing is taken off for it."
        )
    if any(case.tally.scores > 1 for case in cases):
        notes.append("The best of a case with several attempts is chosen among them, its median is not.")
    if references:
        notes.append(
            "That a score is above a reference compares two numbers. It is no test: of a reference there are no "
            "records by question."
        )
    if (left_out := sum(case.best_attempt is not None for case in cases) - 1 - MOST) > 0:
        notes.append(f"{left_out} further cases were not compared with the leading one: {MOST} are at most.")
    if len({row.install_sha256 for row in rows}) > 1:
        notes.append("Not all attempts were judged by the same install; where the protocol is one, scores compare.")
    if any(row.from_outside for row in rows):
        names = ", ".join(task.called(row) for row in rows if row.from_outside)
        notes.append(f"The patch came from outside, not from the attempt's own exploration: {names}.")
    return notes
