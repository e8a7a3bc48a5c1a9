"""Looking more than once while results come in, without fooling oneself.

With a fixed number of looks: boundaries for |z| that keep the chance of any false find at alpha (Pocock 1977;
O'Brien and Fleming 1979). At any time: the normal mixture test (Robbins 1970; Johari et al., arXiv 1512.04922).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

_NODES = 80  # Gauss–Legendre points a look: the boundary is right to many more digits than anybody prints


class Boundary(StrEnum):
    """How the error is spent over the looks."""

    POCOCK = "pocock"  # the same |z| at every look
    OBRIEN_FLEMING = "obrien_fleming"  # strict at first: |z| falls with 1 / √(share of the data)


def boundaries(looks: int, *, alpha: float = 0.05, shape: Boundary) -> tuple[float, ...]:
    """The |z| that each of so many equally spaced looks has to pass, so that all together err with chance alpha."""
    if looks < 1:
        raise ValueError(f"{looks} looks: there is at least one")

    def limits(scale: float) -> tuple[float, ...]:
        if shape is Boundary.POCOCK:
            return (scale,) * looks
        return tuple(scale * math.sqrt(looks / look) for look in range(1, looks + 1))

    return limits(_root(lambda scale: _stays_inside(limits(scale)) - (1 - alpha), low=0.5, high=10.0))


def _stays_inside(limits: Sequence[float]) -> float:
    """The chance that a walk of standard normal steps, divided by √step, passes none of the limits.

    The density of the walk that is still inside is carried from look to look (Armitage, McPherson, Rowe 1969).
    """
    unit_nodes, unit_weights = np.polynomial.legendre.leggauss(_NODES)
    places, masses = np.zeros(1), np.ones(1)
    for look, limit in enumerate(limits, start=1):
        edge = limit * math.sqrt(look)
        nodes = edge * unit_nodes
        steps = nodes[:, None] - places[None, :]
        density = (np.exp(-steps * steps / 2) / math.sqrt(2 * math.pi)) @ masses
        places, masses = nodes, edge * unit_weights * density
    return float(masses.sum())


def _root(function: Callable[[float], float], *, low: float, high: float) -> float:
    """Where an increasing function is zero, by halving down to the last bits."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyTime:
    """The state of a test after one more difference; it may be stopped here, whatever the reason."""

    evidence: float
    """Λ: likelihood of the mixture over that of no difference."""
    p: float
    """Valid at whichever moment one stops; never rises."""
    halfwidth: float
    """Of the interval around the running mean that covers the truth at all moments with chance 1 - alpha."""


def mixture_test(
    differences: Sequence[float], *, sigma: float, tau: float, alpha: float = 0.05
) -> tuple[AnyTime, ...]:
    """The test's state after each of the differences, which have the known standard deviation `sigma`.

    `tau` is the standard deviation of the differences that are thought possible beforehand.
    Λ_n = √(σ²/(σ² + n τ²)) exp(τ² S_n² / (2 σ² (σ² + n τ²))).
    """
    states: list[AnyTime] = []
    total, p, noise, prior = 0.0, 1.0, sigma**2, tau**2
    for n, difference in enumerate(differences, start=1):
        total += difference
        both = noise + n * prior
        evidence = math.sqrt(noise / both) * math.exp(prior * total**2 / (2 * noise * both))
        p = min(p, 1 / evidence)
        width = noise * both / (n**2 * prior) * (math.log(both / noise) + 2 * math.log(1 / alpha))
        states.append(AnyTime(evidence=evidence, p=p, halfwidth=math.sqrt(width)))
    return tuple(states)
