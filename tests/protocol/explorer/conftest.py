"""Measurements without a model.

evaluated    `evaluated(folder, hits)`: what `opd evaluate` leaves, with so many of each question's samples right
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from opd.evaluate.finished import finish
from opd.evaluate.score import build_score
from opd.protocol.packages import catalogue
from opd.records.files import append_lines
from opd.records.rollouts import StopReason
from opd.records.scores import Judgement, Protocol, Sample, Score, Verdict
from opd.records.tasks import Measure

Evaluated = Callable[[Path, Sequence[int]], Score]


@pytest.fixture(scope="session")
def evaluated() -> Evaluated:
    """By the proxy of the embedded task, with the product's own records and statistics."""
    measure = catalogue.find("arith_tiny")[0].contract.proxy
    return lambda folder, hits: write_evaluation(folder, hits, measure)


def write_evaluation(folder: Path, hits: Sequence[int], measure: Measure) -> Score:
    protocol = Protocol(
        benchmark=measure.benchmark, questions=len(hits), samples_per_question=len(measure.seeds),
        data_sha256="d" * 64, prompt=measure.prompt, temperature=measure.temperature, top_p=measure.top_p,
        top_k=measure.top_k, limit_tokens=measure.limit_tokens, seeds=measure.seeds, grader="house",
    )  # fmt: skip
    rows = [
        Sample(
            question=f"q{place}", sample=sample, seed=seed, response="\\boxed{1}", tokens=4, stop=StopReason.EOS,
            gold="1",
            judgement=Judgement(
                verdict=Verdict.CORRECT if sample < count else Verdict.WRONG, extracted="1", stage="integer",
                reason="",
            ),
        )
        for place, count in enumerate(hits)
        for sample, seed in enumerate(measure.seeds)
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    append_lines(folder / "samples.jsonl", [row.resolved() for row in rows])
    score = build_score(rows, protocol=protocol, model="m", model_digest="0" * 64, seconds=1.0, machine={})
    return finish(folder, score, questions=[f"q{place}" for place in range(len(hits))])
