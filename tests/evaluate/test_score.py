"""What a score says of its samples, against direct counts."""

import itertools
import random
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.score import build_score
from opd.records.errors import AnswerIsNo
from opd.records.rollouts import StopReason
from opd.records.scores import Judgement, Opinion, Protocol, Sample, Score, Verdict

QUESTIONS, SAMPLES = 5, 4
FILE = QuestionFile(data="sums.jsonl", sha256="d" * 64, rows=QUESTIONS)
SUMS = Benchmark(name="sums", files=(FILE,), questions=QUESTIONS, seeds=(42, 43, 44, 45), limit_tokens=96)
PROTOCOL = SUMS.protocol(grader="house")


def sample(question: int, number: int, answer: str | None, **changes: Any) -> Sample:
    """Its gold is 1; the box stood inside the reasoning where the answer is 3."""
    verdict = Verdict.CORRECT if answer == "1" else Verdict.NO_ANSWER if answer is None else Verdict.WRONG
    judgement = Judgement(
        verdict=verdict, extracted=answer, stage="integer", reason="by value", inside_reasoning=answer == "3"
    )
    values: dict[str, Any] = {
        "question": f"q{question}",
        "sample": number,
        "seed": 42 + number,
        "response": "…",
        "tokens": 4,
        "stop": StopReason.EOS,
        "gold": "1",
        "judgement": judgement,
    }
    return Sample(**(values | changes))


@pytest.fixture
def answers() -> dict[tuple[int, int], str | None]:
    drawn = random.Random(5)
    return {
        (question, number): drawn.choice(["1", "1", "2", "3", None])
        for question in range(QUESTIONS)
        for number in range(SAMPLES)
    }


def scored(samples: list[Sample]) -> Score:
    return build_score(samples, protocol=PROTOCOL, model="m", model_digest="d" * 64, seconds=1.0, machine={})


def test_pass_and_majority_at_k_are_means_over_all_draws_of_k(answers: dict[tuple[int, int], str | None]) -> None:
    score = scored([sample(*key, answer) for key, answer in answers.items()])
    assert list(score.pass_at_k) == list(score.majority_at_k) == [1, 2, 4]
    for k in (1, 2, 4):
        passed, majority = [], []
        for question in range(QUESTIONS):
            draws = list(itertools.combinations([answers[question, number] for number in range(SAMPLES)], k))
            passed.append(statistics.mean("1" in draw for draw in draws))
            majority.append(statistics.mean(share_of_the_lead(draw) for draw in draws))
        for found, expected in ((score.pass_at_k[k], passed), (score.majority_at_k[k], majority)):
            assert found.mean == pytest.approx(statistics.mean(expected))
            assert found.stderr == pytest.approx(statistics.stdev(expected) / QUESTIONS**0.5)
    assert score.pass_at_k[1].mean == pytest.approx(score.mean)  # which is avg@4
    assert score.pass_at_k[1].stderr == pytest.approx(score.stderr)


def share_of_the_lead(draw: tuple[str | None, ...]) -> float:
    """1 where the right answer leads alone, its share where it leads with others, 0 elsewhere."""
    votes = Counter(answer for answer in draw if answer is not None)
    lead = [answer for answer, count in votes.items() if count == max(votes.values())]
    return ("1" in lead) / len(lead) if lead else 0.0


def test_the_share_that_was_cut_short_has_an_error_clustered_by_question() -> None:
    """All samples of one question: its four are worth one."""
    rows = [
        sample(question, number, "1", stop=StopReason.LENGTH if question == 2 else StopReason.EOS)
        for question in range(QUESTIONS)
        for number in range(SAMPLES)
    ]
    score = scored(rows)
    assert score.cut_short == pytest.approx(0.2)
    assert score.cut_short_stderr == pytest.approx(statistics.stdev([0, 0, 1, 0, 0]) / QUESTIONS**0.5)


def test_a_box_inside_the_reasoning_counts_and_is_reported(answers: dict[tuple[int, int], str | None]) -> None:
    score = scored([sample(*key, answer) for key, answer in answers.items()])
    assert score.inside_reasoning == pytest.approx(sum(answer == "3" for answer in answers.values()) / 20)
    assert score.answered == pytest.approx(sum(answer is not None for answer in answers.values()) / 20)


def test_disagreements_are_counted_by_whoever_gave_the_opinion() -> None:
    def opinion(by: str, verdict: Verdict) -> Opinion:
        return Opinion(by=by, verdict=verdict, reason="…")

    rows = [
        sample(
            question,
            number,
            "1" if question else "2",
            opinions=(
                opinion("strict", Verdict.WRONG),
                opinion("broken", Verdict.GRADER_FAILED),
                opinion("same", Verdict.CORRECT if question else Verdict.UNREADABLE),
            ),
        )
        for question in range(QUESTIONS)
        for number in range(SAMPLES)
    ]
    assert scored(rows).disagreements == {"same": 0, "strict": 16}


def test_a_judge_that_failed_on_one_sample_leaves_no_score() -> None:
    """H48."""
    rows = [sample(question, number, "1") for question in range(QUESTIONS) for number in range(SAMPLES)]
    failed = rows[7].judgement.model_copy(update={"verdict": Verdict.JUDGE_FAILED, "reason": "no connection"})
    rows[7] = rows[7].model_copy(update={"judgement": failed})
    with pytest.raises(AnswerIsNo, match=r"1 of 20 samples .*no connection"):
        scored(rows)


def test_a_score_says_everything_that_it_depends_on(sums: Any, tmp_path: Path) -> None:
    """E76: counts, cap, clip rate, clustered error, prompt and digests; without them nobody can repeat it."""
    score = sums.evaluated(sums.half_right(), tmp_path / "out")
    said = score.resolved()
    assert (said["samples"], said["questions"], said["protocol"]["limit_tokens"]) == (12, 6, 64)
    assert (said["cut_short"], said["cut_short_stderr"]) == (0.0, 0.0)
    assert said["stderr"] == 0.0 < said["stderr_naive"]  # every question is half right
    assert said["protocol"]["prompt"] == "{problem}"
    assert said["protocol"]["seeds"] == [7, 8]
    assert said["protocol_digest"] == Protocol(**(said["protocol"] | {"seeds": (7, 8)})).digest
    assert said["machine"]["dtype"] == "float32"
    assert said["seconds"] > 0
