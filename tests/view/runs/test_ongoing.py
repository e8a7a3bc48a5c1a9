"""The time of what an attempt is at, by its events and its lease: unknown where they don't say, and never zero."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.records.files import append_lines, write_json
from opd.view.runs.folders import opened
from opd.view.runs.ongoing import Ongoing, ongoing
from opd.view.runs.summaries import summary

NAME = "explore/attempt-001"


def at(seconds: float, *, boot: str = "b", realtime: float | None = None) -> dict[str, Any]:
    """The machine slept for 1,000 seconds before 100: the calendar went on."""
    slept = 1000.0 if seconds >= 100 else 0.0
    real = 1e9 + seconds + slept if realtime is None else realtime
    return {"utc": f"at {seconds}", "realtime": real, "monotonic": seconds, "boottime": seconds, "boot_id": boot}


def event(kind: str, when: dict[str, Any], *, actor: str = "attempt", **data: Any) -> dict[str, Any]:
    return {"kind": kind, "actor": actor, "at": when, "data": data}


BEGAN = event("began", at(10), actor=NAME, name=NAME)


def test_a_try_is_at_work_from_its_beginning_until_its_holder_was_last_heard():
    assert ongoing([BEGAN], at(75)) == {NAME: Ongoing(began_utc="at 10", seconds=65.0)}


def test_sleep_is_not_counted_and_a_start_of_the_machine_is_counted_by_the_calendar():
    assert ongoing([BEGAN], at(110))[NAME].seconds == 100.0
    assert ongoing([BEGAN], at(3, boot="c", realtime=1e9 + 310))[NAME].seconds == 300.0


def test_what_went_on_has_what_it_had_used_and_began_when_it_first_did():
    again = event("went_on", at(50), actor=NAME, name=NAME, before_seconds=12.5)
    assert ongoing([BEGAN, again], at(60)) == {NAME: Ongoing(began_utc="at 10", seconds=22.5)}


def test_what_has_ended_has_what_it_said_and_without_a_lease_the_last_event_counts():
    ended = event("ended", at(40), actor=NAME, outcome="submitted", active_seconds=29.5)
    later = event("note", at(70))
    assert ongoing([BEGAN, ended], at(90))[NAME].seconds == 29.5
    assert ongoing([BEGAN, later], None)[NAME].seconds == 60.0


@pytest.mark.parametrize("broken", [None, {}, {"monotonic": "x"}, {"monotonic": True}, {"monotonic": float("nan")}])
def test_what_its_clocks_do_not_say_is_unknown(broken: Any):
    began = {**BEGAN, "at": broken}
    assert ongoing([began], at(75))[NAME].seconds is None
    assert ongoing([{}, {"kind": "began", "data": None}, {"kind": "ended", "actor": [], "at": 3}], None) == {}


def test_the_time_of_an_attempt_counts_what_it_is_at(make_attempt: Callable[..., Path], tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path / "a")
    sealed = summary(opened(attempt)).seconds
    assert sealed == 180.0  # three stages of a minute
    (attempt / "formal" / "attempt-002.partial").mkdir()
    assert summary(opened(attempt)).seconds is None
    append_lines(
        attempt / "events.jsonl", [event("began", at(10), actor="formal/attempt-002", name="formal/attempt-002")]
    )
    write_json(attempt / "lease.json", {"heard": at(75)})
    assert summary(opened(attempt)).seconds == sealed + 65
