"""Attempts of several cases on the embedded task, made through the protocol's own tries, with real records of finals.

new_case     `new_case("opus", 1)`: a new attempt of a model, or a further one of it
score        `score(lab, hits)`: everything that leads to a score with so many samples of each question right
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.finished import finish
from opd.evaluate.score import build_score
from opd.protocol.attempts.attempt import RUN, Attempt
from opd.protocol.attempts.verify import founding
from opd.records.attempts import Evaluated, Final, Stage
from opd.records.files import append_lines, write_json
from opd.records.rollouts import StopReason
from opd.records.scores import Judgement, Protocol, Sample, Score, Verdict
from opd.records.tasks import Measure


@pytest.fixture
def new_case(new_lab: Callable[..., Any]) -> Callable[..., Any]:
    def make(model: str, number: int = 1, *, install: str | None = None, **budgets: Any) -> Any:
        lab = new_lab(f"command__arith_tiny__{model}__none{f'__{number}' if number > 1 else ''}", **budgets)
        values = json.loads((lab.folder / RUN).read_text())
        judge = {"install_sha256": install} if install else {}
        write_json(lab.folder / RUN, values | {"model": model} | judge)
        (lab.folder / "events.jsonl").unlink()  # of the attempt without a model
        lab.attempt = Attempt(lab.folder)
        lab.attempt.events.add("created", actor="operator", files=founding(lab.folder))
        return lab

    return make


@pytest.fixture
def score() -> Callable[..., None]:
    def do(lab: Any, *hits: Sequence[int], grader: str = "house") -> None:
        """A final for each list of hits, at steps 10, 20 …"""
        steps = tuple(10 * place for place in range(1, len(hits) + 1))
        lab.explore()
        lab.formal(steps=steps)
        for step in steps:
            lab.validate(step)
        for step, counts in zip(steps, hits, strict=True):
            _final(lab, step, counts, grader)

    return do


def _final(lab: Any, step: int, hits: Sequence[int], grader: str) -> None:
    place = lab.attempt.place(Stage.FINAL, step)
    measure = lab.attempt.task.contract.final
    with lab.trying(place, lab.receipts(f"validation/{place.folder.name}")) as this:
        score = _evaluation(this.folder / "evaluation", hits, measure, grader)
        facts: Mapping[str, Any] = {
            "step": step, "artifact_sha256": lab.artifact(step, "formal/attempt-001"), "benchmark": measure.benchmark,
            "protocol_sha256": score.protocol_digest, "evaluator_sha256": lab.attempt.identity.install_sha256,
            "correct": score.correct, "samples": score.samples, "mean": score.mean, "stderr": score.stderr,
            "cut_short": 0.0, "seconds": 1.0, "missing": None,
        }  # fmt: skip
        this.end(Evaluated.SCORED, Final.model_validate(facts))


def _evaluation(folder: Path, hits: Sequence[int], measure: Measure, grader: str) -> Score:
    protocol = Protocol(
        benchmark=measure.benchmark, questions=len(hits), samples_per_question=len(measure.seeds),
        data_sha256="d" * 64, prompt=measure.prompt, temperature=measure.temperature, top_p=measure.top_p,
        top_k=measure.top_k, limit_tokens=measure.limit_tokens, seeds=measure.seeds, grader=grader,
    )  # fmt: skip
    judged = {
        right: Judgement(
            verdict=Verdict.CORRECT if right else Verdict.WRONG, extracted="1", stage="integer", reason=""
        )
        for right in (False, True)
    }
    rows = [
        Sample(
            question=f"q{place:03}", sample=sample, seed=seed, response="1", tokens=4, stop=StopReason.EOS, gold="1",
            judgement=judged[sample < count],
        )
        for place, count in enumerate(hits)
        for sample, seed in enumerate(measure.seeds)
    ]  # fmt: skip
    folder.mkdir()
    append_lines(folder / "samples.jsonl", [row.resolved() for row in rows])
    score = build_score(rows, protocol=protocol, model="m", model_digest="0" * 64, seconds=1.0, machine={})
    return finish(folder, score, questions=[f"q{place:03}" for place in range(len(hits))])
