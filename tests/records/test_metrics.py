"""A run's own records: they come back from their JSON as they were, and hold nothing undefined."""

import json

import pytest
from pydantic import ValidationError

from opd.records.metrics import Gap, RunSummary, StepMetrics, StopCause
from opd.records.settings import validated

STEP = StepMetrics(
    step=1,
    loss=-0.125,
    kl=0.1,
    clamped=0.0,
    gradient_norm=2.5,
    learning_rate=1e-6,
    rollouts=8,
    trained_tokens=400,
    mean_tokens=50.0,
    surprise=0.7,
    cut_short=0.25,
    repeated=0.0,
    rows_seen=2,
    gap=Gap(mean=1e-7, largest=3e-6, k3=0.0),
    objective={"k1": 0.1},
    peak_bytes=2**33,
    seconds={"sample": 1.0, "total": 3.5},
)
SUMMARY = RunSummary(
    recipe="ab" * 32,
    data="cd" * 32,
    stop=StopCause.WALL_CLOCK,
    steps=90,
    asked_steps=120,
    seconds=60.5,
    max_wall_seconds=None,
    rows_seen=180,
    rows=2000,
    checkpoints=("step-80", "step-90"),
    machine={"device": "cpu"},
)


@pytest.mark.parametrize("record", [STEP, SUMMARY])
def test_a_record_comes_back_from_its_json_as_it_was(record):
    line = json.dumps(record.resolved(), allow_nan=False)
    assert validated(type(record), json.loads(line), source="metrics.jsonl, line 1") == record


def test_a_line_and_a_summary_of_an_older_version_are_read():
    """What was added since has a value that says that nothing is known of it."""
    line, summary = STEP.resolved(), SUMMARY.resolved()
    for name in ("reward", "first_token_kl", "first_token_distance", "eos_teacher_logp", "warnings"):
        del line[name]
    for name in ("resumed_from", "best", "student", "teacher", "notes"):
        del summary[name]
    assert validated(StepMetrics, line, source="metrics.jsonl") == STEP
    assert (STEP.reward, STEP.first_token_kl, STEP.eos_teacher_logp, STEP.warnings) == (None, None, None, ())
    assert validated(RunSummary, summary, source="run.json") == SUMMARY


@pytest.mark.parametrize("undefined", [float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["loss", "kl", "gradient_norm", "cut_short"])
def test_an_undefined_figure_makes_no_record(field, undefined):
    with pytest.raises(ValidationError, match=field):
        StepMetrics(**(dict(STEP) | {field: undefined}))


@pytest.mark.parametrize("group", ["objective", "seconds"])
def test_an_undefined_figure_in_a_group_makes_no_record(group):
    with pytest.raises(ValidationError, match=group):
        StepMetrics(**(dict(STEP) | {group: {"k1": float("nan")}}))


@pytest.mark.parametrize("share", [-0.01, 1.01])
@pytest.mark.parametrize("field", ["clamped", "cut_short"])
def test_a_share_is_between_zero_and_one(field, share):
    with pytest.raises(ValidationError, match=field):
        StepMetrics(**(dict(STEP) | {field: share}))
