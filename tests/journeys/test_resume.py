"""SIGKILL at random moments, then --resume, again and again: the end is that of the run which nobody killed.

The processes are forked from one that has imported everything, so that a kill falls into the run and not into an
import; what they run is the command line.
"""

import json
import multiprocessing
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from opd.cli.main import run
from opd.models.load import find_model
from opd.records.files import tree
from opd.train.saved.checkpoint import Checkpoints

STEPS = 24
RECIPE = {
    "budget.steps": STEPS,
    "rollouts.prompts_per_step": 2,
    "rollouts.per_prompt": 2,
    "rollouts.limit_tokens": 16,
    "save.every": 2,
    "save.state_every": 4,  # rarer, so that some kills leave checkpoints beyond the state
    "save.keep": 3,
    "save.keep_best": 2,
}
TIMES = {"seconds", "peak_bytes"}


def command(out: Path, *more: str, resume: bool = False) -> list[str]:
    sets = [word for key, value in RECIPE.items() for word in ("--set", f"{key}={value}")]
    return ["train", "arith_tiny", "--out", str(out), "--quiet", *sets, *more, *(["--resume"] if resume else [])]


def result(out: Path) -> dict[str, Any]:
    """Every byte that two runs must share, and the metrics without what a clock says."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((out / "run.json").read_text())
    return {
        "folders": sorted(path.name for path in out.iterdir() if path.is_dir()),
        "checkpoints": {path.name: tree(path) for path in out.glob("checkpoint-*")},
        "optimizer": {path.parent.name: tree(path.parent)[path.name] for path in out.glob("state/*/*.safetensors")},
        "rollouts": tree(out / "rollouts"),
        "metrics": [{key: value for key, value in line.items() if key not in TIMES} for line in lines],
        "summary": {key: summary[key] for key in ("stop", "steps", "rows_seen", "checkpoints", "best")},
    }


@pytest.fixture(scope="module")
def processes() -> Any:
    """Where processes come from: a server that has torch and all of training in memory, and forks."""
    forkserver._forkserver._stop()  # one that another test started has nothing in memory
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["opd.cli.main", "opd.train.run", "opd.view.terminal.board"])
    return context


@pytest.fixture(scope="module")
def unbroken(processes: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The run that nobody kills, and how many seconds it took."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    for name in ("warm", "run"):  # the first also starts the server
        began = time.monotonic()
        process = processes.Process(target=run, args=(command(out.with_name(name)),))
        process.start()
        process.join(timeout=120)
        seconds = time.monotonic() - began
    return out, seconds


@pytest.fixture(scope="module")
def weights(processes: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """SHA-256 of the weights of every checkpoint that the unbroken run makes, also of those that it removes."""
    out = tmp_path_factory.mktemp("weights") / "run"
    process = processes.Process(target=run, args=(command(out, "--set", "save.keep=99"),))
    process.start()
    process.join(timeout=120)
    return {path.name: tree(path)["model.safetensors"] for path in out.glob("checkpoint-*")}


def killed(processes: Any, folder: Path, *, seconds: float, numbers: random.Random) -> Iterator[tuple[Path, bool]]:
    """Runs in new folders, one after the other, each killed until it ends; yields after every try.

    With each comes whether the run came to its end before the kill.
    """
    number = 0
    while True:
        number += 1
        out = folder / f"run-{number}"
        while not (out / "run.json").exists():
            resume = (out / "recipe.json").exists()
            process = processes.Process(target=run, args=(command(out, resume=resume),))
            process.start()
            process.join(timeout=numbers.uniform(0, seconds))
            process.kill()
            process.join()
            yield out, (out / "run.json").exists()


def check_kills(
    processes: Any, folder: Path, unbroken: tuple[Path, float], weights: dict[str, str], kills: int
) -> None:
    reference, seconds = unbroken
    expected = result(reference)
    numbers = random.Random(kills)
    counted = ended = 0
    for out, whole in killed(processes, folder, seconds=seconds, numbers=numbers):
        newest = Checkpoints(out).newest() if out.exists() else None
        if newest is not None:
            assert tree(newest)["model.safetensors"] == weights[newest.name]
            assert load_file(find_model(str(newest)) / "model.safetensors")
        counted += not whole
        if whole:
            ended += 1
            assert result(out) == expected
            if counted >= kills:
                break
    assert counted >= kills
    assert ended


def test_a_run_killed_at_four_random_moments_ends_as_if_nothing_had_been(
    processes: Any, tmp_path: Path, unbroken: tuple[Path, float], weights: dict[str, str]
) -> None:
    """E56, E58, E60, E63, E66."""
    check_kills(processes, tmp_path, unbroken, weights, kills=4)


@pytest.mark.slow
def test_runs_killed_at_fifty_random_moments_end_as_if_nothing_had_been(
    processes: Any, tmp_path: Path, unbroken: tuple[Path, float], weights: dict[str, str]
) -> None:
    check_kills(processes, tmp_path, unbroken, weights, kills=50)


def opd(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "opd", *arguments], capture_output=True, text=True, check=False)


def test_a_finished_run_says_so_and_is_left_alone(unbroken: tuple[Path, float]) -> None:
    """E68: exit code 0, for its last checkpoint is what was published."""
    out, _ = unbroken
    before = tree(out)
    done = opd("train", "--resume", "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"is finished, and was left as it is: {STEPS} steps" in done.stdout
    assert tree(out) == before


def test_without_a_recipe_the_runs_own_is_taken_and_its_budget_may_grow(
    unbroken: tuple[Path, float], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    subprocess.run(["cp", "-r", str(unbroken[0]), str(out)], check=True)
    done = opd("train", "--resume", "--out", str(out), "--set", f"budget.steps={STEPS + 2}")
    assert done.returncode == 0, done.stderr
    assert f"going on after step {STEPS}" in done.stderr
    assert json.loads((out / "run.json").read_text())["steps"] == STEPS + 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume"], "holds no run (no recipe.json): there is nothing to resume"),
        ([], "name a RECIPE, or --resume"),
    ],
)
def test_what_cannot_be_resumed_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = opd("train", "--out", str(tmp_path / "none"), *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_new_run_in_the_folder_of_another_is_told_of_resume(unbroken: tuple[Path, float]) -> None:
    done = opd(*command(unbroken[0]))
    assert done.returncode == 2
    assert "or go on with the run that it holds: --resume" in done.stderr


def test_a_damaged_last_checkpoint_of_a_finished_run_is_exit_code_1(
    unbroken: tuple[Path, float], tmp_path: Path
) -> None:
    """E68."""
    out = tmp_path / "run"
    subprocess.run(["cp", "-r", str(unbroken[0]), str(out)], check=True)
    with (out / f"checkpoint-{STEPS}" / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    done = opd("train", "--resume", "--out", str(out))
    assert done.returncode == 1
    assert "is damaged" in done.stderr
