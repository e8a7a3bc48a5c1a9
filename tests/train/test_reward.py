"""A task reward: verdicts to advantages, by hand and by numpy; and what it adds to the k1 policy gradient."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opd.cli.train import closing
from opd.models.load import find_model, load_model
from opd.records.errors import AskedWrongly
from opd.records.files import read_lines
from opd.records.metrics import LeftOut
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.train.objective import StudentView
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.reward import Reward, RewardSettings, advantages
from opd.train.run import prepare, run
from opd.train.saved.resume import find_start
from opd.train.update.batch import Batch


@given(st.lists(st.lists(st.sampled_from([1.0, -1.0, 0.25]), min_size=1, max_size=6), min_size=1, max_size=4))
def test_an_advantage_is_the_reward_against_its_group(groups: list[list[float]]) -> None:
    rewards = [reward for group in groups for reward in group]
    names = [(row, 0) for row, group in enumerate(groups) for _ in group]
    found = iter(advantages(rewards, names, scaled=True))
    centred = iter(advantages(rewards, names, scaled=False))
    for group in groups:
        values = np.array(group)
        spread = values.std(ddof=1) if len(group) > 1 else 1.0
        expected = (values - values.mean()) / (spread + 1e-6) if len(group) > 1 else values * 0
        assert [next(found) for _ in group] == pytest.approx(list(expected), abs=1e-9)
        assert [next(centred) for _ in group] == pytest.approx(list(values - values.mean()), abs=1e-12)


def test_the_order_of_the_rollouts_and_the_epoch_of_a_row_are_no_matter_of_chance() -> None:
    groups = [(1, 0), (2, 0), (1, 0), (2, 0), (1, 1), (1, 1)]
    found = advantages([1.0, -1.0, -1.0, -1.0, 1.0, 1.0], groups, scaled=False)
    assert found == [1.0, 0.0, -1.0, 0.0, 0.0, 0.0]


def test_a_failed_grader_is_neither_a_reward_nor_part_of_the_mean() -> None:
    """E45 for graders: unknown is not wrong."""
    assert advantages([1.0, None, -1.0], [(1, 0)] * 3, scaled=False) == [1.0, 0.0, -1.0]


def test_rewards_are_those_of_the_answers_that_the_tokens_spell() -> None:
    student = load_model(find_model("opd:arith_tiny/student"), dtype="float32", device="cpu")
    texts = ["1+2=3\n</think>\n\n\\boxed{3}", "1+2=4\n</think>\n\n\\boxed{4}", "no box", "\\boxed{3"]
    scored = [scored_text(student, text, sample) for sample, text in enumerate(texts)]
    reward = Reward(RewardSettings(weight=2.0, normalise="group_mean"), student)
    try:
        found = reward.rewarded(scored)
    finally:
        reward.close()
    right = [bool(re.search(r"\\boxed\{3\}", text)) for text in texts]
    assert [one.reward for one in found] == [1.0 if ok else -1.0 for ok in right] == [1.0, -1.0, -1.0, -1.0]
    assert [one.advantage for one in found] == [3.0, -1.0, -1.0, -1.0]
    assert [one.rollout for one in found] == [one.rollout for one in scored]


def scored_text(student, text: str, sample: int) -> ScoredRollout:
    ids = (*student.tokenizer(text, add_special_tokens=False)["input_ids"], student.tokenizer.eos_token_id)
    prompt = Prompt(row=0, problem="Compute 1+2.", answer="3", token_ids=(305,))
    rollout = Rollout(prompt=prompt, sample=sample, token_ids=ids, logp=(-1.0,) * len(ids), stop=StopReason.EOS)
    return ScoredRollout(rollout=rollout, teacher_logp=(-1.0,) * len(ids))


FAILING = """
def grade(response, gold):
    if gold == "4":
        raise RuntimeError("this one is beyond me")
    return len(response) % 2 == 0
"""


def test_failed_gradings_are_counted_said_and_teach_nothing(
    make_recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E45, E73: in the lines and their warnings, in the summary of a run that was stopped between, on the screen."""
    (tmp_path / "failing_grader.py").write_text(FAILING)
    monkeypatch.syspath_prepend(tmp_path)
    recipe = make_recipe('reward.grader="failing_grader:grade"', "budget.steps=4", "data.shuffle=false")
    with Path(recipe.data.path).open("a") as file:
        file.write('{"problem": "Prove it.", "answer": "\\\\boxed{}"}\n')
    out = tmp_path / "run"
    asked = iter([False, True])
    run(recipe, prepare(recipe, out), out, interrupted=lambda: next(asked))
    start = find_start(recipe, out)
    parts = prepare(recipe, out, start=start)
    assert [prompt.answer for prompt in parts.prompts] == ["0", "2", "4", "6", "8", "10", "12"]
    summary = run(recipe, parts, out, start=start)
    lines = list(read_lines(out / "metrics.jsonl"))
    # two rows a step in the order of the file, twice each: the row with gold 4 comes in step 2, and no other time
    assert [line["ungraded"] for line in lines] == [0, 2, 0, 0]
    said = "grading failed for 2 of 4 rollouts: they have no reward, and count as their group's mean"
    assert [[said in warning for warning in line["warnings"]].count(True) for line in lines] == [0, 1, 0, 0]
    assert (summary.ungraded, summary.left_out) == (2, LeftOut(unanswered=1))
    shown = closing(summary, out)
    assert "rows that were left out: 1 without an answer that a response could equal" in shown
    assert "grading failed for 2 rollouts, which had no reward" in shown


