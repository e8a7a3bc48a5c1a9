"""Contamination attached to a score: from the two files of problems, through the commands, to both scores."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from opd.cli.main import run
from opd.evaluate.report import score_report
from opd.evaluate.results import Source
from opd.evaluate.rows import Row
from opd.evaluate.trained import overlapping, read_trained, training_data
from opd.records.errors import AskedWrongly
from opd.records.files import sha256, write_json
from opd.records.metrics import RunSummary, StopCause

DIVISORS = "Find the number of positive divisors of $2^5 3^4$ that are not squares."
CIRCLE = "A circle of radius $r$ touches three sides of a square of side $a$. Find $r/a$."
SEATS = "How many ways are there to seat {} people around a round table when turning it changes nothing?"
BENCH = [
    {"id": "b0", "problem": DIVISORS, "answer": "24"},
    {"id": "b1", "problem": CIRCLE, "answer": "1/2"},
    {"id": "b2", "problem": "Compute the remainder when $7^{2024}$ is divided by $100$.", "answer": "1"},
    {"id": "b3", "problem": SEATS.format("six"), "answer": "120"},
]
TRAIN = [
    {"id": "t0", "problem": "Compute the remainder when $7^{2024}$ is divided by $100$", "answer": "1"},
    {"id": "t1", "problem": "Name a prime between ten and twelve, and say why it is one.", "answer": "11"},
    {"id": "t2", "problem": DIVISORS, "answer": "24"},
    {"id": "t3", "problem": SEATS.format("seven"), "answer": "720"},
]
HITS = {"b0": 4, "b1": 1, "b2": 3, "b3": 2}  # of 4


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def training(tmp_path: Path) -> Path:
    return lines(tmp_path / "train.jsonl", TRAIN)


@pytest.fixture
def report(tmp_path: Path, training: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """What `opd data decontaminate --json` says."""
    bench = lines(tmp_path / "bench.jsonl", BENCH)
    assert run(["data", "decontaminate", str(training), "--against", str(bench), "--json"]) == 0
    path = tmp_path / "overlap.json"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


def rows_of(hits: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {"question": name, "sample": sample, "correct": sample < count}
        for name, count in hits.items()
        for sample in range(4)
    ]


def checkpoint(run_folder: Path, *, data: str, recipe: str = "r" * 64) -> Path:
    """A checkpoint as `opd train` leaves it, with its run's summary beside it."""
    folder = run_folder / "checkpoint-20"
    folder.mkdir(parents=True)
    write_json(folder / "opd.json", {"step": 20, "recipe": recipe})
    summary = RunSummary(
        recipe="r" * 64,
        data=data,
        stop=StopCause.STEPS,
        steps=20,
        asked_steps=20,
        seconds=1.0,
        max_wall_seconds=None,
        rows_seen=20,
        rows=4,
        checkpoints=("checkpoint-20",),
        machine={},
    )
    write_json(run_folder / "run.json", summary.resolved())
    return folder


def source(model: str | None = None, hits: dict[str, int] = HITS) -> Source:
    rows = tuple(Row(question=row["question"], sample=row["sample"], correct=row["correct"]) for row in rows_of(hits))
    return Source(name="x", form="samples", rows=rows, model=model)


def test_a_score_stands_with_and_without_the_questions_that_were_trained_on(report: Path) -> None:
    """b0 and b2 are training rows; b3 is there with another number, and stays."""
    said = score_report(source(), read_trained([report])).contamination
    assert said is not None
    assert [(one.question, one.training_row, one.verdict, one.correct) for one in said.overlaps] == [
        ("b0", "t2", "same", 4),
        ("b2", "t0", "same", 3),
    ]
    assert said.near == 1
    assert said.without is not None
    assert said.only is not None
    assert (said.without.mean, said.only.mean) == (3 / 8, 7 / 8)
    assert said.without.stderr == pytest.approx(statistics.stdev([0.25, 0.5]) / 2**0.5)
    assert said.shift == pytest.approx(10 / 16 - 3 / 8)
    errors = [statistics.stdev(pair) / 2**0.5 for pair in ([0.25, 0.5], [1.0, 0.75])]
    assert said.shift_stderr == pytest.approx(0.5 * (errors[0] ** 2 + errors[1] ** 2) ** 0.5)
    assert said.trained_on == "taken on trust"
    assert "taken on trust: no run beside it says so" in said.note
    assert "the 4 questions that were compared" in said.note


def test_the_run_that_made_a_checkpoint_confirms_the_training_file(
    report: Path, training: Path, tmp_path: Path
) -> None:
    model = checkpoint(tmp_path / "run", data=sha256(training))
    said = score_report(source(str(model)), read_trained([report])).contamination
    assert said is not None
    assert said.trained_on == "confirmed"
    assert "on trust" not in said.note


