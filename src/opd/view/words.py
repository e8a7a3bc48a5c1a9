"""Numbers and findings in words, the same on the terminal and on the page; no score is computed here."""

import math

from opd.records.scores import Comparison, Score

UNDEFINED = "undefined"
_MINUS = "\N{MINUS SIGN}"
_HALF_UP = 1 + 1e-12  # binary puts 0.0875 a hair below and 0.5875 a hair above: both are halves of a thousandth


def number(value: float | None, digits: int = 3) -> str:
    """The value with a true minus sign, a half rounded away from zero; null is undefined, never shown as zero."""
    return UNDEFINED if value is None else f"{value * _HALF_UP:z.{digits}f}".replace("-", _MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """The value with its sign, plus included."""
    return UNDEFINED if value is None else f"{value * _HALF_UP:+z.{digits}f}".replace("-", _MINUS)


def interval(ends: tuple[float, float] | None, *, difference: bool = False, digits: int = 3) -> str:
    """`0.821 to 0.865`; the ends of a difference carry their signs."""
    if ends is None:
        return UNDEFINED
    low, high = (signed(end, digits) if difference else number(end, digits) for end in ends)
    return f"{low} to {high}"


def percent(share: float) -> str:
    """A share of one as a percentage with one decimal: `2.5 %`; only none reads as 0.0, only all as 100.0."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{share:.1%}".replace("%", " %")


def probability(logp: float) -> str:
    """The probability that a log-probability in nats stands for, as a percentage."""
    return percent(math.exp(logp))


def small(value: float) -> str:
    """A number of any size in at most eight characters: `0.0412`, `1.1e-07`, `1,234`."""
    size = abs(value)
    if value == 0:
        return "0"
    if size < 1e-3 or size >= 1e7:
        return f"{value:.1e}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.3g}"


def clock(seconds: float) -> str:
    """A duration as a clock shows it: `0:07`, `12:34`, `1:02:03`."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def duration(seconds: float) -> str:
    """A duration with its units: `0.4 s`, `45 s`, `2 min 5 s`, `1 h 2 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {left} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def short_place(path: str) -> str:
    """The last two parts of a path at most: `train/checkpoint-120`."""
    return "/".join(path.rstrip("/").split("/")[-2:])


def chance(p: float | None) -> str:
    """`p = 0.032`, or `p < 0.0001` where more digits would say nothing."""
    if p is None:
        return f"p {UNDEFINED}"
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def headline(found: Comparison, *, metric: str = "pass@1") -> str:
    """The finding in one sentence: gained, lost, or not to be told apart from noise."""
    if found.distinguishable is None:
        return "Whether distillation changed anything is undefined: there are too few questions."
    if not found.distinguishable:
        return "Before and after distillation cannot be told apart."
    verb = "raised" if found.difference > 0 else "lowered"
    return f"Distillation {verb} {metric} from {number(found.mean_a)} to {number(found.mean_b)}."


def finding(found: Comparison) -> str:
    """What stands under the headline: the difference, its error, and what the design could have seen."""
    said = (
        f"Difference {signed(found.difference)}, standard error {number(found.stderr, 4)}, "
        f"95 % interval {interval(found.ci95, difference=True)}, {chance(found.p)}; "
        f"paired over {found.questions:,} questions."
    )
    if found.distinguishable:
        return f"{said} That is more than the noise of questions and sampling explains."
    if found.detectable is None:
        return said
    return f"{said} This design finds a true difference of {number(found.detectable)} four times in five."


def design(score: Score) -> str:
    """`500 × 4`: questions times samples for each."""
    return f"{score.questions:,} × {score.protocol.samples_per_question}"
