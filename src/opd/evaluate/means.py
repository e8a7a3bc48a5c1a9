"""Counts → the mean that a report shows, with its error and interval."""

from opd.evaluate.statistics.estimates import Counts, clustered_stderr
from opd.evaluate.statistics.intervals import t_interval
from opd.records.score_report import Mean


def mean_of(counts: Counts) -> Mean:
    """A mean over samples with its clustered error."""
    stderr = clustered_stderr(counts)
    return Mean(
        mean=counts.mean,
        stderr=stderr,
        ci95=t_interval(counts.mean, stderr, df=counts.questions - 1),
        questions=counts.questions,
        samples=counts.total_samples,
        correct=counts.total_hits,
    )
