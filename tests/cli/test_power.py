"""`opd power`, as a person or a program calls it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opd.cli.power import power
from opd.records.errors import AskedWrongly


def write(path: Path, hits: list[int]) -> Path:
    rows = [
        {"question": f"q{q}", "sample": sample, "correct": sample < count}
        for q, count in enumerate(hits)
        for sample in range(4)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(power, [str(argument) for argument in arguments])


def sets(**values: object) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def test_a_printed_score_gives_a_table_over_spreads() -> None:
    page = run(*sets(questions=60, samples=32, correct=809, stderr=0.051593, difference=0.02)).output
    header, *rows = [line.split() for line in page.splitlines() if line.startswith(" ")]
    assert header[0] == "ω²"
    assert [row[0] for row in rows] == ["0", "0.005", "0.01", "0.02"]
    assert rows[0][2:] == ["0.0271", "52", "of", "1,920", "0.54", "110", "59"]
    assert rows[1][-2:] == ["no", "number"]
    assert "Without pairing by question it would be 0.204." in page


def test_a_score_and_a_pilot_give_their_own_variances(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.jsonl", [0, 1, 2, 3, 4]), write(tmp_path / "b.jsonl", [1, 1, 3, 3, 4])
    one, pilot = (json.loads(run(*paths, "--json").output) for paths in ((a,), (a, b)))
    assert (len(one["rows"]), len(pilot["rows"])) == (4, 1)
    assert one["within_a"] == pytest.approx((3 + 4 + 3) / 12 / 5)
    assert pilot["source"] == f"{a}, {b}"
    assert str(a) in run(a).output


def test_several_candidates_and_looks_are_said() -> None:
    page = run(*sets(questions=60, samples=32, within=0.08, candidates=3, looks=2, alpha=0.05)).output
    assert "at alpha 0.0167, two-sided, 3 candidates sharing 0.05" in page
    assert "|z| to pass at 2 looks: Pocock" in page


def test_what_is_missing_is_named() -> None:
    result = run()
    assert isinstance(result.exception, AskedWrongly)
    assert "questions is not known; give it by --set questions=…" in str(result.exception)
    assert "unknown key 'question'; did you mean 'questions'?" in str(run(*sets(question=5)).exception)
    assert "greater than or equal to 0" in str(run(*sets(questions=5, samples=4, within=-1)).exception)
