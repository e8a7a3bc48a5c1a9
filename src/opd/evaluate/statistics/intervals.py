"""Quantiles, intervals and exact tests for means and shares. An undefined value is None, never zero."""

import math

from scipy.special import betaincinv, ndtr, ndtri, stdtr, stdtrit


def normal_quantile(share: float) -> float:
    """The standard normal value below which this share lies: 1.959964 for 0.975."""
    return float(ndtri(share))


def normal_p(z: float) -> float:
    """Two-sided p of a standard normal statistic."""
    return 2 * float(ndtr(-abs(z)))


def t_p(t: float, *, df: int) -> float:
    """Two-sided p of Student's t with `df` degrees of freedom."""
    return 2 * float(stdtr(df, -abs(t)))


def t_interval(
    value: float, stderr: float | None, *, df: int, confidence: float = 0.95
) -> tuple[float, float] | None:
    """The bounds value ± t(df) × stderr, not cut to [0, 1]; None where the error is undefined or df < 1."""
    if stderr is None or df < 1:
        return None
    reach = float(stdtrit(df, (1 + confidence) / 2)) * stderr
    return value - reach, value + reach


def wilson(hits: float, trials: float, *, confidence: float = 0.95) -> tuple[float, float] | None:
    """Wilson's score interval of a share of independent trials; None without trials.

    It stays inside [0, 1] and keeps a width at 0 and at 1, where the standard error is an artefact.
    """
    if trials <= 0:
        return None
    z2 = normal_quantile((1 + confidence) / 2) ** 2
    share = hits / trials
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    reach = math.sqrt(z2 * (share * (1 - share) + z2 / (4 * trials)) / trials) / (1 + z2 / trials)
    # at 0 and at 1 the bound is exact in real numbers, and a rounding error away in floats
    low = 0.0 if hits == 0 else centre - reach
    high = 1.0 if hits == trials else centre + reach
    return low, high


def wilson_clustered(share: float, stderr: float, *, df: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share inside (0, 1), from as many independent trials as would make its t interval
    as wide.
    """
    reach = float(stdtrit(df, 0.975)) * stderr
    trials = share * (1 - share) * (normal_quantile(0.975) / reach) ** 2
    found = wilson(share * trials, trials)
    assert found is not None, "an error above zero stands for some trials"
    return found


def clopper_pearson(hits: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float] | None:
    """The interval of a share of independent trials that covers at least so often; None without trials."""
    if trials < 1:
        return None
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - tail))
    return low, high


def sign_test_p(ups: int, downs: int) -> float:
    """Two-sided exact p that so many of the changes go up and so many down, if either were as likely.

    With one sample a question this is McNemar's exact test: `ups` only B right, `downs` only A right.
    No change at all is no evidence: 1.
    """
    changes, tail, ways = ups + downs, 0, 1
    for fewer in range(min(ups, downs) + 1):
        tail += ways
        ways = ways * (changes - fewer) // (fewer + 1)  # C(changes, fewer + 1), whole at every step
    return float(min(1.0, 2 * tail / 2**changes))
