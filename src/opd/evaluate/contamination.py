"""A score with and without the questions that stand in the training rows."""

import math
from collections.abc import Iterable, Sequence

from opd.evaluate.means import mean_of
from opd.evaluate.results import Results
from opd.evaluate.trained import Trained, TrainingPair, same_problems, training_data, trust
from opd.records.errors import AskedWrongly
from opd.records.score_report import Contamination, Mean, Overlap


def contamination(results: Results, trained: Trained, *, model: str | None) -> Contamination:
    """What the score owes to questions that the reports found.

    Raises `AskedWrongly` when a report is of another training file than the model's, or compared none of the
    questions: that nothing was found where nobody looked is no finding (H48).
    """
    data = training_data(model)
    asked = set(results.questions)
    compared = {name for report in trained.reports for name in report.compared} & asked
    if not compared:
        files = ", ".join(report.file for report in trained.reports)
        raise AskedWrongly(
            f"{files}: none of the {len(asked)} questions of {results.name} was compared there, "
            f"{results.questions[0]!r} for one; name the benchmark's own file with --against"
        )
    pairs = [pair for report in trained.reports for pair in same_problems(report, data) if pair.question in asked]
    found = {pair.question for pair in pairs}
    only, without = (_part(results, asked - kept) for kept in (found, asked - found))
    shift, error = _shift(only, without, total=results.counts.total_samples)
    return Contamination(
        reports=tuple(f"{report.file} {report.sha256}" for report in trained.reports),
        training=tuple(f"{report.training_file} {report.training_sha256}" for report in trained.reports),
        trained_on=trust(data),
        compared=len(compared),
        overlaps=tuple(_overlaps(results, pairs)),
        near=sum(not pair.same and pair.question in asked for report in trained.reports for pair in report.pairs),
        without=without,
        only=only,
        shift=shift,
        shift_stderr=error,
        note=_note(len(found), len(compared), questions=len(asked), confirmed=data is not None),
    )


def _part(results: Results, gone: Iterable[str]) -> Mean | None:
    """The score without some of the questions; None when none is left."""
    gone = set(gone)
    return None if gone >= set(results.questions) else mean_of(results.without(gone).counts)


def _shift(only: Mean | None, without: Mean | None, *, total: int) -> tuple[float | None, float | None]:
    """The score less the score without the questions found: f (only - without), and its error."""
    if without is None:
        return None, None
    if only is None:
        return 0.0, None
    share = only.samples / total
    shift = share * (only.mean - without.mean)
    if only.stderr is None or without.stderr is None:
        return shift, None
    return shift, share * math.hypot(only.stderr, without.stderr)


def _overlaps(results: Results, pairs: Sequence[TrainingPair]) -> Iterable[Overlap]:
    place = {name: index for index, name in enumerate(results.questions)}
    for pair in sorted(pairs, key=lambda pair: (pair.question, pair.row)):
        index = place[pair.question]
        yield Overlap(
            question=pair.question,
            training_row=pair.row,
            found=pair.found,
            verdict=pair.verdict,
            jaccard=pair.jaccard,
            longest_run=pair.longest_run,
            correct=results.counts.hits[index],
            samples=results.counts.samples[index],
        )


def _note(found: int, compared: int, *, questions: int, confirmed: bool) -> str:
    """What a reader has to know beside the numbers."""
    parts = [f"{found} of the {compared} questions that were compared stand in the training rows."]
    if compared < questions:
        parts.append(f"The other {questions - compared} were not compared, so nothing is known of them.")
    if not confirmed:
        parts.append("That the model was trained on these rows is taken on trust: no run beside it says so.")
    if found:
        parts.append(
            "Compare with another model on the questions that are left: `opd compare A B --trained-on REPORT` drops "
            "them on both sides, so that the pairing holds."
        )
    return " ".join(parts)
