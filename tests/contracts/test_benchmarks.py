"""What every benchmark promises; a new file in `evaluate/benchmarks/` is tested by being there."""

from pathlib import Path

import pytest

from opd.evaluate.benchmark import Benchmark, find, names
from opd.evaluate.questions import Question, read_questions
from opd.grading.grader import Grader
from opd.models.chat import user_text
from opd.records.places import SHIPPED


@pytest.fixture(params=names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def questions(name: str, request: pytest.FixtureRequest) -> list[Question]:
    benchmark = find(name)
    if all(file.data.startswith(SHIPPED) for file in benchmark.files):
        return read_questions(benchmark)
    own = Path(__file__).parents[2] / "data"
    if _all_there(benchmark, own):
        return read_questions(benchmark, own)
    shared: Path = request.getfixturevalue("shared")
    if not _all_there(benchmark, shared / "data"):
        pytest.skip(
            f"{' and '.join(file.data for file in benchmark.files)} of {name} is neither in data/ nor in shared"
        )
    return read_questions(benchmark, shared / "data")


def _all_there(benchmark: Benchmark, folder: Path) -> bool:
    return all((folder / file.data).is_file() for file in benchmark.files)


def test_the_file_has_the_declared_digest_and_counts(name: str, questions: list[Question]) -> None:
    benchmark = find(name)
    assert benchmark.name == name
    assert len(questions) == benchmark.questions == benchmark.rows


def test_every_gold_equals_itself_in_a_box(questions: list[Question]) -> None:
    golds = [question.gold for question in questions]
    with Grader() as grader:
        judgements = grader.grade([(f"so it is \\boxed{{{gold}}}", gold, False) for gold in golds])
    assert [gold for gold, judged in zip(golds, judgements, strict=True) if not judged.verdict.correct] == []


def test_no_two_prompts_and_no_two_ids_are_alike(name: str, questions: list[Question]) -> None:
    prompts = {user_text(find(name).prompt, question.problem) for question in questions}
    assert len(prompts) == len({question.id for question in questions}) == len(questions)


def used(name: str) -> Benchmark:
    """The benchmark with some file used for each of which it declares no digest."""
    declared = find(name)
    files = [
        file.model_copy(update={"sha256": "5d" * 32, "id": "id", "problem": "problem"}) if file.is_open else file
        for file in declared.files
    ]
    return declared.model_copy(update={"files": tuple(files)})


def test_the_protocol_repeats_and_a_smaller_one_is_another(name: str) -> None:
    benchmark = used(name)
    assert benchmark.protocol(grader="g").digest == used(name).protocol(grader="g").digest
    fewer = benchmark.smaller(questions=benchmark.questions - 1, samples=None)
    assert fewer.protocol(grader="g").digest != benchmark.protocol(grader="g").digest
    assert benchmark.protocol(grader="another").digest != benchmark.protocol(grader="g").digest
