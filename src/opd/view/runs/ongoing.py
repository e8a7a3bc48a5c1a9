"""What an attempt is at: of each try that was begun and not sealed, when it began and how long it was at work.

    events.jsonl   `began` NAME, by three clocks; `went_on` NAME, with what it had used; `ended`, with its seconds
    lease.json     when the process at work was last heard of, by the same clocks; each few seconds

A try has no receipt until it is sealed. Until then its time is what these two say, and unknown where they don't.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ongoing:
    """A try without a receipt."""

    began_utc: str | None
    seconds: float | None  # at work so far; None where it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    began_utc: str | None
    at: Mapping[str, Any]  # the instant from which seconds are counted on
    before_seconds: float | None
    ended_seconds: float | None = None


def ongoing(events: Iterable[Mapping[str, Any]], heard: Mapping[str, Any] | None) -> dict[str, Ongoing]:
    """By its name, `explore/attempt-001`, each try that the events begin; what is sealed since has its receipt.

    `heard` is the instant of the lease, None without one; then a try is counted up to the last event. A line of
    another shape says nothing.
    """
    begun: dict[str, _Begun] = {}
    last: Mapping[str, Any] = {}
    for event in events:
        at, data = (one if isinstance(one, Mapping) else {} for one in (event.get("at"), event.get("data")))
        last = at or last
        name = data.get("name") if event.get("kind") in {"began", "went_on"} else event.get("actor")
        if not isinstance(name, str):
            continue
        if event.get("kind") == "began":
            begun[name] = _Begun(began_utc=_text(at.get("utc")), at=at, before_seconds=0.0)
        elif event.get("kind") == "went_on":
            first = begun[name].began_utc if name in begun else _text(at.get("utc"))
            begun[name] = _Begun(began_utc=first, at=at, before_seconds=_number(data.get("before_seconds")))
        elif event.get("kind") == "ended" and name in begun:
            begun[name] = replace(begun[name], ended_seconds=_number(data.get("active_seconds")))
    until = heard or last
    return {name: Ongoing(began_utc=one.began_utc, seconds=_seconds(one, until)) for name, one in begun.items()}


def _seconds(one: _Begun, until: Mapping[str, Any]) -> float | None:
    """By the clock that stands still while the machine sleeps; by the calendar across a start of the machine."""
    if one.ended_seconds is not None:
        return one.ended_seconds
    clock = "monotonic" if one.at.get("boot_id") == until.get("boot_id") else "realtime"
    begin, end = _number(one.at.get(clock)), _number(until.get(clock))
    if one.before_seconds is None or begin is None or end is None:
        return None
    return one.before_seconds + max(0.0, end - begin)


def _number(value: object) -> float | None:
    """A finite number; a stranger's file may hold anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
