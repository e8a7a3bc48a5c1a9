"""SIGKILL of the orchestrator in every stage of an attempt, by the real commands: nothing lost, nothing repeated."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.supervision.processes import command_of, numbers

OPD = [sys.executable, "-m", "opd"]
ONE_STEP = "STEPS = (9, 10, 100)"


def opd(*words: str | Path, code: int = 0) -> str:
    done = subprocess.run([*OPD, *map(str, words)], check=False, capture_output=True, text=True)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def events(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def sealed(folder: Path) -> dict[str, str]:
    """The digest of each receipt that the log names, by its folder."""
    log = [event["data"] for event in events(folder) if event["kind"] == "sealed"]
    return {data["name"]: data["receipt_sha256"] for data in log}


def kill_when(folder: Path, ready: Callable[[list[dict[str, Any]]], bool], *words: str | Path) -> None:
    """Starts a command, and kills it as soon as the log shows what is waited for."""
    process = subprocess.Popen([*OPD, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not ready(events(folder)):
        assert process.poll() is None, f"it ended by {process.returncode} before that"
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()


def has(kind: str, actor: str) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda log: any(event["kind"] == kind and event["actor"] == actor for event in log)


@pytest.mark.patient
def test_an_attempt_that_is_killed_in_every_stage_comes_to_the_result_of_one_that_is_not(
    toy_task: Callable[..., Path], tmp_path: Path
) -> None:
    """Acceptance: kill -9 in every stage; nothing complete is lost or done again (faults H6, H7, H16)."""
    script = tmp_path / "explorer.sh"
    script.write_text(f"setsid sleep 77 & sleep 1\nsed -i 's/{ONE_STEP}/STEPS = (5,)/' train.py\nsubmit\n")
    task = toy_task(explore_seconds=60)
    opd("attempt", "new", task, "--agent", f"bash {script}", "--runs", tmp_path / "runs")
    (folder,) = (tmp_path / "runs").iterdir()

    def check(state: str) -> dict[str, Any]:
        here = json.loads(opd("attempt", "status", folder, "--json"))
        assert here["state"] == state, here
        assert here["contradictions"] == []
        assert not any(command_of(pid) == "sleep 77" for pid in numbers())
        return here

    kill_when(folder, has("started", "explore/attempt-001"), "attempt", "run", folder)
    check("interrupted")
    opd("attempt", "run", folder, code=1)  # says that something was left, and does nothing
    opd("attempt", "resume", folder)
    here = check("interrupted")
    assert [str(one["stage"]) for one in here["due"]] == ["explore"]
    assert [(one["name"], one["outcome"]) for one in here["tries"]] == [("explore/attempt-001", "interrupted")]

    kill_when(folder, has("sealed", "submission"), "attempt", "explore", folder)
    opd("attempt", "resume", folder)
    here = check("submitted")
    assert [one["outcome"] for one in here["tries"]] == ["interrupted", "submitted", "sealed"]

    kill_when(folder, has("started", "formal/attempt-001"), "attempt", "run", folder)
    check("interrupted")
    opd("attempt", "resume", folder)
    here = check("submitted")
    assert here["due"][0]["because"] == "formal/attempt-001 was interrupted"

    kill_when(folder, has("started", "validation/step-000005"), "attempt", "run", folder)
    opd("attempt", "resume", folder)
    kill_when(folder, has("started", "final/step-000005"), "attempt", "run", folder)
    opd("attempt", "resume", folder)
    sealed = {
        event["data"]["name"]: event["data"]["receipt_sha256"]
        for event in events(folder)
        if event["kind"] == "sealed"
    }
    opd("attempt", "run", folder)

    here = check("reported")
    assert [(one["name"], one["outcome"]) for one in here["tries"]] == [
        ("explore/attempt-001", "interrupted"),
        ("explore/attempt-002", "submitted"),
        ("submission", "sealed"),
        ("formal/attempt-001", "interrupted"),
        ("formal/attempt-002", "completed"),
        ("validation/step-000005", "valid"),
        ("final/step-000005", "scored"),
        ("audit/attempt-001", "assessed"),
        ("report/attempt-001", "rendered"),
    ]
    assert here["official"]["samples"] == 2000
    after = {
        event["data"]["name"]: event["data"]["receipt_sha256"]
        for event in events(folder)
        if event["kind"] == "sealed"
    }
    assert sealed.items() <= after.items(), "what was sealed was done once"
    assert [event["kind"] for event in events(folder) if event["actor"] == "final/step-000005"] == [
        "began", "started", "went_on", "started", "ended", "sealed",
    ]  # fmt: skip
    opd("attempt", "verify", folder)
    victim = folder / "final" / "step-000005" / "evaluation" / "samples.jsonl"
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes().replace(b"3", b"4", 1))
    assert "samples.jsonl" in opd("attempt", "verify", folder, code=1)
