"""A score is sealed to its samples: another file beside it is found, whatever its sum."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opd.cli.main import opd
from opd.evaluate.comparison import compare
from opd.evaluate.finished import put_in_order
from opd.evaluate.report import score_report
from opd.evaluate.results import read_results, read_source
from opd.records.errors import AnswerIsNo
from opd.records.files import write_json
from opd.view.scores.page import render
from opd.view.scores.text import terminal


def run(*arguments: object) -> Result:
    return CliRunner().invoke(opd, [str(argument) for argument in arguments])


@pytest.fixture
def scored(sums: Any, tmp_path: Path) -> Path:
    """Six questions, of each of which the first of two samples is right."""
    sums.evaluated(sums.half_right(), tmp_path / "score")
    return tmp_path / "score"


def exchange(folder: Path) -> None:
    """One right sample is made wrong, and a wrong one of another question right: 2 and 0 of 2 instead of 1 and 1."""
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    rows[0]["judgement"]["verdict"], rows[3]["judgement"]["verdict"] = "wrong", "correct"
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def without_digest(folder: Path) -> None:
    """The score as an earlier version wrote it."""
    values = json.loads((folder / "score.json").read_text())
    del values["samples_sha256"]
    write_json(folder / "score.json", values)


def test_a_balanced_edit_leaves_the_sum_and_would_move_a_comparison(scored: Path) -> None:
    """So that there is something to be found."""
    without_digest(scored)
    before = read_results(scored)
    exchange(scored)
    after = read_results(scored)
    assert after.counts.total_hits == before.counts.total_hits == 6
    assert compare(before, after).stderr_fixed_questions != compare(before, before).stderr_fixed_questions


@pytest.mark.parametrize("verb", ["score", "compare", "power"])
def test_every_verb_that_reads_the_folder_finds_a_balanced_edit(scored: Path, verb: str) -> None:
    arguments = [verb, scored, *([scored] if verb == "compare" else [])]
    assert run(*arguments).exit_code == 0
    exchange(scored)
    for place in (scored, scored / "samples.jsonl"):
        refused = run(verb, place, *arguments[2:])
        assert isinstance(refused.exception, AnswerIsNo)
        assert "samples.jsonl has SHA-256" in str(refused.exception)
        assert "one was changed. Bring the file back" in str(refused.exception)


def test_an_evaluation_does_not_hand_out_the_score_of_edited_samples(sums: Any, scored: Path) -> None:
    exchange(scored)
    with pytest.raises(AnswerIsNo, match=r"samples\.jsonl has SHA-256"):
        sums.evaluated(sums.half_right(), scored)


def test_a_score_without_a_digest_is_read_and_said_to_be_unverified(scored: Path) -> None:
    sealed = read_source(scored)
    assert "unverified" not in terminal(score_report(sealed))
    assert sealed.score is not None
    assert sealed.score.samples_sha256 in render(score_report(sealed))
    assert compare(read_results(scored), read_results(scored)).notes == ()
    without_digest(scored)
    assert score_report(read_source(scored)).unverified
    assert "The samples are unverified" in terminal(score_report(read_source(scored)))
    old = read_results(scored, name="old")
    (note,) = compare(old, replace(old, name="new", unverified=False)).notes
    assert note == "old is a score of an earlier version without a digest of its samples: they are unverified."


@pytest.fixture
def shuffled(tmp_path: Path) -> Callable[[list[tuple[str, int, str]]], Path]:
    def write(rows: list[tuple[str, int, str]]) -> Path:
        path = tmp_path / "rows.jsonl"
        keys = ("question", "sample", "text")
        lines = [json.dumps(dict(zip(keys, row, strict=True)), ensure_ascii=False) for row in rows]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


def test_rows_stand_in_the_order_of_the_questions_and_tries_of_one_sample_in_theirs(
    shuffled: Callable[[list[tuple[str, int, str]]], Path],
) -> None:
    rows = [("b", 1, "x"), ("a", 0, "failed"), ("b", 0, "line\u2028separator"), ("a", 0, "settled"), ("a", 1, "x")]
    path = shuffled(rows)
    put_in_order(path, ["b", "a"])
    found = [tuple(json.loads(line).values()) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert found == [rows[2], rows[0], rows[1], rows[3], rows[4]]
