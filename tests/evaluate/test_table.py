"""Samples as a plain table, read back by other libraries."""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from opd.evaluate.results import read_source
from opd.evaluate.rows import Row
from opd.evaluate.table import COLUMNS, write_table
from opd.records.scores import Opinion, Verdict

ROWS = (
    Row(
        question="q,1",
        sample=0,
        correct=True,
        seed=42,
        verdict="correct",
        by="house",
        reason='the "same" text',
        answered=True,
        extracted="1,5",
        inside_reasoning=False,
        cut_short=False,
        tokens=7,
        gold="1, 5",
        response="It is\n\\boxed{1,5}; =cmd()",
        opinions=(Opinion(by="reference", verdict=Verdict.WRONG, reason="text"),),
    ),
    Row(question="q2", sample=3, correct=False),
)


def test_csv_has_a_row_a_sample_and_leaves_what_is_not_known_empty(tmp_path: Path) -> None:
    write_table(tmp_path / "x.csv", ROWS)
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert first["response"] == ROWS[0].response
    assert (first["correct"], first["cut_short"], first["tokens"], first["opinions"]) == (
        "true",
        "false",
        "7",
        "reference: wrong",
    )
    assert {name for name, value in second.items() if value} == {"question", "sample", "correct"}
    assert tuple(first) == COLUMNS


def test_parquet_has_typed_columns_and_nulls(tmp_path: Path) -> None:
    write_table(tmp_path / "x.parquet", ROWS)
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column_names == list(COLUMNS)
    assert [str(table.schema.field(name).type) for name in ("question", "correct", "tokens")] == [
        "string",
        "bool",
        "int64",
    ]
    assert table.to_pylist()[0]["response"] == ROWS[0].response
    assert table.to_pylist()[1]["cut_short"] is None


def test_json_lines_are_read_as_the_same_samples(tmp_path: Path) -> None:
    write_table(tmp_path / "x.jsonl", ROWS)
    first, second = read_source(tmp_path / "x.jsonl").rows
    kept = ("question", "sample", "correct", "seed", "extracted", "cut_short", "tokens", "gold", "response")
    assert [getattr(first, name) for name in kept] == [getattr(ROWS[0], name) for name in kept]
    assert (second.question, second.sample, second.correct) == ("q2", 3, False)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_what_cannot_be_written_leaves_no_half_file(tmp_path: Path, ending: str, full_disk: object) -> None:
    many = [Row(question=f"q{n}", sample=0, correct=True, response="x" * 50) for n in range(200)]
    with full_disk(100), pytest.raises(OSError, match=r"File too large|error closing"):  # type: ignore[operator]
        write_table(tmp_path / f"x.{ending}", many)
    assert list(tmp_path.iterdir()) == []
