"""An evaluation takes the engine where it fits; the answers are those of transformers' own forward."""

from pathlib import Path

import pytest

from opd.evaluate.benchmark import find
from opd.evaluate.run import evaluate
from opd.evaluate.settings import Evaluation
from opd.records.files import read_lines


@pytest.mark.patient
def test_a_score_is_the_same_with_either_sampler_and_says_which_it_was(tmp_path: Path) -> None:
    asked = Evaluation(benchmark=find("arith_tiny").smaller(questions=24, samples=2))
    answers = {}
    for name, said in (("auto", "engine"), ("plain", "plain")):
        out = tmp_path / name
        score = evaluate(asked.changed([f"machine.engine={name}"]), "opd:arith_tiny/student", out)
        assert score.machine["sampler"] == said
        answers[name] = [
            (line["question"], line["sample"], line["response"]) for line in read_lines(out / "samples.jsonl")
        ]
    assert answers["auto"] == answers["plain"]
    assert len(answers["auto"]) == 48
