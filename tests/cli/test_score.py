"""`opd score`, as a person or a program calls it."""

import json
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opd.cli.score import score
from opd.records.errors import AskedWrongly
from opd.records.score_report import ScoreReport


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


def table_row(output: str, name: str) -> list[str]:
    """The cells behind a name; columns are two blanks or more apart."""
    rows = [re.split(r" {2,}", line.strip()) for line in output.splitlines()]
    return next(row[1:] for row in rows if row[0] == name)


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
    assert table_row(output, "mean") == ["0.7500", "18 of 24 samples"]
    assert table_row(output, "error") == ["0.1581", "clustered by question"]
    assert table_row(output, "95 % interval") == ["0.3436 to 1.1564", "from t with 5 degrees of freedom"]
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
    assert table_row(output, "questions") == ["7", "2 to 8 samples of each"]
    assert "the mean is over samples, not over questions" in output


def test_one_question_has_no_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [3], [4])
    values = json.loads(run(path, "--json").output)
    assert (values["stderr"], values["ci95"], values["design_effect"], values["icc"]) == (None,) * 4
    assert table_row(run(path).output, "error")[0] == "undefined"


def test_a_file_that_is_not_there_is_asked_wrongly(tmp_path: Path) -> None:
    result = run(tmp_path / "none.jsonl")
    assert isinstance(result.exception, AskedWrongly)


def full_rows() -> list[dict[str, object]]:
    """Samples with all that a plain file can say."""
    return [
        {
            "question": f"q{q}",
            "sample": sample,
            "correct": (q + sample) % 3 == 0,
            "extracted": "7" if (q + sample) % 3 == 0 else "8",
            "cut_short": sample == 3,
            "tokens": 10 * q + sample,
            "gold": "7",
            "response": f"\\boxed{{{q}}}",
        }
        for q in range(5)
        for sample in range(4)
    ]


def write_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_json_has_the_keys_that_programs_ask_for_and_the_whole_report(tmp_path: Path) -> None:
    values = json.loads(run(write_lines(tmp_path / "x.jsonl", full_rows()), "--json").output)
    asked = {
        "mean",
        "stderr",
        "stderr_naive",
        "design_effect",
        "icc",
        "ci95",
        "questions",
        "samples_per_question",
        "n",
    }
    assert asked <= set(values)
    assert values["cut_short"]["part"]["samples"] == 5
    assert [one["k"] for one in values["at_k"]] == [1, 2, 4]
    assert len(values["by_question"]) == 5
    assert ScoreReport.model_validate_json(json.dumps(values)).mean == values["mean"]


def test_out_writes_each_form_by_its_ending(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "x.jsonl", full_rows())
    names = ("report.html", "report.md", "samples.csv", "samples.parquet", "samples.jsonl")
    result = run(source, "--json", *(word for name in names for word in ("--out", tmp_path / "out" / name)))
    assert result.exit_code == 0, result.output
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {*names, "report.pictures"}
    assert json.loads(result.stdout)["n"] == 20  # what was written is said on the other stream
    again = json.loads(run(tmp_path / "out" / "samples.jsonl", "--json").output)
    assert (again["mean"], again["cut_short"]) == (0.35, json.loads(result.stdout)["cut_short"])
    assert "<h1>0.3500 ± " in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_out_never_writes_over_a_file_and_knows_its_endings(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "x.jsonl", full_rows())
    before = source.read_bytes()
    over, other = run(source, "--out", source), run(source, "--out", tmp_path / "x.png")
    assert "exists already and is never overwritten" in str(over.exception)
    assert "its ending says what to write, one of .html .md .csv .parquet .jsonl" in str(other.exception)
    assert isinstance(other.exception, AskedWrongly)
    assert source.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]


def test_another_harness_log_is_scored_with_the_metric_that_is_chosen(tmp_path: Path) -> None:
    rows = [
        {"doc_id": doc, "doc": {}, "target": "1", "resps": [["1"]], "filtered_resps": ["1"], "filter": "none",
         "metrics": ["exact_match", "math_verify"], "exact_match": 0.0, "math_verify": float(doc)}
        for doc in (0, 1)
    ]  # fmt: skip
    path = write_lines(tmp_path / "samples.jsonl", rows)
    assert "which metric counts?" in str(run(path).exception)
    assert json.loads(run(path, "--json", "--set", "metric=math_verify").output)["mean"] == 0.5
    assert "unknown key 'metrik'; did you mean 'metric'?" in str(run(path, "--set", "metrik=x").exception)


def test_a_plain_score_imports_no_torch_and_draws_nothing(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "x.jsonl", full_rows())
    program = (
        "import sys; from opd.cli.score import score\n"
        "score(sys.argv[1:], standalone_mode=False)\n"
        "print(sorted({'torch', 'transformers', 'matplotlib', 'sympy', 'pyarrow'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, str(source)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.splitlines()[-1] == "[]"
