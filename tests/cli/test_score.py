"""`opd score`, as a person or a program calls it."""

import json
import math
import statistics
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opd.cli.score import score
from opd.records.errors import AskedWrongly


def write(path: Path, hits: list[int], samples: list[int]) -> Path:
    rows = [
        {"question": f"q{q}", "sample": sample, "correct": sample < c}
        for q, (c, k) in enumerate(zip(hits, samples, strict=True))
        for sample in range(k)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(score, [str(argument) for argument in arguments])


def test_json_has_the_statistics_of_the_file(tmp_path: Path) -> None:
    """The first worked vector, again by the standard library."""
    hits = [3, 3, 0, 4, 4, 4]
    values = json.loads(run(write(tmp_path / "x.jsonl", hits, [4] * 6), "--json").output)
    assert values["mean"] == 0.75
    assert values["stderr"] == pytest.approx(statistics.stdev(c / 4 for c in hits) / math.sqrt(6))
    assert values["stderr_naive"] == pytest.approx(math.sqrt(0.75 * 0.25 / 24))
    assert values["design_effect"] == pytest.approx(3.2)
    assert values["icc"] == pytest.approx(0.607843, abs=1e-6)
    assert values["ci95"] == pytest.approx([0.343555, 1.156445], abs=1e-6)
    assert (values["questions"], values["samples_per_question"], values["n"]) == (6, 4, 24)
    assert values["wilson95_questions"] is None


def test_the_table_says_what_each_number_means(tmp_path: Path) -> None:
    output = run(write(tmp_path / "x.jsonl", [3, 3, 0, 4, 4, 4], [4] * 6)).output
    assert "mean                      0.7500              18 of 24 samples" in output
    assert "error                     0.1581              clustered by question" in output
    assert "24 samples are worth 8 independent ones" in output


def test_where_all_samples_agree_wilson_on_questions_stands_beside_the_error_of_zero(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [4] * 5, [4] * 5)
    values = json.loads(run(path, "--json").output)
    assert values["stderr"] == 0.0
    assert values["wilson95_questions"] == pytest.approx([0.565518, 1.0], abs=1e-6)
    assert (values["design_effect"], values["icc"]) == (None, None)
    assert "by Wilson on questions: 0.5655 to 1.0000" in run(path).output
    none_right = json.loads(run(write(tmp_path / "y.jsonl", [0] * 5, [4] * 5), "--json").output)
    assert none_right["wilson95_questions"] == pytest.approx([0.0, 1 - 0.565518], abs=1e-6)


def test_different_numbers_of_samples_are_said_to_be_so(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [3, 3, 2, 6, 2, 6, 2], [8, 3, 3, 7, 3, 8, 2])
    values = json.loads(run(path, "--json").output)
    assert values["mean"] == pytest.approx(0.705882, abs=1e-6)
    assert values["stderr"] == pytest.approx(0.097425, abs=1e-6)
    assert values["samples_per_question"] is None
    output = run(path).output
    assert "2 to 8 samples of each" in output
    assert "the mean is over samples, not over questions" in output


def test_one_question_has_no_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [3], [4])
    values = json.loads(run(path, "--json").output)
    assert (values["stderr"], values["ci95"], values["design_effect"], values["icc"]) == (None,) * 4
    assert "error                     undefined" in run(path).output


def test_a_file_that_is_not_there_is_asked_wrongly(tmp_path: Path) -> None:
    result = run(tmp_path / "none.jsonl")
    assert isinstance(result.exception, AskedWrongly)
