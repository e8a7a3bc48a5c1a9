"""Ctrl-C, SIGKILL and a full disk: what was published is whole, and what wasn't does not look so."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opd.records.files import is_complete

OPD = [sys.executable, "-m", "opd"]


def wait_until(happens: Callable[[], bool], running: subprocess.Popen[str], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not happens():
        assert running.poll() is None, f"it ended by itself: {running.communicate()}"
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*OPD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_after_the_step_with_a_whole_checkpoint(
    tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "run"
    running = start("train", "arith_tiny", "--out", str(out), "--quiet")
    wait_until(lambda: lines(out / "metrics.jsonl") >= 2, running)
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "interrupted after step" in said
    assert "Traceback" not in said
    summary = json.loads((out / "run.json").read_text())
    assert summary["stop"] == "interrupted"
    assert summary["steps"] == lines(out / "metrics.jsonl") < 120
    assert is_complete(out / f"checkpoint-{summary['steps']}")


def test_a_second_interrupt_ends_at_once_and_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    out = tmp_path / "run"
    running = start("train", "arith_tiny", "--out", str(out), "--quiet", "--set", "rollouts.prompts_per_step=400")
    wait_until((out / "recipe.json").exists, running)
    time.sleep(0.5)  # somewhere in the middle of the long first step
    running.send_signal(signal.SIGINT)
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "Traceback" not in said
    assert not (out / "run.json").exists()
    assert not list(out.glob("checkpoint-*"))


def test_a_killed_evaluation_goes_on_to_the_same_rows_and_none_twice(tmp_path: Path) -> None:
    asked = ["evaluate", "arith_tiny", "--model", "opd:arith_tiny/student", "--questions", "120", "--samples", "2"]
    batch = ["--set", "machine.largest_batch=20", "--quiet"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*OPD, *asked, *batch, "--out", str(whole)], check=True, capture_output=True)
    running = start(*asked, *batch, "--out", str(killed))
    wait_until(lambda: lines(killed / "samples.jsonl") >= 40, running)
    running.kill()
    running.communicate()
    stood = lines(killed / "samples.jsonl")
    assert stood < 240, "it was killed too late to show anything"
    with (killed / "samples.jsonl").open("a") as file:
        file.write('{"question": "arith-pro')  # what a crash in the middle of a write leaves
    again = subprocess.run([*OPD, *asked, *batch, "--out", str(killed)], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert (killed / "samples.jsonl").read_text() == (whole / "samples.jsonl").read_text()
    scores = [json.loads((folder / "score.json").read_text()) for folder in (whole, killed)]
    for score in scores:
        score.pop("seconds")
    assert scores[0] == scores[1]


def test_a_full_disk_leaves_the_earlier_checkpoint_whole_and_says_so(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def small_files() -> None:  # a file may grow to 1 MB: tokens and metrics fit, the weights (1.35 MB) don't
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    command = [*OPD, "train", "arith_tiny", "--out", str(out), "--quiet", "--set", "budget.steps=1"]
    done = subprocess.run(
        command,
        preexec_fn=small_files,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 1, done.stderr
    assert "could not be saved" in done.stderr
    assert "no checkpoint was written before it" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(out.glob("checkpoint-*"))
    assert not (out / "run.json").exists()
