"""What every benchmark promises; a new file in `evaluate/benchmarks/` is tested by being there."""

from pathlib import Path

import pytest

from opd.evaluate.benchmark import Question, find, names, read_questions
from opd.grading.grader import Grader
from opd.models.chat import user_text
from opd.records.places import SHIPPED


def questions(name: str, shared: Path) -> list[Question]:
    benchmark = find(name)
    data = None if benchmark.data.startswith(SHIPPED) else shared / "data" / benchmark.data
    return read_questions(benchmark, data)


@pytest.mark.parametrize("name", names())
def test_the_file_has_the_declared_digest_and_counts(name: str, shared: Path) -> None:
    benchmark = find(name)
    assert benchmark.name == name
    assert len(questions(name, shared)) == benchmark.questions == benchmark.rows


@pytest.mark.parametrize("name", names())
def test_every_gold_equals_itself_in_a_box(name: str, shared: Path) -> None:
    golds = [question.gold for question in questions(name, shared)]
    with Grader() as grader:
        judgements = grader.grade([(f"so it is \\boxed{{{gold}}}", gold, False) for gold in golds])
    assert [gold for gold, judged in zip(golds, judgements, strict=True) if not judged.verdict.correct] == []


@pytest.mark.parametrize("name", names())
def test_no_two_prompts_and_no_two_ids_are_alike(name: str, shared: Path) -> None:
    asked = questions(name, shared)
    prompts = {user_text(find(name).prompt, question.problem) for question in asked}
    assert len(prompts) == len({question.id for question in asked}) == len(asked)


@pytest.mark.parametrize("name", names())
def test_the_protocol_repeats_and_a_smaller_one_is_another(name: str) -> None:
    benchmark = find(name)
    assert benchmark.protocol(grader="g").digest == find(name).protocol(grader="g").digest
    fewer = benchmark.smaller(questions=benchmark.questions - 1, samples=None)
    assert fewer.protocol(grader="g").digest != benchmark.protocol(grader="g").digest
    assert benchmark.protocol(grader="another").digest != benchmark.protocol(grader="g").digest
