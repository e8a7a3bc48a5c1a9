"""`opd.open`: runs as objects with tables, and what they show of themselves."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opd
from opd.records.errors import AskedWrongly
from opd.records.files import append_lines, read_json, write_json
from opd.records.metrics import StepMetrics
from opd.records.rollout_table import table_path, write_table
from opd.records.rollouts import ScoredRollout
from opd.view.runs.folders import State
from opd.view.runs.objects import AttemptFolder, Run, ScoreFolder

Make = Callable[..., Path]


def test_to_import_opd_loads_nothing_else() -> None:
    program = """
import sys
before = set(sys.modules)
import opd
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["opd"]


def test_a_name_that_opd_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        opd.opne  # noqa: B018  # type: ignore[attr-defined]
    assert not hasattr(opd, "__path_of_nothing__")


def test_metrics_are_a_table_with_the_numbers_of_the_file(
    make_run: Make, metrics_of: Callable[[int], StepMetrics], tmp_path: Path
) -> None:
    run = opd.open(make_run(tmp_path / "t", steps=7))
    assert isinstance(run, Run)
    table = run.metrics()
    steps = [metrics_of(step) for step in range(1, 8)]
    assert table["step"].to_pylist() == [1, 2, 3, 4, 5, 6, 7]
    assert table["kl"].to_pylist() == [one.kl for one in steps]
    assert table["gap.mean"].to_pylist() == [one.gap.mean for one in steps]
    assert table["seconds.total"].to_pylist() == [one.seconds["total"] for one in steps]
    assert isinstance(table["kl"].to_numpy(), np.ndarray)
    assert table["reward"].to_pylist() == [None] * 7
    assert str(table["reward"].type) == "double", "so that tables of several runs can be put together"
    assert str(table["warnings"].type) == "list<item: string>"


def test_a_metric_that_comes_later_is_null_before(make_run: Make, tmp_path: Path) -> None:
    path = make_run(tmp_path / "t", steps=2)
    line = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])
    append_lines(path / "metrics.jsonl", [line | {"step": 3, "new": {"one": 1}}])
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "ne')
    assert opd.open(path).metrics()["new.one"].to_pylist() == [None, None, 1]  # type: ignore[union-attr]


def test_metrics_go_to_pandas_and_polars_where_they_are_installed(make_run: Make, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is each user's own choice")
    run = opd.open(make_run(tmp_path / "t", steps=3))
    assert isinstance(run, Run)
    assert isinstance(run.metrics().to_pandas(), pandas.DataFrame)


def test_a_run_before_its_first_step_has_an_empty_table(make_run: Make, tmp_path: Path) -> None:
    path = make_run(tmp_path / "t", ended=False)
    (path / "metrics.jsonl").unlink()
    run = opd.open(path)
    assert isinstance(run, Run)
    assert run.metrics().num_rows == 0
    assert run.state is State.LEFT


def test_an_object_follows_its_folder(make_run: Make, tmp_path: Path) -> None:
    path = make_run(tmp_path / "t", steps=2, ended=False)
    run = opd.open(str(path))
    assert isinstance(run, Run)
    last = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])
    append_lines(path / "metrics.jsonl", [last | {"step": 3}])
    assert run.metrics().num_rows == 3


def test_rollouts_of_a_step_are_a_table_and_a_missing_one_is_named(
    make_run: Make, scored_of: Callable[..., ScoredRollout], tmp_path: Path
) -> None:
    run = opd.open(make_run(tmp_path / "t"))
    assert isinstance(run, Run)
    with pytest.raises(AskedWrongly, match="no rollouts of step 3; there are none"):
        run.rollouts(3)
    scored = scored_of(response="73-9=64")
    for step in (9, 10):
        write_table(table_path(run.path, step), [scored])
    assert run.rollout_steps == [9, 10]
    assert run.rollouts(10)["token_ids"].to_pylist() == [list(scored.rollout.token_ids)]
    with pytest.raises(AskedWrongly, match="those of 2 steps, 9 to 10"):
        run.rollouts(3)


