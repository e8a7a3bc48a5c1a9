"""A sink is shown what `metrics.jsonl` holds, whatever becomes of the run."""

import json
import os
import signal
import subprocess
import sys

import pytest

from opd.records.files import read_json


@pytest.mark.patient
def test_a_sink_gets_the_recipe_the_folders_name_and_every_number_by_step(bare, double) -> None:
    bare.show([bare.line(1), bare.line(2), bare.line(3)], "trackio")
    place = read_json(bare.out / "sinks" / "trackio.json")
    assert double.notes == [
        {"project": "tests", "name": f"one-{place['id']}", "resume": "allow", "config": bare.recipe},
        {"step": 1} | bare.written(1),
        {"step": 2} | bare.written(2),
        {"step": 3} | bare.written(3),
        "finished",
    ]
    assert (place["run"], place["sent_step"]) == ("one", 3)
    assert (bare.events, bare.warnings) == ([], [])


@pytest.mark.patient
def test_a_line_is_shown_while_the_run_goes_on_and_a_torn_one_when_it_is_whole(bare, double, until) -> None:
    followers = bare.followers("trackio")
    followers.start(step=0)
    text = json.dumps(bare.line(2)) + "\n"
    bare.write([bare.line(1)])
    with (bare.out / "metrics.jsonl").open("a") as file:
        file.write(text[:20])
    until(lambda: double.steps == [1])
    with (bare.out / "metrics.jsonl").open("a") as file:
        file.write(text[20:])
    until(lambda: double.steps == [1, 2])
    followers.finish()
    assert bare.events == []


@pytest.mark.patient
def test_a_resumed_run_stays_the_same_one_for_its_sink(bare, double) -> None:
    """And what can't be taken back is not sent twice: step 3 was made again after a crash."""
    bare.show([bare.line(1), bare.line(2), bare.line(3)], "trackio")
    (bare.out / "metrics.jsonl").unlink()
    bare.write([bare.line(1), bare.line(2)])
    again = bare.renamed()
    again.show([bare.line(3, loss=9.0), bare.line(4)], "trackio", step=2)
    first, second = (note for note in double.notes if "config" in note)
    assert first == second
    assert [note for note in double.notes if "step" in note] == [{"step": n} | bare.written(n) for n in (1, 2, 3, 4)]


@pytest.mark.patient
def test_a_sink_that_is_asked_for_later_or_was_dropped_gets_what_it_missed(
    bare, double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAKS", "init")
    bare.show([bare.line(1), bare.line(2)], "trackio")
    assert (double.steps, len(bare.events)) == ([], 1)
    monkeypatch.delenv("BREAKS")
    bare.show([bare.line(3)], "trackio", step=2)
    assert double.steps == [1, 2, 3]


@pytest.mark.patient
def test_the_end_of_a_run_that_was_killed_is_the_end_for_its_sink(bare, double, until, is_gone) -> None:
    """The follower has all lines by then, hands them on, and leaves by itself."""
    program = (
        "import sys, time; from pathlib import Path; from opd.train.followers import Followers;"
        "from opd.train.sink import SinkSettings;"
        "one = Followers(SinkSettings(to=('trackio',)), Path(sys.argv[1]), warn=print); one.start(step=0);"
        "print(one.process_ids['trackio'], flush=True); time.sleep(600)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(bare.out)], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        follower = int(process.stdout.readline())
        bare.write([bare.line(1)])
        until(lambda: double.steps == [1])
        for number in (signal.SIGINT, signal.SIGTERM):  # these are for the run
            os.kill(follower, number)
        bare.write([bare.line(2), bare.line(3)])
        process.kill()
    until(lambda: is_gone(follower))
    assert double.steps == [1, 2, 3]
    assert double.notes[-1] == "finished"