def test_without_a_reward_nothing_is_said_of_grading(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("budget.steps=1")
    summary = run(recipe, prepare(recipe, tmp_path / "run"), tmp_path / "run")
    assert summary.ungraded is None
    assert [line["ungraded"] for line in read_lines(tmp_path / "run" / "metrics.jsonl")] == [None]
    assert closing(summary, tmp_path / "run").count("\n") == 0


def test_without_the_section_no_grader_exists(make_recipe) -> None:
    """E54: pure distillation calls no reward function."""
    from opd.train.parts import build

    assert build(make_recipe()).reward is None


@pytest.mark.parametrize(("key", "value"), [("weight", 1e7), ("weight", 0.0), ("correct", 1e7), ("wrong", -1e200)])
def test_points_whose_squares_would_overflow_are_refused(key: str, value: float) -> None:
    """The bad condition first: a group's sum."""
    with pytest.raises(OverflowError):
        advantages([1e308, 1e308, -1e308], [(0, 0)] * 3, scaled=True)
    with pytest.raises(ValueError, match=key):
        RewardSettings(**{key: value})


def test_an_objective_that_takes_no_reward_refuses_one(make_recipe) -> None:
    with pytest.raises(AskedWrongly, match="objective k2 takes none"):
        make_recipe("objective.name=k2", "reward.weight=0.5")


V = 7


def views(*, k1_V: torch.Tensor, advantage_V: torch.Tensor, ratio_V: torch.Tensor) -> tuple[StudentView, Batch]:
    """One rollout whose tokens have these k1, advantages and ratios."""
    logp_N = torch.linspace(-3, -0.5, V, dtype=torch.float64)
    student = StudentView(logp_N=logp_N.clone().requires_grad_(True), old_logp_N=logp_N - ratio_V.log())
    return student, Batch(
        behaviour_logp_N=logp_N,
        teacher_logp_N=logp_N - k1_V,
        advantage_N=advantage_V,
        weight_N=torch.ones(V),
    )


def test_at_ratio_one_the_reward_adds_its_own_policy_gradient() -> None:
    """d loss / d log student = clamped k1 - advantage, token by token."""
    k1_V = torch.tensor([0.3, -0.2, 12.0, -30.0, 0.0, 1.0, -1.0], dtype=torch.float64)
    advantage_V = torch.tensor([1.0, -1.0, 0.5, 0.0, 2.0, -0.25, 0.0], dtype=torch.float64)
    student, batch = views(k1_V=k1_V, advantage_V=advantage_V, ratio_V=torch.ones(V, dtype=torch.float64))
    loss = K1PolicyGradient()(student, batch).loss_N.sum()
    (found_N,) = torch.autograd.grad(loss, student.logp_N)
    assert torch.allclose(found_N, k1_V.clamp(-10, 10) - advantage_V, atol=1e-12)


@pytest.mark.parametrize("ratio", [0.2, 0.79, 0.81, 1.0, 1.19, 1.21, 2.9, 3.1, 8.0])
@pytest.mark.parametrize("advantage", [2.0, -2.0])
def test_the_dual_clip_bounds_the_loss_of_a_bad_token(ratio: float, advantage: float) -> None:
    """Piece by piece, as published: A > 0: -min(r, 1.2) A; A < 0: min(max(r, .8), 3) |A|."""
    zero_V, one_V = torch.zeros(V, dtype=torch.float64), torch.ones(V, dtype=torch.float64)
    student, batch = views(k1_V=zero_V, advantage_V=one_V * advantage, ratio_V=one_V * ratio)
    found = K1PolicyGradient(dual_clip=3.0)(student, batch).loss_N[0].item()
    expected = -min(ratio, 1.2) * advantage if advantage > 0 else min(max(ratio, 0.8), 3.0) * -advantage
    assert found == pytest.approx(expected, abs=1e-12)
    unbounded = K1PolicyGradient()(student, batch).loss_N[0].item()
    assert unbounded == pytest.approx(-min(ratio, 1.2) * 2 if advantage > 0 else max(ratio, 0.8) * 2, abs=1e-12)
