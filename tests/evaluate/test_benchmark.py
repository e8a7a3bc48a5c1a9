"""A benchmark's declaration: what is refused, and what becomes part of the protocol."""

import random
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import Benchmark, QuestionFile, find, names
from opd.records.errors import AskedWrongly
from opd.records.files import digest

FILE = QuestionFile(data="sums.jsonl", sha256="5d" * 32, rows=5)


def declared(**changes: object) -> Benchmark:
    values: dict[str, object] = {
        "name": "sums",
        "files": (FILE,),
        "questions": 5,
        "seeds": (1, 2),
        "limit_tokens": 8,
    }
    return Benchmark(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"questions": 6}, "questions = 6"),
        ({"files": ()}, "no files"),
        ({"seeds": ()}, "at least one"),
        ({"seeds": (3, 3)}, "no two alike"),
        ({"prompt": "Solve it."}, "{problem}"),
        ({"prompt": "{problem} in \\boxed{{}}"}, "doubled braces"),
        ({"top_p": 0.0}, "top_p"),
        ({"limit_tokens": 0}, "limit_tokens"),
        ({"context_tokens": 8}, "no room for a prompt"),
        ({"name": ""}, "name"),
    ],
)
def test_a_declaration_that_can_not_be_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + words.replace("{", "\\{").replace("}", "\\}")):
        declared(**changes)


@pytest.mark.parametrize("sha256", ["", "5d", "5D" * 32, "5d" * 33, "z" * 64])
def test_a_digest_is_64_digits(sha256: str) -> None:
    with pytest.raises(ValueError, match="sha256"):
        QuestionFile(data="x", sha256=sha256, rows=1)


def test_an_unknown_benchmark_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        AskedWrongly, match=r"aime24, aime24_25, aime25, .*arith_tiny, arith_tiny_final, gsm8k, math500"
    ):
        find("arith_tinny")


def test_a_file_of_questions_is_no_benchmark_yet() -> None:
    with pytest.raises(AskedWrongly, match=r"opd show benchmark mine\.jsonl"):
        find("mine.jsonl")


def test_the_proxy_of_the_contract_is_declared_as_the_contract_says() -> None:
    proxy = find("math500")
    assert proxy.questions * len(proxy.seeds) == 2000
    assert (proxy.temperature, proxy.top_p, proxy.top_k, proxy.limit_tokens) == (0.7, 0.9, 0, 12_288)
    assert proxy.context_tokens == 13_312
    assert proxy.seeds == tuple(42 + i for i in range(4))
    assert proxy.prompt == "{problem} Please reason step by step, and put your final answer within \\boxed{}."


def test_the_final_of_the_contract_is_declared_as_the_contract_says() -> None:
    final = find("aime24_25")
    assert final.questions * len(final.seeds) == 1920
    assert (final.temperature, final.top_p, final.top_k, final.limit_tokens) == (0.7, 0.9, 0, 31_744)
    assert final.context_tokens == 32_768
    assert final.seeds == tuple(random.Random(42).sample(range(2**31 - 1), 32))
    assert final.prompt == find("math500").prompt
    assert final.files == find("aime24").files + find("aime25").files


@pytest.mark.parametrize("name", ["aime24", "aime25", "aime25_opencompass"])
def test_a_part_of_the_final_is_asked_as_the_final_is(name: str) -> None:
    said = {"name", "files", "questions"}
    assert find(name).model_dump(exclude=said) == find("aime24_25").model_dump(exclude=said)


def test_the_digest_of_a_plain_file_is_that_of_its_data_and_of_several_one_over_all() -> None:
    other = FILE.model_copy(update={"sha256": "6e" * 32})
    assert declared().data_sha256 == FILE.sha256
    both = declared(files=(FILE, other), questions=10).data_sha256
    assert both not in {FILE.sha256, other.sha256}
    assert both != declared(files=(other, FILE), questions=10).data_sha256