def test_a_report_of_another_training_file_is_refused(report: Path, tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "run", data="e" * 64)
    with pytest.raises(AskedWrongly, match=r"overlap.json is about train.jsonl .* trained on another file"):
        score_report(source(str(model)), read_trained([report]))


def test_a_checkpoint_of_another_recipe_than_the_run_beside_it_confirms_nothing(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "run", data="d" * 64, recipe="s" * 64)
    assert training_data(str(model)) is None
    assert training_data(str(tmp_path / "nowhere")) is None
    assert training_data(None) is None


def test_a_model_trained_on_the_cleaned_file_saw_none_of_them(tmp_path: Path, training: Path) -> None:
    bench, clean = lines(tmp_path / "bench.jsonl", BENCH), tmp_path / "clean.jsonl"
    assert run(["data", "decontaminate", str(training), "--against", str(bench), "--out", str(clean)]) == 0
    trained = read_trained([tmp_path / "clean.report.json"])
    before = checkpoint(tmp_path / "before", data=sha256(training))
    after = checkpoint(tmp_path / "after", data=sha256(clean))
    found = [score_report(source(str(model)), trained).contamination for model in (before, after)]
    assert [len(one.overlaps) for one in found if one is not None] == [2, 0]
    assert found[1] is not None
    assert (found[1].only, found[1].shift) == (None, 0.0)


def test_questions_that_nobody_looked_for_are_no_finding(report: Path) -> None:
    """H48: that nothing was found where nobody looked must not read as clean."""
    other = {f"other-{name}": count for name, count in HITS.items()}
    with pytest.raises(AskedWrongly, match="none of the 4 questions of x was compared there, 'other-b0' for one"):
        score_report(source(hits=other), read_trained([report]))
    half = score_report(source(hits={"b1": 2, "other": 1}), read_trained([report])).contamination
    assert half is not None
    assert half.compared == 1
    assert "The other 1 were not compared, so nothing is known of them." in half.note


def test_what_is_no_report_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"overlaps": [{"against": "bench.jsonl"}]})
    with pytest.raises(AskedWrongly, match="is no report of training rows against a benchmark; make it with"):
        read_trained([path])
    assert read_trained([]) is None


def test_a_comparison_drops_the_questions_on_both_sides(
    report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """b0 and b2 alone make B look better; without them the two are as good."""
    a = lines(tmp_path / "a.jsonl", rows_of({"b0": 0, "b1": 1, "b2": 0, "b3": 2}))
    b = lines(tmp_path / "b.jsonl", rows_of({"b0": 4, "b1": 2, "b2": 4, "b3": 1}))
    assert run(["compare", str(a), str(b), "--trained-on", str(report), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["difference"] == 8 / 16
    (clean,) = said["without_overlap"]["comparisons"]
    assert said["without_overlap"]["questions"] == ["b0", "b2"]
    assert (clean["difference"], clean["questions"]) == (0.0, 2)
    assert run(["compare", str(a), str(b), "--trained-on", str(report)]) == 0
    assert "Without the 2 questions that stand in the training rows (b0, b2):" in capsys.readouterr().out


def test_reports_of_two_models_that_saw_other_files_both_count(
    report: Path, training: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = lines(tmp_path / "second.jsonl", [TRAIN[1], {"id": "u", "problem": CIRCLE, "answer": "1/2"}])
    capsys.readouterr()
    assert run(["data", "decontaminate", str(second), "--against", str(tmp_path / "bench.jsonl"), "--json"]) == 0
    other = tmp_path / "second.json"
    other.write_text(capsys.readouterr().out, encoding="utf-8")
    models = [
        str(checkpoint(tmp_path / name, data=sha256(path))) for name, path in (("one", training), ("two", second))
    ]
    trained = read_trained([report, other])
    assert trained is not None
    assert overlapping(trained, HITS, models=models) == {"b0", "b1", "b2"}
    assert overlapping(trained, HITS, models=[None, None]) == {"b0", "b1", "b2"}
    with pytest.raises(AskedWrongly, match=r"second\.json is about second\.jsonl"):
        overlapping(trained, HITS, models=models[:1])


def test_the_command_shows_both_scores(report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lines(tmp_path / "x.jsonl", rows_of(HITS))
    assert run(["score", str(path), "--trained-on", str(report)]) == 0
    page = capsys.readouterr().out
    assert "2 of the 4 questions that were compared stand in the training rows." in page
    assert "without those found" in page
    assert "b2        t0            same   3/4" in page
