"""How long responses are: a histogram whose shares have errors, and the means of the right and the wrong ones."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

from opd.evaluate.means import mean_of
from opd.evaluate.rows import Row
from opd.evaluate.statistics.estimates import Counts, mean_over_questions
from opd.evaluate.statistics.intervals import wilson_clustered
from opd.records.score_report import LengthBin, Lengths

MOST_BINS = 20


def lengths(groups: Sequence[Sequence[Row]]) -> Lengths | None:
    """Of responses grouped by question: in tokens where every sample has them, else in characters, else None."""
    rows = [row for group in groups for row in group]
    if all(row.tokens is not None for row in rows):
        return _lengths(groups, lambda row: row.tokens or 0, unit="tokens")
    if all(row.response is not None for row in rows):
        return _lengths(groups, lambda row: len(row.response or ""), unit="characters")
    return None


def most_bins(samples: int) -> int:
    """How many bins so many samples fill: twice the cube root of their number (Rice's rule), at most `MOST_BINS`."""
    return next((bins for bins in range(1, MOST_BINS) if bins**3 >= 8 * samples), MOST_BINS)


def bin_width(shortest: int, longest: int, *, most: int) -> int:
    """The least of 1, 2, 5, 10, 20, … of which at most so many multiples in a row hold shortest and longest."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            width = digit * power
            if longest // width - shortest // width < most:
                return width
        power *= 10


def _lengths(
    groups: Sequence[Sequence[Row]], length_of: Callable[[Row], int], *, unit: Literal["tokens", "characters"]
) -> Lengths:
    rows = [row for group in groups for row in group]
    ordered = sorted(map(length_of, rows))
    mean = mean_over_questions([Fraction(sum(map(length_of, group)), len(group)) for group in groups])
    width = bin_width(ordered[0], ordered[-1], most=most_bins(len(rows)))
    first = ordered[0] // width * width
    return Lengths(
        unit=unit,
        mean=mean.mean,
        stderr=mean.stderr,
        median=ordered[(len(ordered) - 1) // 2],
        longest=ordered[-1],
        mean_correct=_mean([length_of(row) for row in rows if row.correct]),
        mean_wrong=_mean([length_of(row) for row in rows if not row.correct]),
        bins=tuple(
            _bin(groups, length_of, least=least, below=least + width)
            for least in range(first, ordered[-1] + 1, width)
        ),
    )


def _bin(groups: Sequence[Sequence[Row]], length_of: Callable[[Row], int], *, least: int, below: int) -> LengthBin:
    inside = [[row for row in group if least <= length_of(row) < below] for group in groups]
    counts = Counts(hits=tuple(map(len, inside)), samples=tuple(map(len, groups)))
    correct = sum(row.correct for group in inside for row in group)
    cut_short = sum(bool(row.cut_short) and not row.correct for group in inside for row in group)
    said = mean_of(counts)
    return LengthBin(
        least=least,
        below=below,
        correct=correct,
        wrong=counts.total_hits - correct - cut_short,
        cut_short=cut_short,
        share=said.mean,
        stderr=said.stderr,
        ci95=wilson_clustered(said.mean, said.stderr, df=counts.questions - 1) if said.stderr else said.ci95,
    )


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
