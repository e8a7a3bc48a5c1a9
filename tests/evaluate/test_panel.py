"""Who decides, who else is asked, and what is kept of both; and texts that no file likes."""

import dataclasses
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate import panel
from opd.evaluate.judges.exchange import NoReply
from opd.evaluate.judges.settings import JudgeSettings, RecordedJudge
from opd.evaluate.panel import written
from opd.records.errors import AnswerIsNo
from opd.records.generation_table import read_generations
from opd.records.scores import Sample, Verdict
from opd.records.settings import validated

JUDGED = JudgeSettings(recorded=RecordedJudge(file="replaced by the test's own"))


def samples(out: Path) -> list[Sample]:
    lines = (out / "samples.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return [validated(Sample, json.loads(line), source="samples.jsonl") for line in lines]


@pytest.fixture
def judge(judge_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """`judge("A")`: from now on evaluations with a judge have one that replies so; returns who is asked."""

    def set_up(write: Any) -> Any:
        judge, double = judge_of(write)
        monkeypatch.setattr(panel, "open_judge", lambda _settings: judge)
        return double

    return set_up


def test_a_second_grader_is_kept_beside_the_verdict_and_decides_nothing(sums: Any, tmp_path: Path) -> None:
    """2+1 is 3 by the house rules; the reference grader wants an integer where the gold is one."""
    asked = sums.asked(second_grader="reference")
    writer = sums.writer(lambda row, sample: f"\\boxed{{{f'{row}+1' if sample else row + 1}}}")
    score = sums.evaluated(writer, tmp_path / "out", asked=asked)
    assert score.correct == 12
    assert score.disagreements == {"reference": 6}
    for sample in samples(tmp_path / "out"):
        (opinion,) = sample.opinions
        assert (sample.judgement.by, opinion.by) == ("house", "reference")
        assert opinion.verdict is (Verdict.WRONG if sample.sample else Verdict.CORRECT)
        assert opinion.reason
    assert score.protocol.second_grader is not None
    assert score.protocol.second_grader.startswith("reference:")


def test_a_box_in_a_reasoning_that_the_prompt_opened_and_nothing_closed_is_inside_it(
    sums: Any, tmp_path: Path
) -> None:
    """The embedded template ends in `<think>`, so a response says nothing outside before `</think>`."""
    writer = sums.writer(lambda row, sample: f"\\boxed{{{row + 1}}}" if sample else f"</think>\\boxed{{{row + 1}}}")
    score = sums.evaluated(writer, tmp_path / "out")
    assert score.correct == 12
    assert {(one.sample, one.judgement.inside_reasoning) for one in samples(tmp_path / "out")} == {
        (0, False),
        (1, True),
    }


def test_the_other_way_around_the_other_decides(sums: Any, tmp_path: Path) -> None:
    asked = sums.asked(grader="reference", second_grader="house")
    writer = sums.writer(lambda row, sample: f"\\boxed{{{f'{row}+1' if sample else row + 1}}}")
    score = sums.evaluated(writer, tmp_path / "out", asked=asked)
    assert score.correct == 6
    assert score.disagreements == {"house": 6}
    assert {sample.judgement.by for sample in samples(tmp_path / "out")} == {"reference"}
    assert score.protocol.grader.startswith("reference:")


def test_an_opinion_that_agrees_everywhere_is_counted_as_no_disagreement(sums: Any, tmp_path: Path) -> None:
    score = sums.evaluated(sums.half_right(), tmp_path / "out", asked=sums.asked(second_grader="reference"))
    assert score.disagreements == {"reference": 0}


def test_without_a_second_grader_there_are_no_opinions(sums: Any, tmp_path: Path) -> None:
    score = sums.evaluated(sums.half_right(), tmp_path / "out")
    assert score.disagreements == {}
    assert score.protocol.second_grader is score.protocol.judge is None
    assert all(sample.opinions == () for sample in samples(tmp_path / "out"))


def test_a_judge_settles_what_the_grader_rejects_and_nothing_else(
    sums: Any, tmp_path: Path, judge: Callable[[Any], Any]
) -> None:
    double = judge(lambda turn: "A" if "Compute 0+1." in turn else "B")
    score = sums.evaluated(sums.half_right(), tmp_path / "out", asked=sums.asked(judge=JUDGED))
    assert score.correct == 7
    assert len(double.asked) == 6
    assert double.closed
    for sample in samples(tmp_path / "out"):
        if sample.sample == 0:
            assert (sample.judgement.by, sample.opinions) == ("house", ())
        else:
            assert sample.judgement.by == "judge:scripted"
            assert [(one.by, one.verdict) for one in sample.opinions] == [("house", Verdict.WRONG)]
    assert score.disagreements == {"house": 1}
    assert score.protocol.judge is not None
    assert score.protocol.judge.startswith("scripted:")


def test_a_judge_and_a_second_grader_are_both_kept(sums: Any, tmp_path: Path, judge: Callable[[Any], Any]) -> None:
    judge("A")
    asked = sums.asked(judge=JUDGED, second_grader="reference")
    score = sums.evaluated(sums.half_right(), tmp_path / "out", asked=asked)
    assert score.correct == 12
    judged = [sample for sample in samples(tmp_path / "out") if sample.sample == 1]
    assert [[one.by for one in sample.opinions] for sample in judged] == [["house", "reference"]] * 6
    assert score.disagreements == {"house": 6, "reference": 6}


def test_a_judge_settles_what_the_grader_could_not_finish_where_that_is_referred_to_it(
    sums: Any, tmp_path: Path, judge_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, failing_at: Any
) -> None:
    judge, double = judge_of("B", referred=("grader_failed",))
    monkeypatch.setattr(panel, "open_judge", lambda _settings: judge)
    with failing_at("3"):
        score = sums.evaluated(sums.half_right(), tmp_path / "out", asked=sums.asked(judge=JUDGED))
    assert len(double.asked) == 2
    assert score.correct == 5
    settled = [sample for sample in samples(tmp_path / "out") if sample.question == "q2"]
    assert [(one.judgement.verdict, one.opinions[0].verdict) for one in settled] == [
        (Verdict.WRONG, Verdict.GRADER_FAILED)
    ] * 2
    assert score.disagreements == {}  # a grader that failed has no opinion


SLOW = """
import time

def same(response, gold):
    time.sleep(1.0 if gold == "3" else 0)
    return rf"\\boxed{{{gold}}}" in response
"""


def test_a_grader_that_ran_into_its_limits_settles_its_samples_when_it_is_given_more(
    sums: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that always takes too long would otherwise be the end of the evaluation that drew it."""
    (tmp_path / "slow_grader.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = sums.asked(grader="slow_grader:same").changed(["machine.grader_seconds=0.2"])
    with pytest.raises(AnswerIsNo, match=r"2 of 12 samples .* --set machine\.grader_seconds=60"):
        sums.evaluated(sums.half_right(), tmp_path / "out", asked=asked)
    again = sums.half_right()
    patient = asked.changed(["machine.grader_seconds=60"])
    assert sums.evaluated(again, tmp_path / "out", asked=patient).correct == 6
    assert again.calls == []


def test_a_judge_that_fails_leaves_no_score_and_is_asked_again_about_that_alone(
    sums: Any, tmp_path: Path, judge: Callable[[Any], Any]
) -> None:
    """H48: the absence of a verdict is not read as one; nothing is sampled, graded or judged twice."""
    out, asked = tmp_path / "out", sums.asked(judge=JUDGED)
    judge(lambda turn: NoReply(reason="no connection") if "Compute 3+1." in turn else "B")
    with pytest.raises(AnswerIsNo, match=r"1 of 12 samples .* question q3, sample 1: no connection"):
        sums.evaluated(sums.half_right(), out, asked=asked)
    assert not (out / "score.json").exists()
    settled = [sample for sample in samples(out) if sample.judgement.verdict.settled]
    double, again = judge("B"), sums.half_right()
    score = sums.evaluated(again, out, asked=asked)
    assert again.calls == []
    assert len(double.asked) == 1
    assert score.correct == 6
    assert [sample for sample in samples(out) if sample in settled] == settled
    assert [sample.judgement.verdict for sample in samples(out) if sample.question == "q3"] == [
        Verdict.CORRECT,
        Verdict.JUDGE_FAILED,
        Verdict.WRONG,
    ]


NASTY = "\u2028 \x85 \r\n \x0b \x0c \x1e \x00 \ufeff \u202e 𝟙 \\boxed{1}"


def test_a_response_of_any_characters_stands_on_one_line_and_comes_back(
    sums: Any, tmp_path: Path, failing_at: Callable[[str], AbstractContextManager[None]]
) -> None:
    """Some of these end a line for some readers; rows are put in order and gone on with all the same."""
    out = tmp_path / "out"
    nasty = sums.writer(lambda row, sample: NASTY)
    with failing_at("2"), pytest.raises(AnswerIsNo):
        sums.evaluated(nasty, out)
    sums.evaluated(nasty, out)
    decoded = sums.model.tokenizer.decode(sums.model.tokenizer(NASTY, add_special_tokens=False)["input_ids"])
    assert decoded == NASTY
    assert {sample.response for sample in samples(out)} == {NASTY}
    assert len(samples(out)) == 14


def test_half_a_character_is_shown_as_unknown_and_kept_in_the_tokens(sums: Any, tmp_path: Path) -> None:
    """A byte-level tokenizer can stop within a character; the ids say which bytes there were."""
    tokenizer = sums.model.tokenizer
    ids = tokenizer("é", add_special_tokens=False)["input_ids"]
    assert len(ids) == 2

    class Halved:
        eos_token_id = tokenizer.eos_token_id

        def __call__(self, *_: Any, **__: Any) -> dict[str, list[int]]:
            return {"input_ids": ids[:1]}

    writer = sums.writer(lambda row, sample: "")
    writer.tokenizer = Halved()
    sums.evaluated(writer, tmp_path / "out")
    assert {sample.response for sample in samples(tmp_path / "out")} == {"\ufffd"}
    paths = sorted((tmp_path / "out/generations").iterdir())
    assert {one.token_ids for path in paths for one in read_generations(path)} == {(ids[0], tokenizer.eos_token_id)}


def test_half_a_surrogate_pair_is_shown_as_unknown(sums: Any, tmp_path: Path) -> None:
    """No encoding takes it: the row could be neither written nor read."""

    class Decoding:
        def __init__(self, tokenizer: Any) -> None:
            self._tokenizer = tokenizer

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tokenizer, name)

        def __call__(self, *args: Any, **keywords: Any) -> Any:
            return self._tokenizer(*args, **keywords)

        def decode(self, *_: Any, **__: Any) -> str:
            return "x\ud835y \\boxed{1}"

    strange = dataclasses.replace(
        sums, model=dataclasses.replace(sums.model, tokenizer=Decoding(sums.model.tokenizer))
    )
    with pytest.raises(UnicodeEncodeError):
        "x\ud835y".encode()
    strange.evaluated(sums.half_right(), tmp_path / "out")
    assert {sample.response for sample in samples(tmp_path / "out")} == {"x\ufffdy \\boxed{1}"}


def test_what_can_be_written_stays_as_it_is() -> None:
    assert written(NASTY) == NASTY
    assert written("\ud835\udfd9") == "\ufffd\ufffd"
