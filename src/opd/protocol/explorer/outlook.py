"""What still fits into the time that is left, from what was measured so far, and what difference it could find.

    a matched control     one more training as long as the best measured one, with its measurement
    a second seed         the same once more: it takes the same time
    more samples          none: the proxy asks the same questions with the same seeds; but further checkpoints can be
                          measured, and each takes a measurement's time

Nothing here computes a statistic: see designs.py. All of it is worked out from the measurements' own records, so that
it can be told while an explorer works (`timer`, budget.json), when it hands in, and from outside (`attempt status`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.protocol.attempts.attempt import OUTCOME, Attempt
from opd.protocol.attempts.evidence import Evidence
from opd.protocol.clock import Instant
from opd.protocol.explorer.designs import FOLDER, Design
from opd.protocol.explorer.proxy import Pipeline, Proxy, pipelines
from opd.records.attempts import Stage
from opd.records.receipts import is_sealed
from opd.records.settings import Settings, read
from opd.records.tasks import Measure


class Outlook(Settings):
    """What fits, counted as if nothing else were done."""

    left_seconds: NonNegativeFloat
    given_seconds: NonNegativeFloat
    like: Pipeline | None
    """The training and measurement of the best score so far; null before the first."""
    shortest: Pipeline | None
    """The one that took the least."""
    trainings: NonNegativeInt
    """Such as `like`: each one a matched control, or a second seed."""
    shorter_trainings: NonNegativeInt
    """Such as `shortest`."""
    measurements: NonNegativeInt
    """Of checkpoints that are there already."""
    pair: tuple[NonNegativeInt, NonNegativeInt] | None
    """The proxies whose records say what a further pair could find; null before there are two."""
    detectable: NonNegativeFloat | None
    """Smallest true difference that such a pair finds four times in five, paired by question; null without a pair."""
    unpaired_detectable: NonNegativeFloat | None
    """The same from the scores' clustered errors alone."""

    def sentences(self) -> tuple[str, ...]:
        """For people: what is left, what fits, what it could find."""
        said = [f"{self.left_seconds:,.0f} s of {self.given_seconds:,.0f} s are left"]
        if self.like is None or self.shortest is None:
            return (*said, "nothing was measured yet, so what still fits is not known")
        said.append(f"your shortest training with its measurement took {self.shortest.seconds:,.0f} s")
        said.append(self.fits())
        return (*said, self.finds())

    def fits(self) -> str:
        """`that fits 1 training to step 40 with its measurement (1,759 s, as proxy 002), …`."""
        assert self.like is not None, "before the first score nobody knows what fits"
        like, shortest = self.like, self.shortest
        parts = [_trainings(self.trainings, like)]
        if shortest is not None and self.shorter_trainings > self.trainings:
            parts.append(f"or {_trainings(self.shorter_trainings, shortest)}")
        parts.append(
            f"or {_counted(self.measurements, 'measurement')} of checkpoints that you have "
            f"({like.measurement_seconds:,.0f} s each; the same checkpoint again draws the same samples)"
        )
        return f"that fits {', '.join(parts)}"

    def finds(self) -> str:
        """What difference a further run could find beside those that were measured."""
        often = "between two such runs is found four times in five, a smaller one less often"
        if self.detectable is not None and self.pair is not None:
            one, other = self.pair
            unpaired = "" if self.unpaired_detectable is None else f"; {self.unpaired_detectable:.3f} unpaired"
            return (
                f"a true difference of {self.detectable:.3f} {often} "
                f"(paired by question, from proxies {one:03d} and {other:03d}{unpaired})"
            )
        if self.unpaired_detectable is not None:
            return (
                f"a true difference of {self.unpaired_detectable:.3f} {often} "
                "(unpaired; a second measurement will show what pairing by question gains)"
            )
        return "what difference that could find is not known yet"


def outlook(
    *, left_seconds: float, given_seconds: float, done: Sequence[Proxy], design: Design | None, measure: Measure
) -> Outlook:
    """What fits into so many seconds after these measurements."""
    left = max(0.0, left_seconds)
    known = pipelines(done)
    scores = {one.number: one.mean for one in done if one.mean is not None}
    like = max(known, key=lambda one: rank(measure)(scores[one.proxy]), default=None)
    shortest = min(known, key=lambda one: one.seconds, default=None)
    return Outlook(
        left_seconds=round(left, 3),
        given_seconds=given_seconds,
        like=like,
        shortest=shortest,
        trainings=_fit(left, like.cost_seconds) if like else 0,
        shorter_trainings=_fit(left, shortest.cost_seconds) if shortest else 0,
        measurements=_fit(left, like.measurement_seconds) if like else 0,
        pair=(design.beside, design.after) if design and design.beside is not None else None,
        detectable=design.detectable if design else None,
        unpaired_detectable=design.unpaired_detectable if design else None,
    )


def rank(measure: Measure) -> Callable[[float], float]:
    """A score's place among others: the better, the greater."""
    return (lambda score: score) if measure.direction == "maximize" else (lambda score: -score)


def running_outlook(attempt: Attempt, at: Instant) -> Outlook | None:
    """Of the exploration that a living process is filling, from its files; None where there is none."""
    evidence = Evidence(attempt, at)
    running = evidence.running
    if running is None or running.place.stage not in {Stage.EXPLORE, Stage.SUBMISSION}:
        return None
    place = evidence.tries[Stage.EXPLORE][-1].place
    began = [one.at for one in evidence.log.events if one.actor == place.name and one.kind == "started"]
    if not began:
        return None
    contract = attempt.task.contract
    given = contract.budgets.explore_seconds
    return outlook(
        left_seconds=given - began[-1].seconds_until(at),
        given_seconds=given,
        done=_measured(place.partial),
        design=_designed(place.partial),
        measure=contract.proxy,
    )


def _measured(folder: Path) -> tuple[Proxy, ...]:
    return tuple(
        read(Proxy, place / OUTCOME) for place in sorted((folder / "proxy").glob("[0-9]*")) if is_sealed(place)
    )


def _designed(folder: Path) -> Design | None:
    last = max((folder / FOLDER).glob("[0-9]*.json"), default=None)
    return read(Design, last) if last else None


def _fit(left: float, each: float) -> int:
    """How often it fits; what takes no time is no measure of anything."""
    return int(left // each) if each > 0 else 0


def _trainings(count: int, like: Pipeline) -> str:
    to = f" to step {like.step}" if like.step is not None else ""
    use = ": a matched control or a second seed" if count == 1 else ": matched controls and second seeds"
    took = f"{like.cost_seconds:,.0f} s{' each' if count > 1 else ''}, as proxy {like.proxy:03d}"
    return f"{_counted(count, 'training')}{to} with its measurement ({took}){use if count else ''}"


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'s' if count > 1 else ''}"
