"""A run that somebody is at work on is seen to grow, and one whose process was killed is not shown as running."""

import json
import subprocess
import sys
import time

from tests.view.server.asking import served

AT_WORK = """
import sys, json
from pathlib import Path
from opd.records.files import alone, append_lines
run = Path(sys.argv[1])
with alone(run):
    print("locked", flush=True)
    for line in sys.stdin:
        append_lines(run / "metrics.jsonl", [json.loads(line)])
        print("written", flush=True)
"""


def follow(ask, version, id_):
    """The version at which the run is seen to have changed."""
    while True:
        told = ask(f"/api/events?since={version}").json()
        if id_ in told["changed"]:
            return told["version"]
        assert not told["all"]
        time.sleep(0.05)


def test_a_living_run_grows_before_the_eyes_and_a_killed_one_is_left(tmp_path, make_train, metrics_of):
    run = make_train(tmp_path / "run", steps=2)
    command = [sys.executable, "-c", AT_WORK, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "locked\n"
        with served(tmp_path) as ask:
            listed = ask("/api/runs").json()
            (row,) = listed["runs"]
            assert (row["state"], row["step"]) == ("running", 2)
            version = listed["version"]
            for step in (3, 4):
                writer.stdin.write(json.dumps(metrics_of(step).resolved()) + "\n")
                writer.stdin.flush()
                assert writer.stdout.readline() == "written\n"
                version = follow(ask, version, row["id"])
                grown = ask(f"/api/runs/{row['id']}/metrics?from={step - 1}").json()
                assert (grown["last"], grown["buckets"]["first"]) == (step, [step])
                assert grown["series"]["kl"]["mean"] == [metrics_of(step).kl]
            assert ask.rows()["run"]["state"] == "running"
            writer.kill()  # as the kernel does when memory is short: nothing is written about it (faults H6)
            writer.wait()
            version = follow(ask, version, row["id"])  # no file changed; nobody holds the lock any more
            assert ask.rows()["run"]["state"] == "left"
            assert ask(f"/api/runs/{row['id']}").json()["row"]["step"] == 4


def test_an_evaluation_that_is_at_work_is_running(tmp_path, make_score):
    score = make_score(tmp_path / "score")
    (score / "score.json").unlink()
    with subprocess.Popen(
        [sys.executable, "-c", AT_WORK, str(score)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with served(tmp_path) as ask:
            row = ask.rows()["score"]
        holder.kill()
    assert (row["state"], row["step"], row["mean"]) == ("running", 6, None)
