"""`opd judge`, as a person calls it, on a score that `opd evaluate` wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from opd.cli.main import run
from opd.evaluate.benchmark import find
from opd.evaluate.judges.prompt import answer_part, read_template
from opd.evaluate.questions import read_questions
from opd.records.files import append_lines

TEACHER = {"name": "Ann"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded student on 8 questions, two samples each; about half of its answers are wrong."""
    out = tmp_path_factory.mktemp("scores") / "student"
    asked = ["evaluate", "arith_tiny", "--model", "opd:arith_tiny/student", "--out", str(out), "--quiet"]
    assert run([*asked, "--questions", "8", "--samples", "2"]) == 0
    return out


def rejected(folder: Path) -> list[dict[str, Any]]:
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    return [one for one in samples if one["judgement"]["verdict"] in {"wrong", "unreadable", "no_answer"}]


@pytest.fixture
def replies(folder: Path, tmp_path: Path) -> Path:
    """Somebody's verdicts on what was rejected: the first is right after all, the others are not."""
    problems = {question.id: question.problem for question in read_questions(find("arith_tiny"))}
    lines: dict[str, dict[str, Any]] = {}
    for sample in rejected(folder):
        key = read_template(None).key(
            question=problems[sample["question"]],
            gold=sample["gold"],
            answer=answer_part(sample["response"], most_chars=4_000),
        )
        reply, verdict = ("B", "wrong") if lines else ("A", "correct")
        lines.setdefault(key, {"key": key, "judge": TEACHER, "reply": reply, "verdict": verdict, "parsed": "strict"})
    append_lines(tmp_path / "replies.jsonl", lines.values())
    return tmp_path / "replies.jsonl"


def score(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "score.json").read_text())
    return values


def test_a_recorded_judge_settles_a_folder_and_says_what_changed(
    folder: Path, replies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = len(rejected(folder))
    assert asked > 2  # or nothing would be judged
    out = tmp_path / "judged"
    assert run(["judge", str(folder), "--out", str(out), "--set", f"recorded.file={replies}"]) == 0
    said = capsys.readouterr().out
    assert f"judge:Ann was asked about {asked} of 16 samples" in said
    assert score(out)["correct"] > score(folder)["correct"]
    assert f"{score(folder)['mean']:.4f} before, {score(out)['correct']}/16" in said


def test_the_settings_may_stand_in_a_file(folder: Path, replies: Path, tmp_path: Path) -> None:
    file = tmp_path / "judge.toml"
    file.write_text('referred = ["cut_short"]\n[recorded]\nfile = "elsewhere.jsonl"\n')
    sets = ["--set", f"recorded.file={replies}", "--set", 'referred=["wrong"]']
    out = tmp_path / "judged"
    assert run(["judge", str(folder), "--out", str(out), "--judge", str(file), *sets]) == 0
    assert json.loads((out / "judge.json").read_text())["settings"]["referred"] == ["wrong"]


def test_a_judge_that_babbles_ends_in_one_line_without_a_score(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """H48: the embedded teacher can add, and is no judge."""
    template = tmp_path / "short.txt"
    template.write_text("{question}{gold}{answer}")
    sets = ["local.model=opd:arith_tiny/teacher", "local.limit_tokens=8", f"template={template}"]
    command = ["judge", str(folder), "--out", str(tmp_path / "out")]
    assert run([*command, *(word for one in sets for word in ("--set", one))]) == 1
    said = capsys.readouterr().err
    assert "could not be graded" in said
    assert "Traceback" not in said
    assert not (tmp_path / "out/score.json").exists()


@pytest.mark.parametrize(
    ("sets", "complaint"),
    [
        ([], "a judge needs one of the sections local, server, recorded"),
        (["local.model=nowhere/at/all"], "no such directory"),
        (["recorded.file=nowhere.jsonl"], "nowhere.jsonl does not exist"),
        (["recorded.fiel=x"], "did you mean 'file'?"),
        (
            ["server.url=http://127.0.0.1:1/v1", "server.model=m", "server.key_variable=OPD_NO_KEY"],
            "OPD_NO_KEY is not set",
        ),
        (["local.model=opd:arith_tiny/teacher", "template=nowhere.txt"], "judge template nowhere.txt"),
    ],
)
def test_a_judge_that_can_t_be_asked_is_one_line_and_leaves_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], sets: list[str], complaint: str
) -> None:
    out = tmp_path / "out"
    assert run(["judge", str(folder), "--out", str(out), *(word for one in sets for word in ("--set", one))]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert len(said.strip().splitlines()) == 1
    assert not out.exists()
