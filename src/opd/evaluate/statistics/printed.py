"""What a printed score says about its questions: from (correct, standard error) back to the variance parts.

With K samples of each of Q questions the clustered error is a function of two whole numbers, the sum and the sum
of squares of the per-question counts: Σ c² = K² (Q (Q - 1) stderr² + Q m²). Six printed digits usually leave one
candidate, so that two published scores can be compared on their sampling noise without their records; none
means that the printed numbers can't belong together.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from opd.evaluate.statistics.estimates import VarianceParts


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A score as a table shows it: K samples of each question, and the error rounded to so many digits."""

    questions: int
    samples_per_question: int
    correct: int
    stderr: float
    digits: int

    def sums_of_squares(self) -> tuple[int, ...]:
        """Every Σ c² that rounds to the printed error, ascending; Σ c² is as odd or even as Σ c."""
        q, k, correct = self.questions, self.samples_per_question, self.correct
        half = Fraction(1, 2 * 10**self.digits)
        printed = Fraction(str(self.stderr))
        least = _squares(q, k, correct, max(printed - half, Fraction(0)))
        most = _squares(q, k, correct, printed + half)
        return tuple(
            squares
            for squares in range(math.ceil(least), math.floor(most) + 1)
            if squares % 2 == correct % 2 and correct <= squares <= k * correct
        )

    def variance_parts(self, squares: int) -> VarianceParts:
        """Within and between for one of the candidates."""
        q, k, correct = self.questions, self.samples_per_question, self.correct
        within = Fraction(k * correct - squares, q * k * (k - 1))
        spread = (Fraction(squares, k * k) - Fraction(correct**2, q * k * k)) / (q - 1)
        return VarianceParts(within=float(within), between=float(spread - within / k))


def _squares(questions: int, samples: int, correct: int, stderr: Fraction) -> Fraction:
    return samples**2 * questions * (questions - 1) * stderr**2 + Fraction(correct**2, questions)
