"""Whatever becomes of a sink, nothing becomes of the run: it is dropped, and that is recorded (H47)."""

import importlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from opd.records.events import Event
from opd.records.files import read_json, read_lines, tree
from opd.records.settings import validated
from opd.train.run import prepare, run


@pytest.mark.patient
@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        ("init", "Trouble: the dashboard is down"),
        ("log", "Trouble: the dashboard is down"),
        ("finish", "Trouble: the dashboard is down"),
        ("exit", "its process left with status 7"),
        ("crash", "its process was ended by signal 6 (Aborted)"),
    ],
)
def test_a_sink_that_breaks_is_dropped_with_a_line_and_the_run_is_as_without_it(
    make_recipe, tmp_path: Path, double, monkeypatch: pytest.MonkeyPatch, breaks: str, said: str
) -> None:
    """H47: a failed sink harms nothing, and its failure is itself recorded."""
    plain, out, warnings = tmp_path / "plain", tmp_path / "shown", []
    without = make_recipe()
    run(without, prepare(without, plain), plain)

    monkeypatch.setenv("BREAKS", breaks)
    recipe = make_recipe('sinks.to=["trackio"]')
    summary = run(recipe, prepare(recipe, out), out, warn=warnings.append)
    assert summary.steps == 3
    assert read_json(out / "run.json") == summary.resolved()
    assert not (out / "failure.json").exists()
    assert [one["loss"] for one in read_lines(out / "metrics.jsonl")] == [
        one["loss"] for one in read_lines(plain / "metrics.jsonl")
    ]
    weights = [tree(folder / "checkpoint-3")["model.safetensors"] for folder in (plain, out)]
    assert weights[0] == weights[1]

    (event,) = [validated(Event, one, source="events") for one in read_lines(out / "events.jsonl")]
    assert (event.event, event.sink) == ("sink_dropped", "trackio")
    assert warnings == [event.message]
    assert said in event.message
    assert "\n" not in event.message
    assert "metrics.jsonl has every line" in event.message
    if said.startswith("Trouble"):
        raised, cause = event.exceptions
        assert (raised.kind, raised.message) == ("trackio.Trouble", "the dashboard is down\nfor maintenance")
        assert (cause.kind, cause.errno_name) == ("ConnectionResetError", "ECONNRESET")
        assert "Traceback" in (out / "sinks" / "trackio.log").read_text()
    else:
        assert event.exceptions == ()


def test_the_double_really_breaks(double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKS", "log")
    trackio = importlib.import_module("trackio")
    run = trackio.init(project="p")
    run.log({}, step=1)
    with pytest.raises(trackio.Trouble, match="the dashboard is down"):
        run.log({}, step=2)
    monkeypatch.delitem(sys.modules, "trackio")


@pytest.mark.patient
def test_a_sink_that_hangs_holds_up_no_step_and_the_end_only_as_long_as_it_may(
    bare, double, monkeypatch: pytest.MonkeyPatch, until, is_gone
) -> None:
    """H47."""
    monkeypatch.setenv("BREAKS", "hang")
    followers = bare.followers("trackio", patience_seconds=0.5)
    followers.start(step=0)
    bare.write([bare.line(1)])
    until(lambda: double.steps == [1])
    process_id = followers.process_ids["trackio"]
    slowest = 0.0
    for step in range(2, 200):
        bare.write([bare.line(step)])
        began = time.monotonic()
        followers.look(step=step)
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 0.2, "a look is one system call; the rest is the machine's"
    time.sleep(1.0)  # by now it has the line that it hangs on
    began = time.monotonic()
    followers.finish()
    assert time.monotonic() - began < 10
    assert double.steps == [1]
    assert is_gone(process_id)
    (event,) = bare.events
    assert (event.step, event.exceptions) == (199, ())
    assert "it had not sent the rest 0 s after the run's end" in event.message


@pytest.mark.patient
def test_a_follower_whose_run_is_gone_ends_a_sink_that_hangs(
    bare, double, monkeypatch: pytest.MonkeyPatch, until, is_gone
) -> None:
    monkeypatch.setenv("BREAKS", "hang")
    followers = bare.followers("trackio", patience_seconds=0.0)
    followers.start(step=0)
    process_id = followers.process_ids["trackio"]
    bare.write([bare.line(1), bare.line(2)])
    until(lambda: double.notes)
    for one in followers._running:
        one.let_go()
    until(lambda: followers._running[0].process.poll() is not None)
    assert is_gone(process_id)
    followers.look(step=2)
    assert "ended by signal 14 (Alarm clock)" in bare.events[0].message


def test_a_wall_clock_that_has_run_out_leaves_a_sink_no_time(bare, double) -> None:
    followers = bare.followers("trackio")
    followers.start(step=0)
    began = time.monotonic()
    followers.finish(limit_seconds=-3.0)
    assert time.monotonic() - began < 10
    assert [event.event for event in bare.events] == ["sink_dropped"]


@pytest.mark.patient
def test_a_sink_that_is_killed_is_noticed_at_the_next_step_once(bare, double, until, is_gone) -> None:
    followers = bare.followers("trackio")
    followers.start(step=0)
    until(lambda: double.notes)
    followers.look(step=1)
    assert bare.events == []
    process_id = followers.process_ids["trackio"]
    os.kill(process_id, signal.SIGKILL)
    until(lambda: is_gone(process_id))
    followers.look(step=2)
    followers.look(step=3)
    followers.finish()
    (event,) = bare.events
    assert (event.step, bare.warnings) == (2, [event.message])
    assert "ended by signal 9 (Killed)" in event.message


def test_a_follower_that_can_not_even_start_is_dropped(bare, double) -> None:
    (bare.out / "sinks").write_text("a file where a folder should be")
    followers = bare.followers("trackio")
    followers.start(step=0)
    followers.finish()
    (event,) = bare.events
    assert event.exceptions[0].errno_name == "EEXIST"
    assert "it could not start" in event.message


def test_an_event_that_can_not_be_written_is_still_said(bare, double) -> None:
    (bare.out / "sinks").write_text("")
    (bare.out / "events.jsonl").mkdir()
    bare.followers("trackio").start(step=0)
    assert len(bare.warnings) == 1
