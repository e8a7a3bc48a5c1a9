"""Two teachers, as docs/teachers.md tells it: its rows, its recipe, and what the run says of each."""

import json
import re
from pathlib import Path

import pytest

from opd.cli.main import run as command
from opd.records.rollout_table import read_table

PAGE = Path(__file__).parents[2] / "docs" / "teachers.md"
SHORT = ("rollouts.prompts_per_step=4", "rollouts.per_prompt=2", "budget.steps=2", "machine.device=cpu")


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`runs/two` as the page's own program makes it, in a folder of its own."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, PAGE.name, "exec"), {})
    return tmp_path / "runs" / "two"


def test_the_pages_two_teachers_are_planned_trained_taken_up_again_and_scored(rows: Path, capsys) -> None:
    sets = [word for one in SHORT for word in ("--set", one)]
    assert command(["plan", "arith_two", *sets]) == 0
    said = capsys.readouterr().out
    assert "teacher terse's weights" in said
    assert "rows of each teacher: sentence 1,000, terse 1,000" in said
    out = rows / "run"
    assert command(["train", "arith_two", "--out", str(out), "--quiet", "--rehearse", *sets]) == 0
    longer = ["--set", "budget.steps=3", "--set", "teachers.terse.device=in_turn"]
    assert command(["train", "--resume", "--out", str(out), "--quiet", *longer]) == 0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [sum(one["rollouts"] for one in line["teachers"].values()) for line in lines] == [8, 8, 8]
    first = json.loads((rows / "rows.jsonl").read_text().splitlines()[0])
    assert first["problem"][-1].isdigit()
    for step in (1, 2, 3):
        for one in read_table(out / "rollouts" / f"step-{step:06d}.parquet"):
            prompt = one.rollout.prompt
            terse = prompt.teacher == "terse"
            assert prompt.problem.endswith(".") != terse
            assert (prompt.teacher_ids is not None) == terse
            if terse:
                assert len(prompt.teacher_ids) == len(prompt.token_ids) + 1  # the full stop
    capsys.readouterr()
    assert command(["show", "benchmark", str(rows / "terse.jsonl")]) == 0
    (rows / "terse.toml").write_text(capsys.readouterr().out)
    asked = [word for one in re.findall(r"'?(benchmark\.[^\s']+)", PAGE.read_text()) for word in ("--set", one)]
    few = ["--questions", "6", "--samples", "1", "--quiet"]
    model = str(out / "checkpoint-3")
    assert (
        command(["evaluate", str(rows / "terse.toml"), "--model", model, "--out", str(rows / "s"), *asked, *few]) == 0
    )
