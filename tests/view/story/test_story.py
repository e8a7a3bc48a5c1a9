import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from opd.records.errors import AskedWrongly
from opd.records.metrics import StepMetrics
from opd.records.rollout_table import table_path, write_table
from opd.records.rollouts import ScoredRollout, StopReason
from opd.records.scores import Score
from opd.view.story import story as view
from opd.view.story.story import Cited, CurvePoint, Story

Scored = Callable[..., ScoredRollout]


def test_scores_of_different_protocols_are_not_shown_together(story: Story, score_of: Callable[..., Score]) -> None:
    other = Cited(value=score_of("t", 0.9, protocol_digest="f0" * 32), file="other/score.json")
    with pytest.raises(AskedWrongly, match=r"other/score\.json follows protocol f0f0"):
        replace(story, teacher=other)
    with pytest.raises(AskedWrongly, match=r"other/score\.json"):
        replace(story, curve=(*story.curve, CurvePoint(step=999, score=other)))


def test_a_comparison_of_other_scores_is_refused(story: Story, score_of: Callable[..., Score]) -> None:
    with pytest.raises(AskedWrongly, match=r"comparison\.json says 0\.465 where scores/start"):
        replace(story, start=Cited(value=score_of("s", 0.4665), file="scores/start/score.json"))


def test_the_steps_of_a_curve_rise(story: Story) -> None:
    with pytest.raises(AskedWrongly, match="must rise"):
        replace(story, curve=(story.curve[1], story.curve[0]))


def test_a_story_without_a_curve_or_without_steps_is_refused(story: Story) -> None:
    with pytest.raises(AskedWrongly, match="needs a point"):
        replace(story, curve=())
    with pytest.raises(AskedWrongly, match="a step of its metrics"):
        replace(story, metrics=Cited(value=(), file="run/metrics.jsonl"))


def test_what_is_read_is_cited_relative_to_the_report(
    story: Story, tmp_path: Path, metrics_of: Callable[[int], StepMetrics]
) -> None:
    score_file = tmp_path / "scores" / "start" / "score.json"
    score_file.parent.mkdir(parents=True)
    score_file.write_text(json.dumps(story.start.value.resolved()))
    metrics_file = tmp_path / "run" / "metrics.jsonl"
    metrics_file.parent.mkdir()
    metrics_file.write_text("".join(json.dumps(metrics_of(step).resolved()) + "\n" for step in (1, 2, 3)))
    assert view.cite(Score, score_file, root=tmp_path) == story.start
    read = view.cite_metrics(metrics_file, root=tmp_path)
    assert read == Cited(value=tuple(metrics_of(step) for step in (1, 2, 3)), file="run/metrics.jsonl")


def test_a_file_outside_the_report_is_cited_by_name_and_no_path_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    assert view.name_in(tmp_path / "demo", tmp_path / "elsewhere" / "recipe.json") == "recipe.json"


def test_a_damaged_metrics_line_names_the_file_and_the_rule(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1}\n')
    with pytest.raises(AskedWrongly, match=r"metrics\.jsonl: .*'loss' is required"):
        view.cite_metrics(file, root=tmp_path)


def test_the_rollout_that_is_shown_is_a_typical_dispute_and_not_the_strangest(
    tmp_path: Path, scored_of: Scored
) -> None:
    agreed = [scored_of(response="1+1=2") for _ in range(5)]
    freak, typical, mild = (scored_of(response="1+1=3", gaps={4: gap}) for gap in (-12.0, -5.0, -1.2))
    liked = scored_of(response="1+1=4", gaps={4: 6.0})
    cut = [scored_of(response="1+1=5", gaps={4: -9.0}, stop=StopReason.LENGTH) for _ in range(3)]
    path = table_path(tmp_path, 1)
    write_table(path, [*agreed, freak, *cut, mild, liked, typical])
    chosen = view.cite_telling_rollout(path, root=tmp_path)
    assert chosen.file == "rollouts/step-000001.parquet"
    assert chosen.value.teacher_logp == pytest.approx(typical.teacher_logp, abs=1e-6)


def test_without_a_dispute_the_nearest_to_one_is_shown(scored_of: Scored) -> None:
    agreed, nearer = scored_of(response="1+1=2"), scored_of(response="1+1=3", gaps={4: -0.9})
    cut = scored_of(response="1+1=5", gaps={4: -9.0}, stop=StopReason.LENGTH)
    assert view.telling([agreed, nearer, agreed]) is nearer
    assert view.telling([agreed, cut]) is agreed, "one that was cut short comes last"
    assert view.telling([cut]) is cut


def test_no_rollouts_to_choose_from_is_an_error() -> None:
    with pytest.raises(AskedWrongly, match="no rollouts"):
        view.telling([])
