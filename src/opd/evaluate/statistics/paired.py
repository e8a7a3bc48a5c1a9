"""The difference of two models on the same questions, paired by question.

d_q = p_Bq - p_Aq; its mean is the difference, and it has two errors for two different claims:

    on questions like these     sd(d) / √Q                      the questions are a draw as well
    on exactly these questions  √(Σ W_Aq/k_Aq + W_Bq/k_Bq) / Q  only the sampling noise; pairing plays no part

Var(d) = ω² + W_A/K_A + W_B/K_B, with ω² the spread of the true per-question differences: where all questions
gain alike the two errors agree. Samples are never paired by seed: the second error takes those of two models for
independent, and is too large, never too small, where a sampler gave both the same noise. The first holds either
way.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from opd.evaluate.statistics.estimates import Counts, mean_over_questions, sampling_variances
from opd.evaluate.statistics.intervals import normal_p, t_interval, t_p
from opd.evaluate.statistics.sign_flips import SignFlips, sign_flips


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """B - A as a mean over questions, every question with the same weight. What is undefined is None."""

    questions: int
    difference: float
    stderr: float | None
    """For questions like these: sd(d) / √Q; None for one question."""
    stderr_fixed_questions: float | None
    """On exactly these questions; None as soon as a question has a single sample."""
    true_spread: float | None
    """ω², unbiased, so that it can be negative by chance; None where either error is."""
    ci95: tuple[float, float] | None
    """difference ± t(Q - 1) × stderr."""
    p: float | None
    """Two-sided, from t(Q - 1); None where the differences don't vary."""
    p_fixed_questions: float | None
    """Two-sided, from the normal; None where the sampling noise is undefined or zero."""
    flips: SignFlips

    @property
    def p_decisive(self) -> float | None:
        """The larger of the t test's p and the sign flips' p; None for one question.

        The t test is too sure of itself where few questions differ, and undefined where all differ alike; the
        sign flips are exact, and ask no more than that A and B be exchangeable.
        """
        if self.questions < 2:
            return None
        return self.flips.p if self.p is None else max(self.p, self.flips.p)


def paired_difference(a: Counts, b: Counts, *, seed: int = 0) -> PairedDifference:
    """B - A with both errors; the counts are of the same questions in the same order, with any samples each."""
    if a.questions != b.questions:
        raise ValueError(f"{a.questions} and {b.questions} questions: a pairing needs the same ones")
    differences = [of_b - of_a for of_a, of_b in zip(a.question_means(), b.question_means(), strict=True)]
    estimate = mean_over_questions(differences)
    noise = _sampling_noise(a, b)
    fixed = None if noise is None else math.sqrt(noise)
    df = a.questions - 1
    return PairedDifference(
        questions=a.questions,
        difference=estimate.mean,
        stderr=estimate.stderr,
        stderr_fixed_questions=fixed,
        true_spread=_true_spread(estimate.stderr, noise, questions=a.questions),
        ci95=t_interval(estimate.mean, estimate.stderr, df=df),
        p=t_p(estimate.mean / estimate.stderr, df=df) if estimate.stderr else None,
        p_fixed_questions=normal_p(estimate.mean / fixed) if fixed else None,
        flips=sign_flips(differences, seed=seed),
    )


def _sampling_noise(a: Counts, b: Counts) -> Fraction | None:
    """Variance of the difference over other seeds, on these questions."""
    of_a, of_b = sampling_variances(a), sampling_variances(b)
    return None if of_a is None or of_b is None else (sum(of_a, Fraction()) + sum(of_b)) / a.questions**2


def _true_spread(stderr: float | None, noise: Fraction | None, *, questions: int) -> float | None:
    return None if stderr is None or noise is None else questions * (stderr**2 - float(noise))
