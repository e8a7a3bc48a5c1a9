"""`opd train`: what it says before step one, and where that is kept."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opd.cli.main import run
from opd.evaluate.benchmark import instructions
from opd.records.settings import read
from opd.train.ahead.plan import make_plan
from opd.train.recipe import Recipe


@pytest.fixture
def recipe(random_models: Path, tmp_path: Path) -> Path:
    """A recipe with something to say of everything: templates, braces, repeats, rows that are never seen, a clip."""
    teacher = tmp_path / "teacher"
    shutil.copytree(random_models / "teacher", teacher)
    template = teacher / "chat_template.jinja"
    template.write_text(template.read_text().replace("<think>", "<no_think>"))
    rows = [*({"problem": f"Compute {n}.", "answer": "1"} for n in range(9)), {"problem": "In {{1}}", "answer": "1"}]
    data = tmp_path / "problems.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]), encoding="utf-8")
    path = tmp_path / "recipe.toml"
    path.write_text(f"""
        student.model = "{random_models}/student"
        teacher.model = "{teacher}"
        data = {{ path = "{data}", repeats = "allow" }}
        rollouts = {{ prompts_per_step = 2, per_prompt = 2, limit_tokens = 4 }}
        objective.name = "k1_policy_gradient"
        optimizer.lr = 1e-3
        budget.steps = 1
        machine.device = "cpu"
    """)
    return path


def test_all_that_a_plan_says_without_a_rehearsal_is_said_before_step_one_and_kept(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """E35, E38, E61, E62: the difference of the templates among it."""
    plan = make_plan(read(Recipe, recipe), out=tmp_path, evaluations=instructions())
    out = tmp_path / "run"
    assert run(["train", str(recipe), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    before, _, _ = said.partition("step 1/1")
    for note in plan.notes:
        assert note in before
    assert json.loads((out / "run.json").read_text())["notes"] == list(plan.notes)
    for words in (
        "the chat templates of student (+) and teacher (-) differ",
        "<no_think>",
        "doubled braces",
        "1 of 11 problems (9.1%) repeat an earlier one",
        "2 of 11 rows",
        "data.prompt does not ask for \\boxed{}",
        "objective.clip = 0.2 never acts",
    ):
        assert any(words in note for note in plan.notes), words


def test_quietly_nothing_is_said_and_all_of_it_is_kept(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", str(recipe), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert any("templates" in note for note in json.loads((tmp_path / "run" / "run.json").read_text())["notes"])


def test_repeated_problems_are_exit_code_2_and_nothing_is_made(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """E62: unless the recipe allows them."""
    out = tmp_path / "run"
    assert run(["train", str(recipe), "--out", str(out), "--set", "data.repeats=refuse"]) == 2
    said = capsys.readouterr().err
    assert "row 10 asks what row 0 does ('Compute 0.'" in said
    assert len(said.splitlines()) == 1
    assert not out.exists()


def test_the_wall_clock_counts_from_the_start_of_the_process(recipe: Path, tmp_path: Path) -> None:
    """A process that has spent 500 s before the verb began, on imports or a slow disk, has spent them of its time."""
    out = tmp_path / "run"
    sets = ["--set", "budget.max_wall_seconds=510.0", "--set", "budget.steps=10000", "--quiet"]
    assert run(["train", str(recipe), "--out", str(out), *sets], began=time.monotonic() - 500) == 0
    summary = json.loads((out / "run.json").read_text())
    assert summary["stop"] == "wall_clock"
    assert 500 < summary["seconds"] < 515


def test_the_start_of_the_process_is_noted_before_anything_heavy_is_imported() -> None:
    """What comes after it in the process is counted; before it there is Python's own start."""
    code = "import sys, opd.cli; print([name for name in ('torch', 'click', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_rehearsal_is_made_when_asked_for_and_said(recipe: Path, tmp_path: Path, capsys) -> None:
    said = {}
    for name, flags in (("plain", []), ("rehearsed", ["--rehearse"]), ("not", ["--no-rehearse"])):
        assert run(["train", str(recipe), "--out", str(tmp_path / name), *flags]) == 0
        said[name] = capsys.readouterr()
    lines = {name: one.out + one.err for name, one in said.items()}
    assert "rehearsal: 2 steps of 4 tokens a rollout, the last in " in lines["rehearsed"]
    assert "rehearsal: " not in lines["plain"] + lines["not"]
