"""A mean over the samples of some questions, and how far it may be off.

Q questions; question q has k_q samples, of which c_q count (are correct, or were cut short). N = Σ k_q,
C = Σ c_q, and the mean is m = C / N: over samples, so that a question with more samples weighs more.

Samples of one question resemble each other. So the questions are the independent draws, and an error bar that
takes the samples for independent is too small, by the root of the design effect. Formulas: E. Miller, "Adding
Error Bars to Evals" (arXiv 2411.00640), the cluster-robust variance of a mean with the small-sample factor
Q / (Q - 1) (CR1), and the one-way analysis of variance.

Sums are exact, of whole numbers or fractions, so that what is zero is exactly 0.0. What is undefined is None.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Self

from opd.evaluate.statistics.intervals import t_interval
from opd.records.errors import AskedWrongly


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many samples each question has and how many of them count, question by question in one order."""

    hits: tuple[int, ...]
    samples: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.hits or len(self.hits) != len(self.samples):
            raise ValueError(f"{len(self.hits)} counts for {len(self.samples)} questions: one for each, at least one")
        for hits, samples in zip(self.hits, self.samples, strict=True):
            if not 0 <= hits <= samples or samples < 1:
                raise ValueError(f"{hits} of {samples} samples: a count lies between 0 and its samples")

    @classmethod
    def of(cls, hits: Sequence[int], *, samples_per_question: int) -> Self:
        """The counts of questions that all have the same number of samples."""
        return cls(hits=tuple(hits), samples=(samples_per_question,) * len(hits))

    @property
    def questions(self) -> int:
        """Q."""
        return len(self.hits)

    @property
    def total_samples(self) -> int:
        """N."""
        return sum(self.samples)

    @property
    def total_hits(self) -> int:
        """C."""
        return sum(self.hits)

    @property
    def samples_per_question(self) -> int | None:
        """K, or None where the questions differ."""
        return self.samples[0] if len(set(self.samples)) == 1 else None

    @property
    def mean(self) -> float:
        """C / N, over samples."""
        return self.total_hits / self.total_samples

    def question_means(self) -> tuple[Fraction, ...]:
        """p_q = c_q / k_q, exact."""
        return tuple(Fraction(hits, samples) for hits, samples in zip(self.hits, self.samples, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceParts:
    """Where the spread of the samples comes from; both are unbiased, so `between` can be negative by chance."""

    within: float
    """W: variance of one sample around its question's true mean, averaged over the questions."""
    between: float
    """B: variance of the questions' true means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over questions and its standard error over questions."""

    mean: float
    stderr: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The statistics of a `Score`, under the names that they have there."""

    mean: float
    stderr: float | None
    stderr_naive: float | None
    ci95: tuple[float, float] | None
    design_effect: float | None
    icc: float | None
    stderr_seeds: float | None
    questions: int
    samples: int
    correct: int


def clustered_stderr(counts: Counts) -> float | None:
    """Standard error of the mean over samples, clustered by question (CR1): √(Q/(Q-1) Σ (c_q - k_q m)²) / N.

    Where all questions have K samples this is the standard deviation of the question means over √Q. None for
    fewer than two questions.
    """
    questions, total, hits = counts.questions, counts.total_samples, counts.total_hits
    if questions < 2:
        return None
    # N (c_q - k_q m) is a whole number
    squares = sum((c * total - k * hits) ** 2 for c, k in zip(counts.hits, counts.samples, strict=True))
    return math.sqrt(Fraction(questions * squares, (questions - 1) * total**4))


def naive_stderr(counts: Counts) -> float | None:
    """√(m (1 - m) / N), as if all samples were independent; None for fewer than two samples."""
    total, hits = counts.total_samples, counts.total_hits
    return None if total < 2 else math.sqrt(Fraction(hits * (total - hits), total**3))


def naive_stderr_clt(counts: Counts) -> float | None:
    """The same with N - 1 for the variance: √(m (1 - m) / (N - 1)); None for fewer than two samples."""
    total, hits = counts.total_samples, counts.total_hits
    return None if total < 2 else math.sqrt(Fraction(hits * (total - hits), total**2 * (total - 1)))


def mean_over_questions(values: Sequence[float] | Sequence[Fraction]) -> Estimate:
    """The plain mean of one value a question, with sd(values) / √Q; the error is None for fewer than two."""
    exact = [Fraction(value) for value in values]
    if not exact:
        raise ValueError("no values: a mean needs at least one question")
    mean = sum(exact) / len(exact)
    if len(exact) < 2:
        return Estimate(mean=float(mean), stderr=None)
    variance = sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)
    return Estimate(mean=float(mean), stderr=math.sqrt(variance / len(exact)))


def design_effect(counts: Counts) -> float | None:
    """(clustered / naive)²: so many samples are worth one independent one; None where either is undefined or 0/0.

    About 1 + (K - 1) ICC.
    """
    clustered, naive = clustered_stderr(counts), naive_stderr(counts)
    return None if clustered is None or not naive else (clustered / naive) ** 2


def variance_parts(counts: Counts) -> VarianceParts | None:
    """Within and between, by one-way analysis of variance; None for one question, or for one sample of each.

    With K samples of each question W = mean of c (K - c) / (K (K - 1)) and B = Var(p_q) - W / K.
    """
    questions, total, hits = counts.questions, counts.total_samples, counts.total_hits
    if questions < 2 or total == questions:
        return None
    pairs = list(zip(counts.hits, counts.samples, strict=True))
    within = sum(Fraction(c * (k - c), k) for c, k in pairs) / (total - questions)
    mean_square_between = (sum(Fraction(c * c, k) for c, k in pairs) - Fraction(hits**2, total)) / (questions - 1)
    effective_samples = (total - Fraction(sum(k * k for k in counts.samples), total)) / (questions - 1)
    return VarianceParts(within=float(within), between=float((mean_square_between - within) / effective_samples))


def intracluster_correlation(counts: Counts) -> float | None:
    """ICC = B / (B + W): how much two samples of one question have in common; None where that is 0/0.

    Between -1/(K-1) and 1; it is negative by chance where the questions differ less than their samples do.
    """
    parts = variance_parts(counts)
    if parts is None or not parts.between + parts.within:
        return None
    return parts.between / (parts.between + parts.within)


def sampling_variances(counts: Counts) -> tuple[Fraction, ...] | None:
    """For each question the variance of its mean over other seeds, c (k - c) / (k² (k - 1)), unbiased.

    None as soon as one question has a single sample, whose spread nothing shows.
    """
    if min(counts.samples) < 2:
        return None
    return tuple(Fraction(c * (k - c), k * k * (k - 1)) for c, k in zip(counts.hits, counts.samples, strict=True))


def seeds_stderr(counts: Counts) -> float | None:
    """Spread of the mean between two runs of one model on these very questions with other seeds: √(W / K / Q).

    None as soon as one question has a single sample.
    """
    variances = sampling_variances(counts)
    if variances is None:
        return None
    weighted = sum(k * k * variance for k, variance in zip(counts.samples, variances, strict=True))
    return math.sqrt(weighted) / counts.total_samples


def pass_at_k(correct: int, samples: int, k: int) -> float:
    """The chance that k of a question's samples, drawn without return, hold a correct one: unbiased pass@k.

    1 - C(n - c, k) / C(n, k), from Chen et al. (arXiv 2107.03374). Raises `AskedWrongly` unless 1 ≤ k ≤ n.
    """
    if not 1 <= k <= samples:
        raise AskedWrongly(f"pass@{k} of {samples} samples: k lies between 1 and the samples of a question")
    return float(1 - Fraction(comb(samples - correct, k), comb(samples, k)))


def pass_at_k_score(counts: Counts, k: int) -> Estimate:
    """Mean of pass@k over the questions, with its standard error over questions; majority@k is in `votes.py`."""
    return mean_over_questions(
        [pass_at_k(c, samples, k) for c, samples in zip(counts.hits, counts.samples, strict=True)]
    )


def tries(samples: int) -> tuple[int, ...]:
    """The k at which pass@k and majority@k are shown for so many samples of a question: 1, 2, 4, … and all."""
    powers = [1 << power for power in range(samples.bit_length())]
    return tuple(sorted({*(k for k in powers if k <= samples), samples}))


def tally(
    samples: Iterable[tuple[str, int, bool]],
    *,
    questions: int | None = None,
    samples_per_question: int | None = None,
) -> tuple[tuple[str, ...], Counts]:
    """The questions, sorted, and their counts, from (question, sample, correct) in any order.

    Raises `AskedWrongly` for no samples, for a (question, sample) that comes twice, and, where the counts are
    declared, for any other number of questions or of samples of a question: a smaller denominator is never
    taken in silence.
    """
    rows: dict[str, dict[int, bool]] = {}
    for question, sample, correct in samples:
        of_question = rows.setdefault(question, {})
        if sample in of_question:
            raise AskedWrongly(
                f"question {question!r} has sample {sample} twice; each (question, sample) counts once"
            )
        of_question[sample] = correct
    if not rows:
        raise AskedWrongly("no samples: a score needs at least one")
    if questions is not None and len(rows) != questions:
        raise AskedWrongly(
            f"{len(rows)} questions have samples; {questions} are declared, so rows are missing or extra"
        )
    for question, of_question in rows.items():
        if samples_per_question is not None and len(of_question) != samples_per_question:
            raise AskedWrongly(
                f"question {question!r} has {len(of_question)} samples; {samples_per_question} are declared, "
                "so rows are missing or extra"
            )
    names = tuple(sorted(rows))
    return names, Counts(
        hits=tuple(sum(rows[name].values()) for name in names),
        samples=tuple(len(rows[name]) for name in names),
    )


def summary(counts: Counts) -> Summary:
    """Mean, errors and what they rest on."""
    stderr = clustered_stderr(counts)
    return Summary(
        mean=counts.mean,
        stderr=stderr,
        stderr_naive=naive_stderr(counts),
        ci95=t_interval(counts.mean, stderr, df=counts.questions - 1),
        design_effect=design_effect(counts),
        icc=intracluster_correlation(counts),
        stderr_seeds=seeds_stderr(counts),
        questions=counts.questions,
        samples=counts.total_samples,
        correct=counts.total_hits,
    )
