"""Where a final's questions are looked for: the same from any folder that one works in."""

from pathlib import Path

import pytest

from opd.protocol.at_hand import near, question_file
from opd.protocol.packages import catalogue
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import sha256
from opd.records.tasks import QuestionSource

FINAL = catalogue.find("arith_tiny")[0].contract.final


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """A folder of an attempt, in runs/ beside data/."""
    (tmp_path / "data").mkdir()
    (tmp_path / "runs" / "attempt").mkdir(parents=True)
    return tmp_path / "runs" / "attempt"


def pinned(path: Path) -> QuestionSource:
    return QuestionSource(source=path.name, sha256=sha256(path), rows=1)


def test_data_beside_the_runs_is_found_from_anywhere(
    attempt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data" / "final.jsonl"
    path.write_text("{}\n")
    source = pinned(path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for folder in (tmp_path, elsewhere, attempt):
        monkeypatch.chdir(folder)
        assert question_file(source, FINAL, beside=near(attempt)) == path


def test_another_file_of_that_name_is_passed_over_for_the_pinned_one_and_refused_alone(
    attempt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data" / "final.jsonl"
    path.write_text("{}\n")
    source = pinned(path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("final.jsonl").write_text("another\n")
    assert question_file(source, FINAL, beside=near(attempt)) == path
    with pytest.raises(AnswerIsNo, match="the task pins"):
        question_file(source, FINAL)


def test_where_it_is_nowhere_every_place_is_named_in_full(
    attempt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    source = QuestionSource(source="final.jsonl", sha256="0" * 64, rows=1)
    with pytest.raises(AskedWrongly, match="put it into one of its places: ") as refused:
        question_file(source, FINAL, beside=near(attempt))
    named = str(refused.value).partition("places: ")[2].split(", ")
    here = tmp_path / "here"
    assert named[:3] == [
        str(here / "final.jsonl"),
        str(here / "data/final.jsonl"),
        str(tmp_path / "data/final.jsonl"),
    ]
