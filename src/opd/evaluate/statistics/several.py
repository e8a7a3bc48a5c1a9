"""More than one candidate: p values that stay honest, and how good the best of equals looks."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment, in the order given: below 0.05, the error of any false find is held at 5 %."""
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def benjamini_hochberg(ps: Sequence[float]) -> tuple[float, ...]:
    """The step-up adjustment, in the order given: below 0.05, at most 5 % of the finds are expected to be false."""
    adjusted = [0.0] * len(ps)
    smallest = 1.0
    descending = sorted(range(len(ps)), key=ps.__getitem__, reverse=True)
    for rank, index in zip(range(len(ps), 0, -1), descending, strict=True):
        smallest = min(smallest, ps[index] * len(ps) / rank)
        adjusted[index] = smallest
    return tuple(adjusted)


def best_of_k_bias(candidates: int, stderr: float) -> float:
    """How much too high the best of so many equally good candidates is expected to score.

    E[max of k independent normals] × stderr; for checkpoints scored on the same questions the error that tells
    them apart is the spread between seeds. Candidates that share noise gain less.
    """
    if candidates < 1:
        raise ValueError(f"best of {candidates}: there is at least one candidate")
    z = np.linspace(-10, 10, 2001)  # the trapezoid rule is exact to rounding for so smooth a bump
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    expected_largest = float(np.trapezoid(z * candidates * density * ndtr(z) ** (candidates - 1), z))
    return expected_largest * stderr
