"""What a comparison reads, and what it refuses to read."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.results import read_results
from opd.evaluate.statistics.estimates import Counts
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import digest, write_json
from opd.records.rollouts import StopReason
from opd.records.scores import Judgement, Sample, Score, Verdict

FILE = QuestionFile(data="sums.jsonl", sha256="d" * 64, rows=2)
SUMS = Benchmark(name="sums", files=(FILE,), questions=2, seeds=(42, 43), limit_tokens=96)
PROTOCOL = SUMS.protocol(grader="house")


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def sample(question: str, index: int, verdict: Verdict) -> dict[str, Any]:
    return Sample(
        question=question,
        sample=index,
        seed=42 + index,
        response="\\boxed{1}",
        tokens=4,
        stop=StopReason.EOS,
        gold="1",
        judgement=Judgement(verdict=verdict, extracted="1", stage="integer", reason="by value"),
    ).resolved()


def folder(path: Path, rows: Iterable[Mapping[str, Any]], *, correct: int, digest: str = PROTOCOL.digest) -> Path:
    path.mkdir()
    write_rows(path / "samples.jsonl", rows)
    score = Score(
        benchmark="sums",
        model="runs/x",
        model_digest="m" * 64,
        protocol=PROTOCOL,
        protocol_digest=digest,
        mean=correct / 4,
        stderr=0.1,
        stderr_naive=0.1,
        ci95=(0.0, 1.0),
        design_effect=1.0,
        icc=0.0,
        stderr_seeds=0.1,
        questions=2,
        samples=4,
        correct=correct,
        cut_short=0.0,
        answered=1.0,
        tokens=16,
        mean_tokens=4.0,
        verdicts={},
        seconds=1.0,
        machine={},
    )
    write_json(path / "score.json", score.resolved())
    return path


ROWS = [
    sample("q1", 0, Verdict.CORRECT),
    sample("q1", 1, Verdict.WRONG),
    sample("q0", 0, Verdict.CORRECT),
    sample("q0", 1, Verdict.CORRECT),
]


def test_triples_are_counted_by_question_whatever_their_order(tmp_path: Path) -> None:
    rows = [
        {"question": "b", "sample": 1, "correct": True, "note": "passed over"},
        {"question": "a", "sample": 0, "correct": 0},
        {"question": "b", "sample": 0, "correct": 1},
        {"question": 7, "sample": 123456, "correct": False},
    ]
    found = read_results(write_rows(tmp_path / "x.jsonl", rows))
    assert found.questions == ("7", "a", "b")
    assert found.counts == Counts(hits=(0, 0, 2), samples=(1, 1, 2))
    assert found.protocol is None
    assert found.name == str(tmp_path / "x.jsonl")


def test_a_score_folder_and_the_samples_in_it_are_the_same_results(tmp_path: Path) -> None:
    path = folder(tmp_path / "score", ROWS, correct=3)
    found = read_results(path, name="student")
    assert found.counts == Counts(hits=(2, 1), samples=(2, 2))
    assert found.protocol == PROTOCOL
    assert read_results(path / "samples.jsonl", name="student") == found


def test_a_row_whose_grader_failed_gives_way_to_a_later_one(tmp_path: Path) -> None:
    rows = [sample("q0", 1, Verdict.GRADER_FAILED), *ROWS]
    assert read_results(folder(tmp_path / "score", rows, correct=3)).counts.total_samples == 4


def test_a_failed_grader_is_neither_wrong_nor_left_out(tmp_path: Path) -> None:
    """E70: a smaller denominator, or a wrong answer that nobody gave, would pass for a score."""
    rows = [*ROWS[:3], sample("q0", 1, Verdict.GRADER_FAILED)]
    with pytest.raises(AskedWrongly, match=r"row 4: the grader failed"):
        read_results(write_rows(tmp_path / "x.jsonl", rows))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "a", "sample": 0}, "row 2: no 'correct'"),
        ({"sample": 0, "correct": True}, "row 2: no 'question'"),
        ({"question": "a", "correct": True}, "row 2: no 'sample'"),
        ({"question": "a", "sample": 0, "correct": 0.5}, "correct = 0.5; write true or false"),
        ({"question": "a", "sample": 0, "correct": None}, "correct = None; write true or false"),
        ({"question": "a", "sample": 0, "correct": "yes"}, "correct = 'yes'; write true or false"),
        ({"question": "a", "sample": 0, "correct": []}, r"correct = \[\]; write true or false"),
        ({"question": "a", "sample": "0", "correct": True}, "sample = '0'; it is the number"),
        (
            {"question": "a", "sample": -1, "correct": True},
            "sample = -1; it is the number of the sample, or its seed, 0",
        ),
        ({"question": None, "sample": 0, "correct": True}, "question = None; a question is named"),
        ({"question": "a", "sample": 0, "judgement": {"verdict": "fine"}}, "row 2: no verdict in its judgement"),
        ({"question": "b", "sample": 0, "correct": True}, "question 'b' has sample 0 twice"),
    ],
)
def test_a_row_that_says_something_else_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    rows = [{"question": "b", "sample": 0, "correct": True}, row]
    with pytest.raises(AskedWrongly, match=message):
        read_results(write_rows(tmp_path / "x.jsonl", rows))


def test_what_is_not_there_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"nothing.jsonl does not exist"):
        read_results(tmp_path / "nothing.jsonl")
    with pytest.raises(AskedWrongly, match="no samples"):
        read_results(write_rows(tmp_path / "empty.jsonl", []))
    with pytest.raises(AskedWrongly, match=r"holds no score.json: give the folder of an evaluation"):
        read_results(tmp_path)


def test_an_unfinished_evaluation_has_no_score(tmp_path: Path) -> None:
    path = folder(tmp_path / "score", ROWS, correct=3)
    (path / "score.json").unlink()
    with pytest.raises(AskedWrongly, match="did not finish"):
        read_results(path)


def test_a_folder_with_a_missing_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="question 'q0' has 1 samples; 2 are declared"):
        read_results(folder(tmp_path / "score", ROWS[:3], correct=2))


def test_a_folder_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnswerIsNo, match=r"says 2 correct, samples\.jsonl holds 3; one was changed"):
        read_results(folder(tmp_path / "counts", ROWS, correct=2))
    with pytest.raises(AnswerIsNo, match="does not have the digest eeeeeeeeeeee"):
        read_results(folder(tmp_path / "digest", ROWS, correct=3, digest="e" * 64))


def test_a_score_of_an_earlier_version_whose_protocol_has_fewer_keys_is_still_read(tmp_path: Path) -> None:
    """Its digest is of the keys that there were; a key that came later, at its default, makes no other protocol."""
    path = folder(tmp_path / "score", ROWS, correct=3)
    values = json.loads((path / "score.json").read_text(encoding="utf-8"))
    values["protocol"] = {key: value for key, value in values["protocol"].items() if key != "second_grader"}
    values["protocol_digest"] = digest(values["protocol"])
    assert values["protocol_digest"] != PROTOCOL.digest
    write_json(path / "score.json", values)
    assert read_results(path).protocol == PROTOCOL


def test_some_questions_can_be_left_out_and_not_all_of_them(tmp_path: Path) -> None:
    found = read_results(folder(tmp_path / "score", ROWS, correct=3), name="student")
    kept = found.without(["q0", "elsewhere"])
    assert (kept.questions, kept.counts) == (("q1",), Counts(hits=(1,), samples=(2,)))
    with pytest.raises(AskedWrongly, match="student: no question is left without those 2"):
        found.without(["q0", "q1"])
