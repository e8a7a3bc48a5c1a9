"""How surprising is a sum of differences, if each could as well have had the other sign?

Under the hypothesis that A and B are the same on every question, the labels A and B of a question can be swapped,
so the sign of each per-question difference is a fair coin. p is the share of all sign patterns whose sum lies
at least as far from zero as the one that was seen. Differences of counts lie on a lattice, so that share is
found exactly by convolution, whatever the number of questions; where the lattice is too fine (questions with
many different numbers of samples) by enumeration, and past that by seeded draws.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

LARGEST_LATTICE = 4_000_000  # cells: 32 MB
LARGEST_CONVOLUTION = 2_000_000_000  # cells × differences: about a second
LARGEST_ENUMERATION = 20  # non-zero differences: a million patterns
DRAWS = 100_000  # the standard error of a p of 0.05 is 0.0007
_TIE = 1e-9  # of the largest possible sum: floats that should be equal differ by far less


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlips:
    """Two-sided p of the sum; `draws` is None where the p is exact, over all patterns."""

    p: float
    draws: int | None


def sign_flips(differences: Sequence[Fraction], *, seed: int = 0) -> SignFlips:
    """The two-sided sign-flip p of the differences' sum. Zeros have no sign and are left out; none left: 1."""
    steps = _whole([difference for difference in differences if difference])
    observed, sizes = abs(sum(steps)), [abs(step) for step in steps]
    reach = sum(sizes)
    if not observed:
        return SignFlips(p=1.0, draws=None)
    if reach <= LARGEST_LATTICE and reach * len(sizes) <= LARGEST_CONVOLUTION:
        return SignFlips(p=_possible(_by_convolution(sizes, observed)), draws=None)
    shares = np.array([size / reach for size in sizes])
    if len(sizes) <= LARGEST_ENUMERATION:
        return SignFlips(p=_possible(_by_enumeration(shares, observed / reach)), draws=None)
    return SignFlips(p=_by_draws(shares, observed / reach, seed=seed), draws=DRAWS)


def _whole(differences: Sequence[Fraction]) -> list[int]:
    """The differences as whole numbers without a common divisor, which have the same p."""
    unit = math.lcm(*(difference.denominator for difference in differences))
    steps = [int(difference * unit) for difference in differences]
    common = math.gcd(*steps) or 1
    return [step // common for step in steps]


def _by_convolution(sizes: Sequence[int], observed: int) -> float:
    """chance[u] is the chance that the steps that go up add to u; the signed sum is then 2u - reach."""
    reach = sum(sizes)
    chance = np.zeros(reach + 1)
    chance[0] = 1.0
    top = 0
    for size in sizes:
        chance[size : size + top + 1] += chance[: top + 1]
        top += size
        chance[: top + 1] *= 0.5
    return 2 * float(chance[: (reach - observed) // 2 + 1].sum())  # both tails are equal


def _by_enumeration(shares: np.ndarray, observed: float) -> float:
    sums = np.zeros(1)
    for share in shares:
        sums = np.concatenate([sums + share, sums - share])
    return float(np.mean(np.abs(sums) >= observed - _TIE))


def _by_draws(shares: np.ndarray, observed: float, *, seed: int) -> float:
    """(hits + 1) / (draws + 1): the pattern that was seen counts as one of them, so that p is never zero."""
    random = np.random.default_rng(seed)
    hits, at_once = 0, 1000
    for _ in range(DRAWS // at_once):
        signs = random.integers(0, 2, size=(at_once, len(shares)), dtype=np.int8) * 2.0 - 1.0
        hits += int(np.count_nonzero(np.abs(signs @ shares) >= observed - _TIE))
    return (hits + 1) / (DRAWS + 1)


def _possible(p: float) -> float:
    """The p within (0, 1]: rounding may lift it a little above 1, and a single pattern's share may underflow."""
    return min(1.0, max(p, sys.float_info.min))
