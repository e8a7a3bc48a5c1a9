"""A run in a line, against the files it was made of."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from opd.records.failures import failure
from opd.records.files import write_json
from opd.records.metrics import StepMetrics
from opd.records.scores import Score
from opd.view.runs.folders import State, find, opened
from opd.view.runs.summaries import Summary, checkpoints, summaries, summary

Make = Callable[..., Path]


def listed(root: Path) -> dict[str, Summary]:
    return {one.name: one for one in summaries(find([root]))}


def test_a_finished_training_says_how_it_ended(make_run: Make, tmp_path: Path) -> None:
    said = summary(opened(make_run(tmp_path / "t")))
    assert (said.state, said.step, said.asked, said.seconds) == (State.FINISHED, 12, 12, 34.5)
    assert said.said == "ended by steps after step 12 of 12"
    assert said.recipe["optimizer.lr"] == 6e-4


def test_a_training_has_its_teachers_model_or_the_names_of_several(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t")
    assert summary(opened(run)).teacher == "opd:arith_tiny/teacher"
    recipe = json.loads((run / "recipe.json").read_text())
    del recipe["teacher"]
    assert summary(opened(rewritten(run, recipe))).teacher is None
    served = {"urls": ["http://127.0.0.1:1"], "model": "x"}
    several = recipe | {"teachers": {"math": {"model": "a"}, "code": {"model": "b", "served": served}}}
    assert summary(opened(rewritten(run, several))).teacher == "math, code"


def rewritten(run: Path, recipe: dict) -> Path:
    (run / "recipe.json").write_text(json.dumps(recipe))
    return run


def test_a_killed_training_says_where_and_the_seconds_of_its_steps(
    make_run: Make, metrics_of: Callable[[int], StepMetrics], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "t", steps=5, ended=False)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "loss"')
    said = summary(opened(run))
    assert (said.state, said.step, said.asked) == (State.LEFT, 5, 12)
    assert said.said == "its process was killed after step 5; --resume goes on"
    assert said.seconds == pytest.approx(sum(metrics_of(step).seconds["total"] for step in range(1, 6)))
    assert summary(opened(run), counts_seconds=False).seconds is None


@pytest.mark.parametrize(
    ("error", "words", "state"),
    [
        (
            OSError(28, "No space left on device", "x"),
            "broke in step 3 (save): errno 28, ENOSPC: OSError",
            State.FAILED,
        ),
        (KeyboardInterrupt("SIGTERM"), "ended by SIGTERM in step 3 (save)", State.INTERRUPTED),
        (ValueError("one\ntwo"), "broke in step 3 (save): ValueError: one", State.FAILED),
    ],
)
def test_a_broken_training_says_what_broke(
    make_run: Make, tmp_path: Path, error: BaseException, words: str, state: State
) -> None:
    run = make_run(tmp_path / "t", steps=2, ended=False)
    record = failure(error, phase="save", step=3, seconds=8.0, checkpoint=None, state=None)
    write_json(run / "failure.json", record.resolved())
    said = summary(opened(run))
    assert said.said.startswith(words)
    assert "two" not in said.said
    assert (said.state, said.seconds) == (state, 8.0)


def test_a_training_has_the_score_of_its_newest_checkpoint_by_digest_and_number(
    make_run: Make, make_score: Make, score_record: Callable[[Path], Score], tmp_path: Path
) -> None:
    """H26: 100 comes after 9, whatever was written last; a score of another run's checkpoint is not its own."""
    run = make_run(tmp_path / "t", checkpoints=(9, 10, 100))
    other = make_run(tmp_path / "u", checkpoints=(200,))
    moved = tmp_path / "elsewhere"
    shutil.copytree(run / "checkpoint-100", moved)  # by digest: the place does not matter
    newest = make_score(tmp_path / "s" / "100", [[1, 1], [1, 0]], model=moved)
    make_score(tmp_path / "s" / "9", [[0, 0], [1, 0]], model=run / "checkpoint-9")
    make_score(tmp_path / "s" / "start", [[0, 0], [0, 0]])
    found = listed(tmp_path)
    score = score_record(newest)
    assert (found["t"].mean, found["t"].stderr, found["t"].ci95) == (0.75, score.stderr, score.ci95)
    assert found["t"].scored == f"checkpoint-100 on {score.benchmark}"
    assert found["u"].mean is None, f"none of the scores is of {other.name}"
    assert [step for step, _ in checkpoints(run)] == [9, 10, 100]


