"""Questions in a file become a benchmark once, and are declared from then on."""

import json
from pathlib import Path

import pytest

from opd.evaluate.benchmark import find, names
from opd.evaluate.declaration import taken_down, toml
from opd.evaluate.questions import read_questions
from opd.records.errors import AskedWrongly


def written(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", names())
def test_a_benchmark_comes_back_from_its_own_declaration(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(toml(find(name)), encoding="utf-8")
    assert find(str(tmp_path / "x.toml")) == find(name)


def test_a_file_of_questions_is_taken_down_with_its_digest_and_its_rows(tmp_path: Path) -> None:
    path = written(
        tmp_path / "mine.jsonl",
        {"id": "a", "problem": 'Is "\\pi" > 3?', "answer": "yes"},
        {"id": "b", "problem": "2+2?", "answer": "4"},
    )
    (tmp_path / "mine.toml").write_text(toml(taken_down(path)), encoding="utf-8")
    found = find(str(tmp_path / "mine.toml"))
    assert (found.name, found.questions, found.rows) == ("mine", 2, 2)
    assert (found.prompt, found.temperature) == (find("math500").prompt, find("math500").temperature)
    assert [question.id for question in read_questions(found)] == ["a", "b"]
    with path.open("a") as file:
        file.write(json.dumps({"id": "c", "problem": "3+3?", "answer": "6"}) + "\n")
    with pytest.raises(AskedWrongly, match="has SHA-256"):
        read_questions(found)


def test_questions_without_ids_are_named_by_their_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "amc23.jsonl", {"question": "How many?", "answer": 27.0})
    found = taken_down(path)
    assert (found.files[0].id, found.files[0].problem) == ("", "question")
    assert [question.gold for question in read_questions(found, path)] == ["27"]


def test_what_can_not_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"no problem and no question; it has \['text'\]"):
        taken_down(written(tmp_path / "texts.jsonl", {"text": "Once upon a time"}))
    with pytest.raises(AskedWrongly, match="has no questions"):
        taken_down(written(tmp_path / "empty.jsonl"))
    with pytest.raises(AskedWrongly, match="answer"):
        taken_down(written(tmp_path / "unanswered.jsonl", {"id": "a", "problem": "Why?"}))
    with pytest.raises(AskedWrongly, match="does not exist"):
        taken_down(tmp_path / "gone.jsonl")
