"""`--log json`: standard output is lines of JSON, and nothing else is said."""

import json
from pathlib import Path

import pytest

from opd.cli.main import run


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.split("\n") if line]


@pytest.fixture
def recipe(random_models: Path, tmp_path: Path) -> Path:
    data = tmp_path / "problems.jsonl"
    data.write_text("".join(json.dumps({"problem": f"Compute {n}.", "answer": "1"}) + "\n" for n in range(9)))
    path = tmp_path / "recipe.toml"
    path.write_text(f"""
        student.model = "{random_models}/student"
        teacher.model = "{random_models}/teacher"
        data.path = "{data}"
        rollouts = {{ prompts_per_step = 2, per_prompt = 2, limit_tokens = 4 }}
        objective.name = "k1_policy_gradient"
        optimizer.lr = 1e-3
        budget.steps = 2
        machine.device = "cpu"
    """)
    return path


def test_a_training_says_its_steps_and_its_end_as_they_stand_in_its_files(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(["train", str(recipe), "--out", str(out), "--log", "json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    events = lines(said.out)
    assert [one["event"] for one in events if one["event"] != "note"] == ["begin", "step", "step", "end"]
    steps = [{key: value for key, value in one.items() if key != "event"} for one in events if one["event"] == "step"]
    assert steps == lines((out / "metrics.jsonl").read_text())
    end = json.loads((out / "run.json").read_text())
    assert {key: events[-1][key] for key in end} == end
    notes = [one["message"] for one in events if one["event"] == "note"]
    assert any(str(note).startswith("sampler: ") for note in notes)
    assert set(end["notes"]) <= set(notes)

    assert run(["train", "--resume", "--out", str(out), "--log", "json"]) == 0
    (again,) = lines(capsys.readouterr().out)
    assert {key: again[key] for key in end} == end, "a run that was finished before"


def test_without_the_flag_standard_output_is_for_people(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the notes come before the first step, on standard error."""
    assert run(["train", str(recipe), "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("2 steps in ")
    assert said.err.index("sampler: ") < said.err.index("step 1/2")
    assert run(["train", str(recipe), "--out", str(tmp_path / "quiet"), "--quiet"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_an_evaluation_says_its_counts_and_its_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    asked = ["evaluate", "arith_tiny", "--model", "opd:arith_tiny/student", "--questions", "4", "--samples", "2"]
    assert run([*asked, "--out", str(out), "--log", "json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    events = lines(said.out)
    score = json.loads((out / "score.json").read_text())
    assert {key: events[-1][key] for key in score} == score
    counted = [one for one in events if one["event"] == "samples"][-1]
    assert (counted["done"], counted["asked"], counted["correct"]) == (8, 8, score["correct"])


def test_asked_wrongly_nothing_is_said_on_standard_output(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["train", str(recipe), "--out", str(tmp_path / "run"), "--log", "json", "--set", "optimizer.lr=-1"]
    assert run(asked) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "optimizer.lr" in said.err
