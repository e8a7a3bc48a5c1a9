"""An evaluation, with a sampler that writes what the test decides."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import Benchmark, Question
from opd.evaluate.run import evaluate_model
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.rollouts import Prompt, Rollout, StopReason
from opd.records.scores import Sample, Score

BENCHMARK = Benchmark(name="sums", data="x", sha256="0" * 64, rows=6, questions=6, seeds=(7, 8), limit_tokens=64)
QUESTIONS = [Question(row=n, id=f"q{n}", problem=f"Compute {n}+1.", gold=str(n + 1)) for n in range(6)]


@dataclass
class Scripted:
    """Writes `text(question row, sample)`, and remembers what it was asked."""

    tokenizer: Any
    text: Callable[[int, int], str]
    cut: bool = False
    calls: list[list[int]] = field(default_factory=list)

    def follow(self, version: int) -> None:
        raise AssertionError("an evaluation has one policy")

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        self.calls.append([prompt.row for prompt in prompts])
        return [self.rollout(prompt, sample) for prompt in prompts for sample in range(len(seeds))]

    def rollout(self, prompt: Prompt, sample: int) -> Rollout:
        ids = self.tokenizer(self.text(prompt.row, sample), add_special_tokens=False)["input_ids"]
        ids = tuple(ids) if self.cut else (*ids, self.tokenizer.eos_token_id)
        stop = StopReason.LENGTH if self.cut else StopReason.EOS
        return Rollout(prompt=prompt, sample=sample, token_ids=ids, logp=(0.0,) * len(ids), stop=stop)


@pytest.fixture(scope="module")
def model() -> Any:
    from opd.models.load import find_model, load_model

    return load_model(find_model("opd:arith_tiny/student"), dtype="float32", device="cpu")


def evaluated(model: Any, sampler: Scripted, out: Path, **changes: Any) -> Score:
    asked: dict[str, Any] = {"weights_digest": "d", "machine": {}, "group_questions": 2}
    asked |= {"report": lambda _, found: None, "interrupted": lambda: False} | changes
    return evaluate_model(BENCHMARK, QUESTIONS, model, sampler, out=out, **asked)


def right_half_of_the_time(row: int, sample: int) -> str:
    return f"1+1\n</think>\n\n\\boxed{{{row + 1 + sample}}}"


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]


def test_a_score_counts_what_the_sampler_wrote(model: Any, tmp_path: Path) -> None:
    score = evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), tmp_path / "out")
    assert (score.correct, score.samples, score.questions, score.mean) == (6, 12, 6, 0.5)
    assert score.stderr == 0.0  # every question 1 of 2: nothing varies between questions
    assert score.stderr_naive is not None
    assert score.stderr_naive > 0.1
    assert score.cut_short == 0
    assert score.answered == 1
    assert score.verdicts["wrong"] == 6


def test_each_row_has_its_question_sample_seed_and_the_words_without_the_end_token(
    model: Any, tmp_path: Path
) -> None:
    evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), tmp_path / "out")
    written = rows(tmp_path / "out")
    assert [(row["question"], row["sample"], row["seed"]) for row in written] == [
        (f"q{n}", sample, 7 + sample) for n in range(6) for sample in range(2)
    ]
    assert written[3]["response"] == right_half_of_the_time(1, 1)


def test_a_cut_short_response_without_a_box_is_named_so_and_one_with_a_box_is_graded(
    model: Any, tmp_path: Path
) -> None:
    """E74: clipped rows are counted as clipped; the box that was complete counts all the same."""
    cut = Scripted(model.tokenizer, lambda row, sample: f"\\boxed{{{row + 1}}}" if sample else "1+", cut=True)
    score = evaluated(model, cut, tmp_path / "out")
    assert score.cut_short == 1.0
    assert score.verdicts["cut_short"] == 6
    assert score.correct == 6


def test_an_interrupted_evaluation_goes_on_with_the_missing_groups_only(model: Any, tmp_path: Path) -> None:
    first = Scripted(model.tokenizer, right_half_of_the_time)
    answers = iter([False, False, True])
    with pytest.raises(AnswerIsNo, match="8 samples graded"):
        evaluated(model, first, tmp_path / "out", interrupted=lambda: next(answers))
    second = Scripted(model.tokenizer, right_half_of_the_time)
    told: list[tuple[int, bool]] = []

    def note(samples: Sequence[Sample], *, found: bool) -> None:
        told.append((len(samples), found))

    evaluated(model, second, tmp_path / "out", report=note)
    assert first.calls == [[0, 1], [2, 3]]
    assert second.calls == [[4, 5]]
    assert told == [(8, True), (4, False)]
    assert (
        len({(row["question"], row["sample"]) for row in rows(tmp_path / "out")}) == len(rows(tmp_path / "out")) == 12
    )


def test_a_torn_group_is_completed_and_no_row_is_written_twice(model: Any, tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    for out in (whole, torn):
        evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out)
    (torn / "score.json").unlink()
    lines = (torn / "samples.jsonl").read_text().splitlines(keepends=True)
    (torn / "samples.jsonl").write_text("".join(lines[:5]) + lines[5][:40])
    evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), torn)
    assert (torn / "samples.jsonl").read_text() == (whole / "samples.jsonl").read_text()


def test_a_finished_evaluation_is_not_sampled_again(model: Any, tmp_path: Path) -> None:
    evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), tmp_path / "out")
    again = Scripted(model.tokenizer, right_half_of_the_time)
    assert evaluated(model, again, tmp_path / "out").correct == 6
    assert again.calls == []


def test_the_folder_of_another_model_or_protocol_is_refused_and_left_as_it_is(model: Any, tmp_path: Path) -> None:
    """H18: a result is reused only for exactly what it was asked of."""
    out = tmp_path / "out"
    evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(AskedWrongly, match="differs in model"):
        evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out, weights_digest="e")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_folder_of_something_else_is_refused(model: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(AskedWrongly, match="not an evaluation"):
        evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_row_that_stands_twice_is_refused(model: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out)
    with (out / "samples.jsonl").open("a") as file:
        file.write((out / "samples.jsonl").read_text().splitlines()[0] + "\n")
    with pytest.raises(AskedWrongly, match="there twice"):
        evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out)


def test_a_folder_in_which_another_process_is_at_work_is_refused(model: Any, tmp_path: Path) -> None:
    """Two at once would each write its rows, and leave every row twice."""
    from opd.records.files import alone

    out = tmp_path / "out"
    out.mkdir()
    with alone(out), pytest.raises(AskedWrongly, match="another process is at work"):
        evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out)
    assert list(out.iterdir()) == []
    assert evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out).samples == 12


def test_what_a_crash_left_of_a_first_write_does_not_stand_in_the_way(model: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "protocol.json.partial").write_text("{")
    assert evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out).samples == 12


def test_a_failed_grader_means_no_score_until_it_is_settled(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E70: not wrong, not right: the evaluation has no score, and the same command tries those rows again."""
    from opd.grading import grader
    from opd.records.scores import Judgement, Verdict

    failed = Judgement(verdict=Verdict.GRADER_FAILED, extracted=None, stage="value", reason="killed after 5 s")
    real = grader.Grader.grade

    def first_one_fails(self: Any, answers: Any) -> list[Judgement]:
        judged = real(self, answers)
        return [failed if answer[1] == "3" else one for answer, one in zip(answers, judged, strict=True)]

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(grader.Grader, "grade", first_one_fails)
        with pytest.raises(AnswerIsNo, match="2 of 12 samples could not be graded"):
            evaluated(model, Scripted(model.tokenizer, right_half_of_the_time), out)
    assert not (out / "score.json").exists()
    again = Scripted(model.tokenizer, right_half_of_the_time)
    assert evaluated(model, again, out).correct == 6
    assert again.calls == [[2, 3]]
