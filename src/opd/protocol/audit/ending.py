"""How an exploration came to its end: the time that was left, what still ran, and whether the device was idle."""

from dataclasses import dataclass

from opd.protocol.audit.evidence import Asked, Evidence, ExploreTry
from opd.protocol.audit.wording import seconds
from opd.protocol.explorer.proxy import pipelines
from opd.protocol.supervision.device import IDLE_SHARE, Second
from opd.records.attempts import Explored
from opd.records.audits import Pointer

_WINDOW_SECONDS = 30.0  # before the end, that tell whether the device was at work
_TOOLS = ("/opd/bin/", "fast-eval", "submit", "no-candidate", "timer")  # of the desk: no work of the device's


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """All that is known of it."""

    left_seconds: float | None
    pipeline_seconds: float | None  # the least that a training with its measurement took
    pipeline: str | None  # which one that was
    idle: bool | None  # None: not known
    idle_because: str | None
    processes: tuple[str, ...]  # command lines that ran besides what ended it
    acknowledged: bool  # it was told what would still fit, and was taken at its word that it knew
    evidence: tuple[Pointer, ...]


def ending_of(evidence: Evidence, one: ExploreTry) -> Ending:
    """The end of this exploration."""
    handed = evidence.submission
    facts = handed.facts if handed and one.outcome == Explored.SUBMITTED else None
    evidence_of = [held.at(pointer) for held, pointer in ((facts, "/remaining_seconds"),) if held]
    left = facts.value.remaining_seconds if facts else None
    if left is None and one.facts:
        left = max(0.0, one.facts.value.given_seconds - one.facts.value.seconds)
        evidence_of.append(one.facts.at("/seconds"))
    if one.facts:
        evidence_of.append(one.facts.at("/shortest_pipeline_seconds"))
    if one.seconds:
        evidence_of.append(one.seconds.at(f"line:{len(one.seconds.value)}"))
    processes = facts.value.processes if facts else (one.facts.value.left_processes if one.facts else ())
    others = tuple(command for command in processes if not any(tool in command for tool in _TOOLS))
    idle, because = _idle(evidence, one, others)
    asked = one.asked.value if one.asked else ()
    return Ending(
        left_seconds=left,
        pipeline_seconds=one.facts.value.shortest_pipeline_seconds if one.facts else None,
        pipeline=_shortest(one),
        idle=idle,
        idle_because=because,
        processes=others,
        acknowledged=any(_submitted_with_time_left(ask) for ask in asked),
        evidence=tuple(evidence_of),
    )


def _submitted_with_time_left(ask: Asked) -> bool:
    """Whether this ask was accepted: a refused one, and one that only checks, submits nothing."""
    asked = ask.arguments
    return (
        ask.command == "submit"
        and ask.exit_code == 0
        and bool(asked.get("with_time_left")) > bool(asked.get("check"))
    )


def _idle(evidence: Evidence, one: ExploreTry, others: tuple[str, ...]) -> tuple[bool | None, str]:
    """Whether the device did nothing when it ended: by its ledger since the last measurement, else by what ran.

    A processor is the explorer's own tool as well as its device; there only what ran tells.
    """
    last = _since_measurement(one)
    if last and any(second.gpus for second in last):
        length = max(1.0, last[-1].monotonic - last[0].monotonic)
        busy = sum(second.busy_share for second in last) / len(last)
        said = (
            f"in the last {seconds(round(length))} after its last measurement the device was {100 * busy:.0f} % busy"
        )
        return busy < IDLE_SHARE, said
    own = " ".join(evidence.identity.value.command)
    strange = [command for command in others if command != own and command not in own]
    if strange:
        return None, "no second of the device was seen after its last measurement, and something else still ran"
    return True, "after its last measurement nothing ran but the explorer's own program"


def _shortest(one: ExploreTry) -> str | None:
    """The training that was measured the soonest, in words."""
    found = pipelines([measured.facts.value for measured in one.measured])
    if not found:
        return None
    least = min(found, key=lambda pipeline: pipeline.seconds)
    measuring = seconds(round(least.measurement_seconds))
    step = f", step {least.step}" if least.step is not None else ""
    return (
        f"its shortest training with its measurement is that of proxy {least.proxy:03d} ({least.checkpoint}{step}): "
        f"{seconds(round(least.seconds))}, {measuring} of them for the measurement"
    )


def _since_measurement(one: ExploreTry) -> tuple[Second, ...]:
    """The last seconds, up to half a minute of them, after the end of the last measurement."""
    found = one.seconds.value if one.seconds else ()
    if not found:
        return ()
    last = max((place for place, second in enumerate(found) if second.evaluating), default=-1)
    end = found[-1].monotonic
    return tuple(second for second in found[last + 1 :] if end - second.monotonic <= _WINDOW_SECONDS)
