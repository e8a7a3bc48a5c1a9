"""`opd grade`, as a person or a program calls it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opd.cli.grade import grade
from opd.cli.main import run
from opd.grading.identity import identity
from opd.records.errors import AskedWrongly

ROWS = [
    {"id": "right", "response": r"So it is $\boxed{\frac{6}{8}}$.", "gold": r"\frac34"},
    {"id": "wrong", "response": r"\boxed{5}", "gold": "6"},
    {"id": "none", "response": "It is 6.", "gold": "6"},
    {"id": "中文", "response": r"\boxed{\text{椭圆}}", "gold": r"\text{椭圆}"},
]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(grade, [str(argument) for argument in arguments])


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_standard_output_has_a_line_for_each_response_and_nothing_else(tmp_path: Path) -> None:
    result = call(write(tmp_path / "in.jsonl", ROWS))
    assert result.exit_code == 0
    found = lines(result.stdout)
    assert [(one["id"], one["verdict"]) for one in found] == [
        ("right", "correct"),
        ("wrong", "wrong"),
        ("none", "no_answer"),
        ("中文", "correct"),
    ]
    assert "中文" in result.stdout
    assert result.stderr.splitlines() == [
        f"4 responses by house {identity().partition(':')[2][:12]}: 2 correct, 1 wrong, 1 no answer"
    ]


def test_all_wrong_is_an_answer_too(tmp_path: Path) -> None:
    assert call(write(tmp_path / "in.jsonl", ROWS[1:3])).exit_code == 0


def test_with_out_the_file_holds_the_lines_and_standard_output_nothing(tmp_path: Path) -> None:
    path, out = write(tmp_path / "in.jsonl", ROWS), tmp_path / "deeper" / "out.jsonl"
    result = call(path, "--out", out)
    assert result.stdout == ""
    timeless = [[one | {"seconds": 0} for one in lines(text)] for text in (out.read_text(), call(path).stdout)]
    assert timeless[0] == timeless[1]


def test_both_verdicts_are_kept_when_a_second_grader_is_asked_for(tmp_path: Path) -> None:
    result = call(write(tmp_path / "in.jsonl", ROWS), "--second", "reference")
    found = lines(result.stdout)
    assert [(one["verdict"], one["second"]["verdict"]) for one in found] == [  # type: ignore[index]
        ("correct", "wrong"),
        ("wrong", "wrong"),
        ("no_answer", "no_answer"),
        ("correct", "correct"),
    ]
    assert "agrees on 3; correct by the first alone 1, by the second alone 0" in result.stderr


def test_the_reference_grader_can_be_the_first(tmp_path: Path) -> None:
    found = lines(call(write(tmp_path / "in.jsonl", ROWS), "--grader", "reference").stdout)
    assert [one["correct"] for one in found] == [False, False, False, True]
    assert found[0]["reason"] == "another fraction, as text"


def test_anyones_own_grader_can_be_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lenient.py").write_text("def says(response, gold):\n    return gold in response\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = lines(call(write(tmp_path / "in.jsonl", ROWS), "--grader", "lenient:says").stdout)
    assert [one["verdict"] for one in found] == ["wrong", "wrong", "correct", "correct"]
    assert found[0]["stage"] == "lenient:says"


@pytest.mark.parametrize("name", ["houses", "nowhere:says", "json:nothing", "sys:exit"])
def test_a_grader_that_is_none_is_asked_wrongly_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out.jsonl"
    result = call(write(tmp_path / "in.jsonl", ROWS), "--grader", name, "--out", out)
    assert isinstance(result.exception, AskedWrongly)
    assert name in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]


def test_a_bad_line_leaves_what_stood_in_out_and_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(tmp_path / "in.jsonl", [*ROWS, {"id": "x", "response": "y"}]), tmp_path / "out.jsonl"
    out.write_text("before\n")
    assert run(["grade", str(path), "--out", str(out)]) == 2
    assert run(["grade", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"opd: {path}, line 5 has no gold; it has id, response"] * 2
    assert out.read_text() == "before\n"


@pytest.mark.parametrize("place", ["in.jsonl", "."])
def test_the_verdicts_never_replace_the_responses_or_a_folder(tmp_path: Path, place: str) -> None:
    path = write(tmp_path / "in.jsonl", ROWS)
    before = path.read_bytes()
    result = call(path, "--out", tmp_path / place)
    assert isinstance(result.exception, AskedWrongly)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_half_a_character_in_a_response_is_written_as_json_escapes_it(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": "a", "response": "\\\\boxed{\\ud800}", "gold": "5"}\n')
    result = call(path)
    assert lines(result.stdout)[0]["extracted"] == "\ud800"
    assert "\\ud800" in result.stdout


def test_a_reader_that_leaves_early_is_no_error_to_speak_of(tmp_path: Path) -> None:
    rows = [{"id": number, "response": rf"\boxed{{{number}}}", "gold": "5"} for number in range(5_000)]
    path = write(tmp_path / "in.jsonl", rows)
    command = [sys.executable, "-c", "from opd.cli.main import main; main()", "grade", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["id"] == 0
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 1
    process.stderr.close()


def test_the_example_of_the_documentation_comes_out_as_it_stands_there(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "grading.md").read_text(encoding="utf-8")
    responses, verdicts = re.findall(r"^```\n(\{.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    path = tmp_path / "answers.jsonl"
    path.write_text(responses, encoding="utf-8")
    timeless = [[one | {"seconds": 0} for one in lines(text)] for text in (call(path).stdout, verdicts)]
    assert timeless[0] == timeless[1]
    assert len(timeless[0]) == 4


def test_the_page_says_how_the_two_graders_differ(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "grading.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `([^`]+)` for `([^`]+)` \| (\w+) \| (\w+)", page, flags=re.MULTILINE)
    rows = [{"id": at, "response": rf"\boxed{{{row[0]}}}", "gold": row[1]} for at, row in enumerate(table)]
    found = lines(call(write(tmp_path / "in.jsonl", rows), "--second", "reference").stdout)
    said = [(one["correct"], one["second"]["correct"]) for one in found]  # type: ignore[index]
    assert said == [(house == "correct", reference == "correct") for _, _, house, reference in table]
    assert len(table) == 7