def test_a_checkpoint_that_is_gone_is_known_by_its_place(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t", checkpoints=(6, 12))
    make_score(tmp_path / "s", [[1], [1]], model=run / "checkpoint-6")
    shutil.rmtree(run / "checkpoint-6")
    assert listed(tmp_path)["t"].scored == "checkpoint-6 on arith_tiny"
    write_json(run / "checkpoint-6" / ".complete", {"files": {"config.json": "ff" * 32}})  # another one since
    assert listed(tmp_path)["t"].scored is None


def test_a_half_made_checkpoint_is_none(make_run: Make, tmp_path: Path) -> None:
    """H24."""
    run = make_run(tmp_path / "t", checkpoints=(6,))
    (run / "checkpoint-12").mkdir()
    (run / "checkpoint-18.partial").mkdir()
    (run / "checkpoint-x").mkdir()
    assert [step for step, _ in checkpoints(run)] == [6]


def test_an_unfinished_score_counts_its_samples_and_has_no_mean(make_score: Make, tmp_path: Path) -> None:
    folder = make_score(tmp_path / "s", [[1, 0], [1, 1]])
    (folder / "score.json").unlink()
    lines = (folder / "samples.jsonl").read_text().splitlines(keepends=True)
    (folder / "samples.jsonl").write_text("".join(lines[:3]) + lines[3][:20])
    said = summary(opened(folder))
    assert (said.state, said.step, said.asked, said.mean) == (State.LEFT, 3, 4, None)
    assert said.said == "left after 3 of 4 samples of arith_tiny"


def test_an_attempt_has_the_best_of_its_finals_and_of_equals_the_earlier(make_attempt: Make, tmp_path: Path) -> None:
    said = summary(opened(make_attempt(tmp_path / "a", finals={60: 0.5, 90: 0.7, 120: 0.7, 150: None})))
    assert (said.step, said.mean) == (90, 0.7)
    assert said.scored == "step 90, the best of 3 on b"
    assert said.seconds == 7 * 60.0


def test_an_attempt_without_a_score_has_none_and_never_zero(make_attempt: Make, tmp_path: Path) -> None:
    said = summary(opened(make_attempt(tmp_path / "a", finals={60: None})))
    assert (said.step, said.mean, said.said) == (None, None, "final/step-000060 scored")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("recipe.json", "{"),
        ("recipe.json", "[]"),
        ("run.json", '{"stop": "steps"}'),
        ("run.json", "\x00"),
        ("metrics.jsonl", '{"step": "many"}\n'),
    ],
)
def test_a_damaged_run_says_so_and_hides_no_other(make_run: Make, tmp_path: Path, name: str, text: str) -> None:
    make_run(tmp_path / "whole")
    (make_run(tmp_path / "bad") / name).write_text(text)
    found = listed(tmp_path)
    assert found["whole"].state is State.FINISHED
    assert found["bad"].state is State.DAMAGED
    assert found["bad"].trouble


def test_a_damaged_score_belongs_to_no_training(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t")
    bad = make_score(tmp_path / "s", [[1]], model=run / "checkpoint-12")
    values = json.loads((bad / "score.json").read_text()) | {"mean": "high"}
    (bad / "score.json").write_text(json.dumps(values))
    found = listed(tmp_path)
    assert found["s"].state is State.DAMAGED
    assert found["t"].mean is None
