"""The questions of a benchmark: in order, all there, each with an answer, from the file that was declared."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from opd.evaluate.benchmark import Benchmark, QuestionFile, find
from opd.evaluate.questions import read_questions
from opd.records.errors import AskedWrongly

ROWS = [{"id": f"q{n}", "problem": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(5)]


def written(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def declared(*paths: Path, rows: int = 5, questions: int | None = None, **changes: str) -> Benchmark:
    files = tuple(
        QuestionFile(data=path.name, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), rows=rows, **changes)
        for path in paths
    )
    return Benchmark(name="sums", files=files, questions=questions or rows * len(paths), seeds=(1, 2), limit_tokens=8)


def test_the_questions_come_in_the_order_of_the_file_with_their_row(tmp_path: Path) -> None:
    path = written(tmp_path / "sums.jsonl", ROWS)
    found = read_questions(declared(path), path)
    assert [(q.row, q.id, q.problem, q.gold) for q in found] == [
        (n, f"q{n}", f"What is {n} + 1?", str(n + 1)) for n in range(5)
    ]


def test_a_file_that_lost_a_row_is_refused_even_with_its_own_digest(tmp_path: Path) -> None:
    """E76: a denominator that is counted moves when a row is lost; here it is declared."""
    path = written(tmp_path / "sums.jsonl", ROWS[:4])
    with pytest.raises(AskedWrongly, match="has 4 questions, sums has 5"):
        read_questions(declared(path), path)


def test_a_changed_file_is_refused_by_its_digest(tmp_path: Path) -> None:
    path = written(tmp_path / "sums.jsonl", ROWS)
    benchmark = declared(path)
    written(path, [*ROWS[:4], ROWS[4] | {"answer": "6"}])
    with pytest.raises(AskedWrongly, match="has SHA-256"):
        read_questions(benchmark, path)


@pytest.mark.parametrize("gold", ["", "   "])
def test_an_empty_gold_is_refused_when_the_file_is_read(tmp_path: Path, gold: str) -> None:
    """E73: nothing may equal it, and nobody should find that out from a score."""
    path = written(tmp_path / "sums.jsonl", [*ROWS[:4], ROWS[4] | {"answer": gold}])
    with pytest.raises(AskedWrongly):
        read_questions(declared(path), path)


def test_an_id_that_stands_twice_is_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    path = written(tmp_path / "sums.jsonl", [*ROWS[:4], ROWS[4] | {"id": "q0"}])
    with pytest.raises(AskedWrongly, match="1 ids stand there more than once, q0 first"):
        read_questions(declared(path), path)


def test_a_row_without_a_field_is_named(tmp_path: Path) -> None:
    rows = [dict(row) for row in ROWS]
    del rows[3]["problem"]
    path = written(tmp_path / "sums.jsonl", rows)
    with pytest.raises(AskedWrongly, match=r"row 3.*problem"):
        read_questions(declared(path), path)


def test_two_files_follow_each_other_and_their_rows_are_counted_through(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a.jsonl", ROWS[:2]), written(tmp_path / "b.jsonl", ROWS[2:4])
    found = read_questions(declared(first, second, rows=2), tmp_path)
    assert [(one.row, one.id) for one in found] == [(0, "q0"), (1, "q1"), (2, "q2"), (3, "q3")]
    fewer = read_questions(declared(first, second, rows=2, questions=3), tmp_path)
    assert [one.id for one in fewer] == ["q0", "q1", "q2"]


def test_two_files_that_number_alike_are_refused_and_kept_apart_by_their_rows(tmp_path: Path) -> None:
    """One id for two questions would count their samples as those of one."""
    first, second = written(tmp_path / "a.jsonl", ROWS[:2]), written(tmp_path / "b.jsonl", ROWS[:2])
    with pytest.raises(AskedWrongly, match=r'2 ids stand there more than once, q0 first.*id = ""'):
        read_questions(declared(first, second, rows=2), tmp_path)
    found = read_questions(declared(first, second, rows=2, id=""), tmp_path)
    assert [one.id for one in found] == ["0", "1", "2", "3"]


def test_a_file_of_the_two_is_not_enough(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a.jsonl", ROWS[:2]), written(tmp_path / "b.jsonl", ROWS[2:4])
    with pytest.raises(AskedWrongly, match=r"has 2 files, a\.jsonl and b\.jsonl; give their folder"):
        read_questions(declared(first, second, rows=2), first)


def test_aime_24_and_25_are_sixty_questions_with_integer_answers(shared: Path) -> None:
    found = read_questions(find("aime24_25"), shared / "data")
    assert len({question.id for question in found}) == 60
    assert [question.id.partition("-")[0] for question in found] == ["aime24"] * 30 + ["aime25"] * 30
    assert all(0 <= int(question.gold) <= 999 for question in found)
    assert found[11].gold == "385"  # an early file had 384 for 2024 I-12


def test_the_last_mark_starts_the_gold(tmp_path: Path) -> None:
    rows = [{"question": "How many?", "answer": "4 * 4.5 = <<4*4.5=18>>18 #### no\nso it is\n#### 1,018 "}]
    path = written(tmp_path / "gsm.jsonl", rows)
    (found,) = read_questions(declared(path, rows=1, id="", problem="question", answer_after="####"), path)
    assert (found.id, found.problem, found.gold) == ("0", "How many?", "1,018")


def test_a_gold_without_its_mark_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "gsm.jsonl", [{"id": "a", "problem": "How many?", "answer": "18"}])
    with pytest.raises(AskedWrongly, match=r"row 0 .* no '####' in field 'answer'"):
        read_questions(declared(path, rows=1, answer_after="####"), path)


@pytest.mark.parametrize(
    ("value", "gold"), [(27.0, "27"), (27, "27"), (0.5, "0.5"), (-3, "-3"), (10**20, str(10**20)), ("27.0", "27.0")]
)
def test_a_number_is_taken_as_its_text(tmp_path: Path, value: object, gold: str) -> None:
    """AMC 2023 goes around with answers such as 27.0 and ids such as 0."""
    path = written(tmp_path / "amc.jsonl", [{"id": 0, "problem": "How many?", "answer": value}])
    (found,) = read_questions(declared(path, rows=1), path)
    assert (found.id, found.gold) == ("0", gold)


@pytest.mark.parametrize("value", [True, None, ["27.0"], {"value": 27}])
def test_what_is_neither_text_nor_number_is_no_answer(tmp_path: Path, value: object) -> None:
    path = written(tmp_path / "amc.jsonl", [{"id": "a", "problem": "How many?", "answer": value}])
    with pytest.raises(AskedWrongly, match=r"row 0 .*'answer'"):
        read_questions(declared(path, rows=1), path)


def test_a_file_that_is_nowhere_is_said_with_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AskedWrongly, match=r"math500\.jsonl is not here and not in data/; give --data .*40a4d694"):
        read_questions(find("math500"))
    with pytest.raises(AskedWrongly, match="does not exist; math500 needs the file with SHA-256 40a4d694"):
        read_questions(find("math500"), tmp_path / "gone.jsonl")
