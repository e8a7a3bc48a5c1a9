"""`opd demo`, as a stranger runs it, with a quarter of the steps."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("demo") / "demo"
    command = [sys.executable, "-m", "opd", "demo", "--out", str(folder), "--steps", "30", "--no-attempt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_thirty_steps_gain_more_than_five_standard_errors(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    comparison = json.loads((demo[0] / "comparison.json").read_text())
    assert 0.42 <= comparison["mean_a"] <= 0.53
    assert comparison["difference"] > 0.10
    assert comparison["difference"] > 5 * comparison["stderr"]
    assert comparison["distinguishable"] is True


def test_the_teacher_is_better_than_the_student_will_be(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    teacher = json.loads((demo[0] / "scores" / "teacher" / "score.json").read_text())
    comparison = json.loads((demo[0] / "comparison.json").read_text())
    assert teacher["mean"] >= 0.95 > comparison["mean_b"]


def test_the_demo_says_what_it_is_not_and_where_the_page_is(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = demo
    assert "artificially degraded sibling" in done.stdout
    assert str(folder / "report.html") in done.stdout
    assert "opd train arith_gap" in done.stdout


def test_the_page_stands_alone_and_shows_the_numbers_of_its_files(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, _ = demo
    page = (folder / "report.html").read_text()
    score = json.loads((folder / "scores" / "step-30" / "score.json").read_text())
    assert f"{score['mean']:.3f}" in page
    assert f"{score['stderr']:.4f}" in page
    assert f"{score['stderr_naive']:.4f}" in page
    assert "<script" not in page
    assert 'src="http' not in page


def test_every_checkpoint_of_the_demo_is_marked_whole(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    from opd.records.files import COMPLETE, sha256

    checkpoints = sorted((demo[0] / "train").glob("checkpoint-*"))
    assert [path.name for path in checkpoints] == ["checkpoint-16", "checkpoint-24", "checkpoint-30", "checkpoint-8"]
    for checkpoint in checkpoints:
        named = json.loads((checkpoint / COMPLETE).read_text())["files"]
        assert {name: sha256(checkpoint / name) for name in named} == named
        assert "model.safetensors" in named