def test_samples_are_a_table_in_which_a_regraded_sample_stands_once(make_score: Make, tmp_path: Path) -> None:
    path = make_score(tmp_path / "s", [[1, 0], [1, 1]])
    lines = [json.loads(line) for line in (path / "samples.jsonl").read_text().splitlines()]
    failed = json.loads(json.dumps(lines[0]))
    failed["judgement"]["verdict"] = "grader_failed"
    (path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (failed, *lines)))
    score = opd.open(path)
    assert isinstance(score, ScoreFolder)
    table = score.samples()
    assert table["correct"].to_pylist() == [True, False, True, True]
    assert table["verdict"].to_pylist() == ["correct", "wrong", "correct", "correct"]
    assert np.mean(table["correct"].to_numpy(zero_copy_only=False)) == score.score.mean
    assert table["tokens"].to_pylist() == [20, 23, 21, 24]


def test_an_unfinished_score_says_how_far_it_came(make_score: Make, tmp_path: Path) -> None:
    path = make_score(tmp_path / "s", [[1, 0]])
    (path / "score.json").unlink()
    score = opd.open(path)
    assert isinstance(score, ScoreFolder)
    assert "left after 2 of 2 samples" in repr(score)
    with pytest.raises(AskedWrongly, match="left after 2 of 2 samples"):
        _ = score.score


def test_a_comparison_is_paired_by_question_and_positive_where_this_is_better(
    make_score: Make, tmp_path: Path
) -> None:
    right_a, right_b = [[1, 0], [0, 0], [0, 1], [1, 1]], [[1, 1], [1, 0], [0, 1], [1, 1]]
    a, b = make_score(tmp_path / "a", right_a), make_score(tmp_path / "b", right_b)
    score = opd.open(b)
    assert isinstance(score, ScoreFolder)
    found = score.comparison(a)
    each = np.mean(right_b, axis=1) - np.mean(right_a, axis=1)
    assert found.difference == pytest.approx(each.mean())
    assert found.record.stderr == pytest.approx(each.std(ddof=1) / np.sqrt(4))
    low, high = found.ci95 or (0, 0)
    assert low < found.difference < high
    assert "+0.250" in repr(found)
    assert found.distinguishable is False
    with pytest.raises(AskedWrongly, match="nowhere"):
        score.comparison(tmp_path / "nowhere")


def test_an_attempt_has_its_stages_in_order(make_attempt: Make, tmp_path: Path) -> None:
    path = make_attempt(tmp_path / "a", finals={90: 0.5, 120: 0.25}, report=True)
    (path / "report" / "attempt-002.partial").mkdir()
    attempt = opd.open(path)
    assert isinstance(attempt, AttemptFolder)
    table = attempt.stages()
    assert table["name"].to_pylist() == [
        "explore/attempt-001",
        "submission",
        "formal/attempt-001",
        "final/step-000090",
        "final/step-000120",
        "audit/attempt-001",
        "report/attempt-001",
        "report/attempt-002",
    ]
    assert table["outcome"].to_pylist()[-2:] == ["rendered", None]
    assert table["sealed"].to_pylist() == [True] * 7 + [False]
    assert "command__t__m__none" in repr(attempt)


def test_what_strangers_wrote_is_text_in_a_notebook(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>\u202e"
    run = make_run(tmp_path / "t")
    recipe = read_json(run / "recipe.json")
    write_json(run / "recipe.json", recipe | {"student": {"model": evil}})
    score = make_score(tmp_path / "s", [[1]], model=evil)
    for path in (run, score):
        shown = opd.open(path)._repr_html_()
        assert "&lt;img src=x" in shown
        assert "<img" not in shown
        assert "\u202e" not in shown


def test_a_wrong_path_is_a_value_error_that_says_what_is_there(make_run: Make, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "t")
    with pytest.raises(ValueError, match=r"is no run .*below it are"):
        opd.open(tmp_path)
