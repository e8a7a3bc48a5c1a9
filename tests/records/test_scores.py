"""What an evaluation writes comes back as it was; what is undefined is null, never NaN and never zero."""

import json

import pytest
from pydantic import ValidationError

from opd.records.rollouts import StopReason
from opd.records.scores import Comparison, Judgement, OverQuestions, Protocol, Sample, Score, Verdict
from opd.records.settings import validated

PROTOCOL = Protocol(
    benchmark="arith_tiny",
    questions=1,
    samples_per_question=2,
    data_sha256="5d" * 32,
    prompt="{problem}",
    temperature=0.7,
    top_p=0.9,
    top_k=0,
    limit_tokens=64,
    seeds=(42, 43),
    grader="opd.grading 1f2e3d4c",
)
SAMPLE = Sample(
    question="7",
    sample=1,
    seed=43,
    response="<think>\n1+1=2\n</think>\\boxed{2}",
    tokens=12,
    stop=StopReason.EOS,
    gold="2",
    judgement=Judgement(verdict=Verdict.CORRECT, extracted="2", stage="string", reason="equal"),
)
SCORE = Score(
    benchmark="arith_tiny",
    model="opd:arith_tiny/student",
    model_digest="ab" * 32,
    protocol=PROTOCOL,
    protocol_digest=PROTOCOL.digest,
    mean=0.5,
    stderr=None,
    stderr_naive=0.5,
    ci95=None,
    design_effect=None,
    icc=None,
    stderr_seeds=0.5,
    pass_at_k={1: OverQuestions(mean=0.5, stderr=None), 2: OverQuestions(mean=1.0, stderr=None)},
    majority_at_k={1: OverQuestions(mean=0.5, stderr=None), 2: OverQuestions(mean=0.5, stderr=None)},
    cut_short_stderr=None,
    inside_reasoning=0.5,
    disagreements={"reference": 1},
    questions=1,
    samples=2,
    correct=1,
    cut_short=0.0,
    answered=1.0,
    tokens=24,
    mean_tokens=12.0,
    verdicts={"correct": 1, "wrong": 1},
    seconds=0.25,
    machine={"device": "cpu"},
)
COMPARISON = Comparison(
    a="a",
    b="b",
    mean_a=0.25,
    mean_b=0.5,
    difference=0.25,
    stderr=0.125,
    stderr_fixed_questions=None,
    ci95=(-0.0625, 0.5625),
    p=0.0625,
    p_permutation=0.125,
    detectable=0.5,
    distinguishable=False,
    questions=8,
    samples_a=16,
    samples_b=16,
    verdict="cannot be told apart",
)


@pytest.mark.parametrize("record", [PROTOCOL, SAMPLE, SCORE, COMPARISON])
def test_a_record_comes_back_from_its_json_as_it_was(record):
    text = json.dumps(record.resolved(), allow_nan=False)
    assert validated(type(record), json.loads(text), source="score.json") == record


@pytest.mark.parametrize("field", ["mean", "stderr", "icc", "seconds"])
def test_an_undefined_figure_makes_no_score(field):
    with pytest.raises(ValidationError, match=field):
        Score(**(dict(SCORE) | {field: float("nan")}))


def test_an_undefined_bound_makes_no_score():
    with pytest.raises(ValidationError, match="ci95"):
        Score(**(dict(SCORE) | {"ci95": (0.1, float("inf"))}))


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.6},
        {"top_p": 0.95},
        {"limit_tokens": 65},
        {"seeds": (42, 44)},
        {"prompt": "{problem} "},
        {"data_sha256": "5e" * 32},
        {"grader": "opd.grading 00000000"},
    ],
)
def test_whatever_a_score_depends_on_changes_the_digest_of_its_protocol(change):
    assert Protocol(**(dict(PROTOCOL) | change)).digest != PROTOCOL.digest


def test_only_correct_counts_and_only_a_grader_or_a_judge_that_failed_settles_nothing():
    assert [verdict for verdict in Verdict if verdict.correct] == [Verdict.CORRECT]
    assert [verdict for verdict in Verdict if not verdict.settled] == [Verdict.GRADER_FAILED, Verdict.JUDGE_FAILED]
    assert SAMPLE.correct


def test_a_score_that_was_written_before_there_were_opinions_is_still_read():
    """Fields that came later have defaults; a protocol without a judge is one without a judge."""
    old = SCORE.resolved()
    for field in ("pass_at_k", "majority_at_k", "cut_short_stderr", "inside_reasoning", "disagreements"):
        del old[field]
    for field in ("second_grader", "judge"):
        del old["protocol"][field]
    read = validated(Score, old, source="score.json")
    assert (read.mean, read.pass_at_k, read.disagreements, read.inside_reasoning) == (0.5, {}, {}, None)
    assert read.protocol == PROTOCOL
