"""`opd data`, as a person or a program calls it."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from opd.cli.main import run

ROWS = [
    {"id": "t0", "problem": "Find the real roots of $x^2-1$.", "answer": "1"},
    {"id": "t1", "problem": "Find the real roots of $x^2 - 1$", "answer": "-1"},
    {"id": "t2", "problem": "Find the real roots of $x^2+1$.", "answer": "0"},
    {"id": "t3", "problem": "How many primes are there?", "answer": "2"},
]
BENCH = [{"id": "b0", "problem": "Find the real roots of $x^2-1$", "answer": "1"}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.jsonl", ROWS)


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    return write(tmp_path / "bench.jsonl", BENCH)


def data(*arguments: object) -> int:
    return run(["data", *(str(argument) for argument in arguments)])


def test_describe_prints_numbers_for_people_and_for_programs(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data("describe", rows) == 0
    page = capsys.readouterr().out
    assert "rows.jsonl: 4 rows" in page
    assert "read as problem" in page
    assert "the same but for spelling" in page
    assert "groups that disagree on the answer: 1" in page
    assert data("describe", rows, "--json", "--model", "opd:arith_tiny/student") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["repeated"]["symbols"]["rows"] == 1
    assert said["sha256"] == hashlib.sha256(rows.read_bytes()).hexdigest()
    assert said["tokens"]["least"] > 0


def test_dedupe_keeps_the_first_and_lists_the_rest(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clean.jsonl"
    assert data("dedupe", rows, "--out", out) == 0
    assert "4 rows → 3; 1 repeat an earlier one (symbols), 1 of them with another answer" in capsys.readouterr().out
    assert lines(out) == [ROWS[0], ROWS[2], ROWS[3]]
    (removed,) = lines(tmp_path / "clean.removed.jsonl")
    assert (removed["id"], removed["reason"], removed["kept_id"]) == ("t1", "duplicate (symbols)", "t0")
    report = json.loads((tmp_path / "clean.report.json").read_text(encoding="utf-8"))
    assert report["out"] == {"file": "clean.jsonl", "sha256": hashlib.sha256(out.read_bytes()).hexdigest(), "rows": 3}
    assert report["source"]["sha256"] == hashlib.sha256(rows.read_bytes()).hexdigest()
    assert not list(tmp_path.glob("*.partial"))


def test_dedupe_by_words_drops_the_other_sign_too(rows: Path, tmp_path: Path) -> None:
    assert data("dedupe", rows, "--out", tmp_path / "clean.jsonl", "--set", "same=words") == 0
    assert [row["id"] for row in lines(tmp_path / "clean.jsonl")] == ["t0", "t3"]


def test_decontaminate_tells_the_same_problem_from_one_with_another_sign(
    rows: Path, bench: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clean.jsonl"
    assert data("decontaminate", rows, "--against", bench, "--out", out) == 0
    page = capsys.readouterr().out
    assert "bench.jsonl: 1 of 1 problems in 2 of 4 rows" in page
    assert "x ^ 2 [- → +] 1" in page
    assert [row["id"] for row in lines(out)] == ["t2", "t3"]
    assert [row["verdict"] for row in lines(tmp_path / "clean.removed.jsonl")] == ["same", "same"]
    assert data("decontaminate", rows, "--against", bench, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [pair["removed"] for pair in report["overlaps"][0]["pairs"]] == [True, True, False]


def test_project_writes_training_rows_removed_rows_and_the_reserve(rows: Path, bench: Path, tmp_path: Path) -> None:
    rule = tmp_path / "rule.toml"
    rule.write_text('protocol = "mine"\nrun_words = 8\nreserved_rows = 1\n', encoding="utf-8")
    out = tmp_path / "train.jsonl"
    more = write(tmp_path / "more.jsonl", [*ROWS, {"id": "t4", "problem": "Name a prime.", "answer": "2"}])
    assert data("project", more, "--against", bench, "--protocol", rule, "--out", out) == 0
    left = [*lines(out), *lines(tmp_path / "train.reserved.jsonl")]
    assert sorted(row["id"] for row in left) == ["t3", "t4"]
    assert len(lines(out)) == 1
    fates = {row["id"]: row["fate"] for row in lines(tmp_path / "train.removed.jsonl")}
    assert fates == {
        "t0": "overlap",
        "t1": "duplicate",
        "t2": "duplicate",
        lines(tmp_path / "train.reserved.jsonl")[0]["id"]: "reserved",
    }
    report = json.loads((tmp_path / "train.report.json").read_text(encoding="utf-8"))
    assert report["counts"] == {"train": 1, "reserved": 1, "overlap": 1, "duplicate": 2}
    assert report["still_overlapping"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["describe", "none.jsonl"], "none.jsonl does not exist"),
        (["describe", "ROWS", "--set", "fields.problem=text"], "has no field 'text'"),
        (["describe", "ROWS", "--set", "field.problem=text"], "did you mean 'fields'"),
        (["describe", "ROWS", "--model", "nowhere"], "takes a directory with a tokenizer.json"),
        (["dedupe", "ROWS", "--out", "ROWS"], "exists already and is never overwritten"),
        (["dedupe", "ROWS", "--out", "x.jsonl", "--set", "same=alike"], "same"),
        (["decontaminate", "ROWS"], "Missing option '--against'"),
        (["decontaminate", "ROWS", "--against", "ROWS", "--set", "near_jaccard=0.0"], "near_jaccard"),
        (["project", "ROWS", "--against", "ROWS", "--protocol", "v3", "--out", "x.jsonl"], "no projection rule 'v3'"),
    ],
)
def test_a_mistake_is_a_line_that_names_it_and_nothing_is_made(
    arguments: list[str],
    words: str,
    rows: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert data(*(str(rows) if argument == "ROWS" else argument for argument in arguments)) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_full_disk_leaves_no_half_file(rows: Path, tmp_path: Path, full_disk: Any) -> None:
    out = tmp_path / "clean.jsonl"
    with full_disk(200):
        assert data("dedupe", rows, "--out", out) == 1
    assert not out.exists()
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.patient
def test_dapo_against_math500_takes_less_than_twenty_processor_seconds(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """16,395 rows against 500 problems, all that the command does."""
    folder = shared / "data"
    begin = time.process_time()
    arguments = ["--against", folder / "math500.jsonl", "--json"]
    assert data("decontaminate", folder / "dapo_math_unique.jsonl", *arguments) == 0
    assert time.process_time() - begin < 20
    counts = json.loads(capsys.readouterr().out)["overlaps"][0]["counts"]
    assert (counts["same_words"], counts["contained"], counts["near"]) == (7, 2, 15)


@pytest.mark.patient
def test_the_reference_projection_by_the_command(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = shared / "data", tmp_path / "train.jsonl"
    against = [word for name in ("aime24", "aime25") for word in ("--against", folder / f"{name}.jsonl")]
    protocol = "opd-dapo-aime-zero-overlap-v2"
    assert data("project", folder / "dapo_math_unique.jsonl", *against, "--protocol", protocol, "--out", out) == 0
    assert (
        "16,395 rows → 16,395 first occurrences → 15,365 without overlap → 15,285 to train on and 80 reserved"
        in capsys.readouterr().out
    )
    assert {row["projection"] for row in lines(out)} == {"train"}
    assert len(lines(out)) == 15_285
    assert len(lines(tmp_path / "train.removed.jsonl")) == 1_110
    assert json.loads((tmp_path / "train.report.json").read_text(encoding="utf-8"))["still_overlapping"] == 0


@pytest.mark.parametrize("name", ["none.parquet", "none.jsonl"])
@pytest.mark.parametrize("verb", ["describe", "dedupe"])
def test_a_file_that_is_not_there_or_is_a_folder_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, verb: str
) -> None:
    out = ["--out", str(tmp_path / "out.jsonl")] if verb == "dedupe" else []
    assert run(["data", verb, str(tmp_path / name), *out]) == 2
    assert capsys.readouterr().err.strip().endswith(f"{name} does not exist")
    (tmp_path / name).mkdir()
    assert run(["data", verb, str(tmp_path / name), *out]) == 2
    assert "is not a" in capsys.readouterr().err


def test_half_of_a_character_is_named_by_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ended in a traceback when the rows that stay were written."""
    path = write(tmp_path / "rows.jsonl", [*ROWS, {"id": "t4", "problem": "\ud83d?", "answer": "1"}])
    assert run(["data", "dedupe", str(path), "--out", str(tmp_path / "out.jsonl")]) == 2
    assert "rows.jsonl, line 5 holds half of a character" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
