"""Problems are found in the forms that files have."""

import json
from pathlib import Path
from typing import Any

import pytest

from opd.records.errors import AskedWrongly
from opd.train.corpus.problems import Fields, read_corpus
from opd.train.prompts.rows import read_rows, write_rows


def write(folder: Path, rows: list[dict[str, Any]], name: str = "x.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_row_is_named_by_its_id_or_by_its_place(tmp_path: Path) -> None:
    named = read_corpus(write(tmp_path, [{"id": "a-1", "problem": "p", "answer": "3"}])).problems[0]
    assert (named.row, named.name, named.text, named.answer) == (0, "a-1", "p", "3")
    plain = read_corpus(write(tmp_path, [{"question": "p"}, {"question": "q"}])).problems[1]
    assert (plain.row, plain.name, plain.text, plain.answer) == (1, "row 1", "q", None)


def test_a_chat_is_read_from_its_users_turn_and_an_answer_from_inside(tmp_path: Path) -> None:
    row = {
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "Find x."}],
        "reward_model": {"ground_truth": 7},
    }
    corpus = read_corpus(write(tmp_path, [row]))
    assert (corpus.problems[0].text, corpus.problems[0].answer) == ("Find x.", "7")
    assert corpus.fields == Fields(problem="prompt", answer="reward_model.ground_truth", name=None)


@pytest.mark.parametrize(
    ("rows", "fields", "message"),
    [
        ([], Fields(), "has no rows"),
        ([{"text": "p"}], Fields(), "none of the fields problem, question, prompt; it has text"),
        ([{"problem": "p"}], Fields(problem="text"), "has no field 'text'; it has problem"),
        ([{"problem": "p"}, {"problem": 3}], Fields(), "row 1 of .*: field 'problem' holds no text"),
        ([{"prompt": [{"role": "system", "content": "p"}]}], Fields(), "row 0 of .*: field 'prompt' holds no text"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, rows: list[dict[str, Any]], fields: Fields, message: str
) -> None:
    with pytest.raises(AskedWrongly, match=message):
        read_corpus(write(tmp_path, rows), fields)


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet"])
def test_rows_come_back_as_they_were_written(tmp_path: Path, name: str) -> None:
    rows = [{"id": "a", "problem": "π\n", "n": 3, "list": ["x"]}, {"id": "b", "problem": "", "n": 4, "list": []}]
    write_rows(tmp_path / name, rows)
    assert list(read_rows(tmp_path / name)) == rows
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("name", "value"), [("x.jsonl", {1, 2}), ("x.jsonl", float("nan")), ("x.parquet", [1, "a"])])
def test_a_value_that_does_not_fit_leaves_no_file(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(AskedWrongly, match="fit"):
        write_rows(tmp_path / name, [{"value": value}])
    assert not list(tmp_path.iterdir())
