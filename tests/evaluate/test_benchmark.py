"""A benchmark's declaration: what is refused, and what becomes part of the protocol."""

import hashlib
import json
from pathlib import Path

import pytest

from opd.evaluate.benchmark import Benchmark, find, names, read_questions
from opd.records.errors import AskedWrongly

ROWS = [{"id": f"q{n}", "problem": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(5)]


def written(folder: Path, rows: list[dict[str, str]]) -> Path:
    path = folder / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def declared(path: Path, **changes: object) -> Benchmark:
    values: dict[str, object] = {
        "name": "sums",
        "data": "sums.jsonl",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": 5,
        "questions": 5,
        "seeds": (1, 2),
        "limit_tokens": 8,
    }
    return Benchmark(**(values | changes))  # type: ignore[arg-type]


def test_the_questions_come_in_the_order_of_the_file_with_their_row(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    found = read_questions(declared(path), path)
    assert [(q.row, q.id, q.problem, q.gold) for q in found] == [
        (n, f"q{n}", f"What is {n} + 1?", str(n + 1)) for n in range(5)
    ]


def test_a_file_that_lost_a_row_is_refused_even_with_its_own_digest(tmp_path: Path) -> None:
    """E76: a denominator that is counted moves when a row is lost; here it is declared."""
    path = written(tmp_path, ROWS[:4])
    with pytest.raises(AskedWrongly, match="has 4 questions, sums has 5"):
        read_questions(declared(path), path)


def test_a_changed_file_is_refused_by_its_digest(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    benchmark = declared(path)
    written(tmp_path, [*ROWS[:4], ROWS[4] | {"answer": "6"}])
    with pytest.raises(AskedWrongly, match="has SHA-256"):
        read_questions(benchmark, path)


@pytest.mark.parametrize("gold", ["", "   "])
def test_an_empty_gold_is_refused_when_the_file_is_read(tmp_path: Path, gold: str) -> None:
    """E73: nothing may equal it, and nobody should find that out from a score."""
    path = written(tmp_path, [*ROWS[:4], ROWS[4] | {"answer": gold}])
    with pytest.raises(AskedWrongly):
        read_questions(declared(path), path)


def test_an_id_that_stands_twice_is_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    path = written(tmp_path, [*ROWS[:4], ROWS[4] | {"id": "q0"}])
    with pytest.raises(AskedWrongly, match="1 ids stand there more than once, q0 first"):
        read_questions(declared(path), path)


def test_a_row_without_a_field_is_named(tmp_path: Path) -> None:
    rows = [dict(row) for row in ROWS]
    del rows[3]["problem"]
    path = written(tmp_path, rows)
    with pytest.raises(AskedWrongly, match=r"row 3.*problem"):
        read_questions(declared(path), path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"questions": 6}, "questions = 6"),
        ({"seeds": ()}, "at least one"),
        ({"seeds": (3, 3)}, "no two alike"),
        ({"prompt": "Solve it."}, "{problem}"),
        ({"prompt": "{problem} in \\boxed{{}}"}, "doubled braces"),
        ({"top_p": 0.0}, "top_p"),
        ({"limit_tokens": 0}, "limit_tokens"),
    ],
)
def test_a_declaration_that_can_not_be_is_refused(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + words.replace("{", "\\{").replace("}", "\\}")):
        declared(written(tmp_path, ROWS), **changes)


def test_an_unknown_benchmark_is_answered_with_those_there_are() -> None:
    with pytest.raises(AskedWrongly, match="arith_tiny, arith_tiny_final"):
        find("arith_tinny")
    assert {"arith_tiny", "arith_tiny_final", "math500"} <= set(names())


def test_the_proxy_of_the_contract_is_declared_as_the_contract_says() -> None:
    proxy = find("math500")
    assert proxy.questions * len(proxy.seeds) == 2000
    assert (proxy.temperature, proxy.top_p, proxy.top_k, proxy.limit_tokens) == (0.7, 0.9, 0, 12_288)
    assert proxy.seeds == tuple(42 + i for i in range(4))
    assert proxy.prompt == "{problem} Please reason step by step, and put your final answer within \\boxed{}."
