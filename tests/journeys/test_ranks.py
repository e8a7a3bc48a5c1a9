"""`torchrun … -m opd train`: several processes, one run; Ctrl-C, a killed process, a refusal."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opd.records.files import is_complete, read_lines

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def start(out: Path, *arguments: str) -> subprocess.Popen[str]:
    """A run of two ranks in a session of its own, as a terminal would start it."""
    command = [*TORCHRUN, "-m", "opd", "train", "--out", str(out), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def lines(out: Path) -> list[dict]:
    path = out / "metrics.jsonl"
    return list(read_lines(path, torn_end=True)) if path.exists() else []


def wait_for_lines(out: Path, count: int, running: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while len(lines(out)) < count:
        assert running.poll() is None, f"it ended by itself: {running.communicate()}"
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.05)


def ranks_of(running: subprocess.Popen[str]) -> list[int]:
    """The processes that torchrun has started."""
    return [int(one) for one in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()]


def test_a_run_of_two_is_interrupted_goes_on_and_is_that_of_one(tmp_path: Path) -> None:
    out, alone = tmp_path / "two", tmp_path / "one"
    few = ("--set", "budget.steps=400")
    running = start(out, "arith_tiny", *few)
    wait_for_lines(out, 2, running)
    os.killpg(running.pid, signal.SIGINT)  # Ctrl-C reaches all, and torchrun hands it on once more
    _, said = running.communicate(timeout=90)
    assert running.returncode != 0
    assert said.count("interrupted after step") == 1
    assert "stop at once" in said
    summary = json.loads((out / "run.json").read_text())
    assert (summary["stop"], summary["machine"]["ranks"]) == ("interrupted", "2")
    made = summary["steps"]
    assert is_complete(out / f"checkpoint-{made}")

    one = [sys.executable, "-m", "opd", "train", "arith_tiny", *few, "--quiet", "--out"]
    shorter = ("--set", f"budget.steps={made}")
    subprocess.run([*one, str(alone), *shorter], check=True, capture_output=True)
    for found, expected in zip(lines(out), lines(alone), strict=True):
        for key in ("loss", "kl", "surprise", "gradient_norm", "mean_tokens", "rows_seen"):
            assert found[key] == pytest.approx(expected[key], rel=1e-3), key


def test_a_killed_rank_ends_the_run_and_the_other_says_which(tmp_path: Path) -> None:
    out = tmp_path / "run"
    running = start(out, "arith_tiny", "--set", "save.every=1")
    wait_for_lines(out, 2, running)
    os.kill(ranks_of(running)[1], signal.SIGKILL)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "opd: rank 1 is gone: its process" in said
    assert "what it has published is whole" in said
    newest = json.loads((out / "failure.json").read_text())["checkpoint"]
    assert is_complete(out / newest)
    assert not (out / "run.json").exists()


def test_a_refusal_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    running = start(tmp_path, "arith_tiny")
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1  # torchrun's own, whatever its processes say
    assert said.count("is not empty; a run never writes over another") == 1
    assert "exitcode  : 2" in said
