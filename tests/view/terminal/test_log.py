"""`--log json`: lines for a program."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from opd.records.errors import AnswerIsNo
from opd.records.metrics import StepMetrics
from opd.records.scores import Sample, Score, Verdict
from opd.view.terminal.log import EvaluateLog, TrainLog


def events(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_step_is_a_line_with_all_that_its_line_of_metrics_has(
    metrics_of: Callable[[int], StepMetrics], tmp_path: Path
) -> None:
    stream = io.StringIO()
    with TrainLog(out=tmp_path, asked=2, stream=stream) as log:
        log.tell("sampler: plain")
        log.step(metrics_of(1))
        log.say("a\nwarning \u2028 here")
    begin, note, step, said = events(stream)
    assert begin == {"event": "begin", "out": str(tmp_path), "asked_steps": 2}
    assert note == {"event": "note", "message": "sampler: plain"}
    assert step == {"event": "step", **json.loads(json.dumps(metrics_of(1).resolved()))}
    assert said["message"] == "a\nwarning \u2028 here"
    assert stream.getvalue().count("\n") == 4


def test_samples_are_counted_up(sample_of: Callable[..., Sample], tmp_path: Path) -> None:
    stream = io.StringIO()
    log = EvaluateLog(out=tmp_path, asked=4, stream=stream)
    log.add([sample_of(0, 0), sample_of(0, 1, Verdict.GRADER_FAILED, tokens=5)], found=True)
    log.add([])
    log.add([sample_of(1, 0, Verdict.CUT_SHORT, tokens=64)])
    _, first, second = events(stream)
    assert {key: first[key] for key in ("done", "settled", "correct", "found")} == {
        "done": 2,
        "settled": 1,
        "correct": 1,
        "found": True,
    }
    assert {key: second[key] for key in ("done", "settled", "correct", "cut_short", "tokens", "asked", "found")} == {
        "done": 3,
        "settled": 2,
        "correct": 1,
        "cut_short": 1,
        "tokens": 99,
        "asked": 4,
        "found": False,
    }


def test_the_end_says_what_was_asked_and_what_it_came_to(score_of: Callable[..., Score], tmp_path: Path) -> None:
    stream, score = io.StringIO(), score_of("a/model", 0.5)
    with EvaluateLog(out=tmp_path, asked=4, stream=stream) as log:
        log.end(score)
    about = {"out": str(tmp_path), "asked": 4}
    assert events(stream) == [
        {"event": "begin", **about},
        {"event": "end", **about, **json.loads(score.model_dump_json())},
    ]


def test_what_ended_the_work_is_the_last_line_and_goes_on_its_way(tmp_path: Path) -> None:
    stream = io.StringIO()
    with pytest.raises(AnswerIsNo), TrainLog(out=tmp_path, asked=1, stream=stream):
        raise AnswerIsNo("the loss is not finite")
    assert events(stream)[-1] == {"event": "failed", "kind": "AnswerIsNo", "message": "the loss is not finite"}


def test_a_reader_that_has_gone_ends_nothing(metrics_of: Callable[[int], StepMetrics], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with pytest.raises(BrokenPipeError):
        os.write(writing, b"the pipe is closed")
    log = TrainLog(out=tmp_path, asked=1, stream=stream)
    for step in range(1, 400):
        log.step(metrics_of(step))
    with pytest.raises(BrokenPipeError):
        stream.close()  # what it could not pass on
