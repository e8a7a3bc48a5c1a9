"""`opd task`: what a person sees, and the exit codes."""

import json
from pathlib import Path

import pytest

from opd.cli.main import run
from opd.records.trees import entries, tree_digest


def test_the_tasks_that_ship_are_listed_with_what_they_are_about(capsys):
    assert run(["task", "list"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines.keys() >= {"arith_tiny", "opd_math_1p5b"}
    assert "1.5B math reasoner" in lines["opd_math_1p5b"]


def test_the_contract_of_a_task_is_shown_to_a_person(capsys):
    assert run(["task", "show", "opd_math_1p5b"]) == 0
    shown = capsys.readouterr().out
    for words in (
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B@ad9f0ae0864d7fbcd1cd905e3c6c5b069cc8b562",
        "43,200 s (12 h)",
        "60 questions × 32 = 1,920",
        "checkpoints/checkpoint-*",
        "820/1920 = 0.427083 ± 0.051615",
        "can't see               the questions of aime24_25_at32",
        "Reconstructing the final questions",
    ):
        assert words in shown, words
    assert not [line for line in shown.splitlines() if line != line.rstrip()]


def test_the_contract_of_a_task_is_shown_to_a_program(capsys):
    assert run(["task", "show", "arith_tiny", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    sections = {one["title"]: {row["name"]: row["value"] for row in one["rows"]} for one in said["sections"]}
    assert (said["kind"], said["name"]) == ("opd", "opd/arith_tiny")
    assert sections["budgets"]["exploration"] == "420 s (7 min)"
    assert sections["phase formal"]["$MAX_WALL_TIME_SECONDS"] == "150"


def test_a_package_of_the_public_layout_is_shown(shared, capsys):
    assert run(["task", "show", str(shared / "cases/foreign_task")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("example/toy-sort-distill (AI4AI-Bench)\n")
    assert "data/final              mounted in score alone" in shown
    assert "disagreements" not in shown  # there are none


def test_a_task_is_begun_linted_built_and_linted_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["task", "new", "acme/sums"]) == 0
    assert run(["task", "lint", "sums"]) == 0
    assert run(["task", "build", "sums", "--out", "package"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"digest {tree_digest(entries(Path('package')))}"
    assert run(["task", "lint", "package"]) == 0
    assert run(["task", "build", "sums", "--out", "package"]) == 2  # never overwritten
    assert run(["task", "new", "acme/sums"]) == 2
    assert run(["task", "new", "acme/sums", "--from", "package", "--out", "again"]) == 0
    assert run(["task", "lint", "again"]) == 0


def test_a_finding_is_a_line_with_its_place_and_exit_code_1(tmp_path, capsys):
    assert run(["task", "new", "acme/sums", "--out", str(tmp_path / "sums")]) == 0
    file = tmp_path / "sums/task.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("most = 3", "most = 9"), encoding="utf-8")
    line = file.read_text(encoding="utf-8").splitlines().index("most = 9") + 1
    capsys.readouterr()
    assert run(["task", "lint", str(tmp_path / "sums")]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"task.toml:{line}: loose-artifacts: most = 9")
    assert captured.err.endswith(f"opd: 1 findings in {tmp_path / 'sums'}\n")
    assert run(["task", "lint", str(tmp_path / "sums"), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["rule"], finding["path"], finding["line"]) == ("loose-artifacts", "task.toml", line)


def test_what_was_not_checked_is_said(tmp_path, monkeypatch, shared, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["task", "lint", "opd_math_1p5b"]) == 0
    assert "not checked: aime24.jsonl is not at hand" in capsys.readouterr().err
    assert run(["task", "lint", "opd_math_1p5b", "--data", str(shared / "data")]) == 0
    assert "not checked" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["show", "no_such_task"],
        ["lint", "no_such_task"],
        ["build", "no_such_task", "--out", "x"],
        ["new", "no organisation"],
        ["new", "acme/sums", "--from", "no_such_task"],
    ],
)
def test_a_name_that_is_none_is_one_line_and_exit_code_2(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["task", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
