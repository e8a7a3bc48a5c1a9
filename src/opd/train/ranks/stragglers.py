"""Where the time of a step went on each rank: the slowest decides how long all of them take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from opd.records.metrics import Drafted, Spread

WAIT = "wait"  # for the others; the slowest rank waits least


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What one rank says of its step."""

    seconds: Mapping[str, float]  # by phase, of its own work
    peak_bytes: int
    interrupted: bool
    drafted: Drafted | None = None  # what guesses came to in its own rollouts


def own_seconds(seconds: Mapping[str, float], *, waited: float) -> dict[str, float]:
    """By phase, without what was waited for the others, which is done in the update and stands by itself."""
    return {**seconds, "update": seconds["update"] - waited, WAIT: waited}


def spreads(reports: Sequence[RankReport]) -> dict[str, Spread]:
    """Of each phase: least, mean and most over the ranks, and which was slowest."""
    found = {}
    for phase in reports[0].seconds:
        each = [report.seconds[phase] for report in reports]
        found[phase] = Spread(least=min(each), mean=fmean(each), most=max(each), slowest=each.index(max(each)))
    return found


def drafted_of(reports: Sequence[RankReport]) -> Drafted | None:
    """What guesses came to on all ranks; None where none were made."""
    each = [one.drafted for one in reports if one.drafted is not None]
    names = Drafted.model_fields
    return Drafted(**{name: sum(getattr(one, name) for one in each) for name in names}) if each else None
