"""A final protocol is the task's to the last key, or the score is refused (faults H49)."""

import json
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.measures import evaluation, read_score
from opd.protocol.packages import catalogue
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import sha256
from opd.records.tasks import Measure

FINAL = catalogue.find("arith_tiny")[0].contract.final


def score(folder: Path, **protocol: Any) -> Path:
    """A score as `opd evaluate` writes one, by the task's final protocol but for these keys."""
    said = {
        "benchmark": FINAL.benchmark, "questions": FINAL.questions, "samples_per_question": 4,
        "data_sha256": "0" * 64,
        "prompt": FINAL.prompt, "temperature": FINAL.temperature, "top_p": FINAL.top_p, "top_k": FINAL.top_k,
        "limit_tokens": FINAL.limit_tokens, "seeds": list(FINAL.seeds), "grader": "house", "judge": None,
    } | protocol  # fmt: skip
    values = {
        "benchmark": said["benchmark"], "model": "m", "model_digest": "0" * 64, "protocol": said,
        "protocol_digest": "0" * 64, "mean": 0.5, "stderr": 0.01, "stderr_naive": 0.01, "ci95": [0.4, 0.6],
        "design_effect": 1.0, "icc": 0.0, "stderr_seeds": 0.01, "questions": said["questions"],
        "samples": said["questions"] * len(said["seeds"]), "correct": 1, "cut_short": 0.0, "answered": 1.0,
        "tokens": 1, "mean_tokens": 1.0, "verdicts": {}, "seconds": 1.0, "machine": {},
    }  # fmt: skip
    (folder / "score.json").write_text(json.dumps(values))
    return folder


def test_a_score_by_the_tasks_own_protocol_is_read(tmp_path: Path) -> None:
    assert read_score(score(tmp_path), FINAL).mean == 0.5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("benchmark", "arith_tiny"),
        ("prompt", "{problem} Think."),
        ("temperature", 0.7),
        ("top_p", 0.9),
        ("top_k", 20),
        ("limit_tokens", 63),
        ("questions", 499),
        ("seeds", [42, 43, 44]),
        ("seeds", [42, 43, 44, 46]),
        ("judge", "lenient"),
    ],
)
def test_one_key_of_the_protocol_that_differs_is_no_score(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(AnswerIsNo, match="a score of another protocol: "):
        read_score(score(tmp_path, **{key: value}), FINAL)


def with_file(path: Path, digest: str) -> Measure:
    values = FINAL.resolved() | {"files": [{"source": str(path), "sha256": digest, "rows": 1}]}
    return Measure.model_validate_json(json.dumps(values))


def test_questions_that_the_install_does_not_bring_are_held_against_their_digest(
    tmp_path: Path,
) -> None:
    path = tmp_path / "final.jsonl"
    with pytest.raises(AskedWrongly, match="is not at hand"):
        evaluation(with_file(path, "0" * 64))
    path.write_text('{"id": "1"}\n')
    with pytest.raises(AnswerIsNo, match="the task pins 000000000000…"):
        evaluation(with_file(path, "0" * 64))
    found = evaluation(with_file(path, sha256(path)))
    assert {str(place): source for place, source in found.shown.items()} == {"/questions/final.jsonl": path}
    assert [str(word) for word in found.arguments[-2:]] == ["--data", "/questions"]


def test_what_the_install_brings_needs_no_file_and_a_verifier_is_shown_where_one_judges(tmp_path: Path) -> None:
    assert not evaluation(FINAL).shown
    judged = Measure.model_validate_json(json.dumps(FINAL.resolved() | {"judged": True}))
    found = evaluation(judged, verifier=tmp_path, workers=2)
    assert list(found.shown.values()) == [tmp_path]
    assert [str(word) for word in found.arguments[-4:]] == [
        "--set", "machine.workers=2", "--set", "judge.local.model=/inputs/verifier",
    ]  # fmt: skip