@pytest.mark.parametrize(
    "change", [{"id": ""}, {"problem": "problem_alt"}, {"answer": "answer_raw"}, {"answer_after": "####"}]
)
def test_another_reading_of_the_same_file_is_other_data(change: dict[str, str]) -> None:
    """AIME 2025 has two wordings in one file, and a score on one says nothing about the other."""
    read_otherwise = declared(files=(FILE.model_copy(update=change),))
    assert read_otherwise.data_sha256 != FILE.sha256
    assert read_otherwise.protocol(grader="g").digest != declared().protocol(grader="g").digest


def test_where_a_file_lies_is_no_part_of_the_protocol() -> None:
    elsewhere = declared(files=(FILE.model_copy(update={"data": "/elsewhere/sums.jsonl"}),))
    assert elsewhere.protocol(grader="g") == declared().protocol(grader="g")


def test_a_second_grader_and_a_judge_make_another_protocol() -> None:
    plain = declared().protocol(grader="house:1")
    others = [
        declared().protocol(grader="house:1", second_grader="reference:2"),
        declared().protocol(grader="house:1", judge="Verifier:3"),
        declared().protocol(grader="house:1", judge="Verifier:4"),
    ]
    assert len({protocol.digest for protocol in (plain, *others)}) == 4
    assert plain.digest == digest(plain.resolved())


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"questions": None, "samples": None}, "sums"),
        ({"questions": 5, "samples": 2}, "sums"),
        ({"questions": 3, "samples": None}, "sums (3 × 2 of 5 × 2)"),
        ({"questions": None, "samples": 1}, "sums (5 × 1 of 5 × 2)"),
    ],
)
def test_a_smaller_one_says_so_in_its_name(asked: dict[str, int | None], name: str) -> None:
    """H18: what was asked on a part is never printed as if it had been asked on all."""
    smaller = declared().smaller(**asked)
    assert smaller.name == name
    assert (smaller.protocol(grader="g").digest == declared().protocol(grader="g").digest) == (name == "sums")


@pytest.mark.parametrize("asked", [{"questions": 0, "samples": None}, {"questions": 6, "samples": None}])
def test_a_smaller_one_is_not_empty_and_not_larger(asked: dict[str, int | None]) -> None:
    with pytest.raises(AskedWrongly, match="between 1 and 5"):
        declared().smaller(**asked)


TOML = """
name = "mine"
questions = 2
seeds = [1, 2, 3]
limit_tokens = 16
prompt = "{{problem}} Answer in a box."

[[files]]
data = "mine.jsonl"
sha256 = "{sha256}"
rows = 2
"""


def test_a_file_declares_a_benchmark_and_its_data_may_lie_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opd.evaluate.questions import read_questions
    from opd.records.files import sha256

    (tmp_path / "mine.jsonl").write_text(
        '{"id": "a", "problem": "1+1?", "answer": "2"}\n{"id": "b", "problem": "2+2?", "answer": "4"}\n'
    )
    (tmp_path / "mine.toml").write_text(TOML.format(sha256=sha256(tmp_path / "mine.jsonl")))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = find("../mine.toml")
    assert (found.name, found.seeds, found.prompt) == ("mine", (1, 2, 3), "{problem} Answer in a box.")
    assert [question.gold for question in read_questions(found)] == ["2", "4"]


def test_a_wrong_key_of_a_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TOML.format(sha256="0" * 64).replace("limit_tokens", "limit_token"))
    with pytest.raises(AskedWrongly, match="did you mean 'limit_tokens'"):
        find(str(tmp_path / "mine.toml"))


def test_every_name_is_the_name_of_a_file_in_the_folder() -> None:
    assert {"arith_tiny", "arith_tiny_final", "math500", "aime24_25"} <= set(names())
    assert all(find(name).name == name for name in names())


def test_settings_of_another_kind_are_no_benchmark(tmp_path: Path) -> None:
    path: Any = tmp_path / "x.json"
    path.write_text("[]")
    with pytest.raises(AskedWrongly, match="holds a list"):
        find(str(path))
