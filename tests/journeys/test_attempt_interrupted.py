"""Ctrl-C of `opd attempt run`, as a terminal sends it: the stage at hand ends as it would have, and `run` goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.protocol.stages.conftest import write_toy_task

OPD = [sys.executable, "-m", "opd"]
EXPLORER = "sleep 4\nsed -i 's/STEPS = (9, 10, 100)/STEPS = (5,)/' train.py\nsubmit\n"
TRAINING = "#!/usr/bin/env bash\nset -euo pipefail\nsleep 4\npython3 -I train.py\n"


def opd(*words: str | Path) -> str:
    return subprocess.run([*OPD, *map(str, words)], check=True, capture_output=True, text=True).stdout


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def interrupted_in(folder: Path, name: str) -> str:
    """What `opd attempt run` says at its end, after one Ctrl-C to its whole group in the midst of a try."""
    running = subprocess.Popen(
        [*OPD, "attempt", "run", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 120
    while not any(event["kind"] == "started" and event["actor"] == name for event in events(folder)):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until, f"{name} did not start"
        time.sleep(0.02)
    time.sleep(1.0)  # in the midst of it
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "Traceback" not in said
    return said


def test_ctrl_c_lets_the_stage_end_as_it_would_have_and_run_goes_on(tmp_path: Path) -> None:
    task = write_toy_task(tmp_path / "task", {"explore_seconds": 60}, **{"run.sh": TRAINING})
    script = tmp_path / "explorer.sh"
    script.write_text(EXPLORER)
    opd("attempt", "new", task, "--agent", f"bash {script}", "--runs", tmp_path / "runs")
    (folder,) = (tmp_path / "runs").iterdir()

    def come_to() -> tuple[str, list[tuple[str, str]]]:
        here = json.loads(opd("attempt", "status", folder, "--json"))
        assert here["contradictions"] == []
        return here["state"], [(one["name"], one["outcome"]) for one in here["tries"]]

    said = interrupted_in(folder, "explore/attempt-001")
    assert "stopping after this stage; once more to end it, too (an exploration as cancelled, for good" in said
    assert f"stopped; `opd attempt run {folder}` goes on, with formal" in said
    explored = [("explore/attempt-001", "submitted"), ("submission", "sealed")]
    assert come_to() == ("submitted", explored)

    said = interrupted_in(folder, "formal/attempt-001")
    assert f"stopped; `opd attempt run {folder}` goes on, with validation" in said
    assert come_to() == ("replayed", [*explored, ("formal/attempt-001", "completed")])
    order = [event["actor"] for event in events(folder) if event["kind"] == "sealed"]
    assert order == ["submission", "explore/attempt-001", "formal/attempt-001"], "nothing was done twice"
    opd("attempt", "verify", folder)
