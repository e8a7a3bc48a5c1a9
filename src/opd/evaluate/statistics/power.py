"""What a paired comparison can find before it is run: the smallest detectable difference, and what more would buy.

Closed forms with normal quantiles, two-sided: the error of the difference is √(v / Q) with
v = ω² + W_A/K_A + W_B/K_B a question (see `paired.py`). More samples shrink only the W terms: once ω² leads,
more questions alone help.
"""

import math
from dataclasses import dataclass

from scipy.special import ndtr

from opd.evaluate.statistics.intervals import normal_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDesign:
    """Two models, so many samples of each question, and how the samples are believed to spread."""

    true_spread: float
    """ω²: variance of the true per-question differences; 0 is the most favourable case."""
    within_a: float
    within_b: float
    samples_a: int
    samples_b: int

    @property
    def variance_per_question(self) -> float:
        """v, the variance of one question's difference."""
        return self.true_spread + self.within_a / self.samples_a + self.within_b / self.samples_b

    def stderr(self, questions: int) -> float:
        """Standard error of the difference over so many questions."""
        return math.sqrt(self.variance_per_question / questions)


def detectable_difference(stderr: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest true difference that a two-sided test at `alpha` finds with this power."""
    return _reach(alpha, power) * stderr


def power_at(difference: float, *, stderr: float, alpha: float = 0.05) -> float:
    """The chance that a two-sided test at `alpha` finds a true difference of this size, in either direction."""
    limit, shift = normal_quantile(1 - alpha / 2), difference / stderr
    return float(ndtr(shift - limit) + ndtr(-shift - limit))


def questions_needed(difference: float, *, design: PairedDesign, alpha: float = 0.05, power: float = 0.8) -> int:
    """So many questions find a true difference of this size with this power."""
    return math.ceil(design.variance_per_question * (_reach(alpha, power) / difference) ** 2)


def samples_needed(
    difference: float,
    *,
    questions: int,
    design: PairedDesign,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """So many samples of each question and model find it; None where no number does, because ω² alone hides it.

    The design's own numbers of samples play no part.
    """
    affordable = questions * (difference / _reach(alpha, power)) ** 2 - design.true_spread
    return math.ceil((design.within_a + design.within_b) / affordable) if affordable > 0 else None


def _reach(alpha: float, power: float) -> float:
    return normal_quantile(1 - alpha / 2) + normal_quantile(power)
