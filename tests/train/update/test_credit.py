"""Which tokens are learned from."""

from dataclasses import replace

import pytest
import torch

from opd.records.rollouts import Prompt, Rollout, StopReason
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.credit import CreditSettings
from opd.train.update.updater import OptimizerSettings, Updater

UNCLIPPED = OptimizerSettings(lr=1e-3, largest_gradient_norm=1e9)


def rollout(ids: tuple[int, ...], stop: StopReason) -> Rollout:
    prompt = Prompt(row=0, problem="", answer="", token_ids=(5,))
    return Rollout(prompt=prompt, sample=0, token_ids=ids, logp=(-1.0,) * len(ids), stop=stop)


@pytest.mark.parametrize(
    ("settings", "ended", "cut"),
    [
        (CreditSettings(), 1.0, 1.0),
        (CreditSettings(cut_short="mask"), 1.0, 0.0),
        (CreditSettings(cut_short="down_weight", weight=0.25), 1.0, 0.25),
    ],
)
def test_only_rollouts_that_the_limit_ended_are_weighed(settings: CreditSettings, ended: float, cut: float) -> None:
    assert settings.weights(rollout((1, 2, 3), StopReason.EOS)) == (ended,) * 3
    assert settings.weights(rollout((1, 2, 3), StopReason.LENGTH)) == (cut,) * 3


def test_credit_stops_where_the_loop_begins() -> None:
    """E75."""
    looping = rollout((7, 8, 9, *([1, 2] * 30)), StopReason.LENGTH)
    weights = CreditSettings(stop_at_repetition=True).weights(looping)
    assert weights == (1.0,) * 5 + (0.0,) * 58
    assert CreditSettings().weights(looping) == (1.0,) * 63


def test_masked_rollouts_are_as_if_they_had_not_been_sampled(load, make_scored, optimizer_steps) -> None:
    """The gradient, divided by the trained tokens alone, is that of the other rollouts by themselves."""
    scored = make_scored([3, 7, 5])
    masked = [replace(scored[0], weights=(0.0,) * 3), scored[1], replace(scored[2], weights=(1.0,) * 5)]
    gradients = []
    for batch in (masked, scored[1:]):
        with optimizer_steps() as steps:
            stats = Updater(load(), K1PolicyGradient(), UNCLIPPED, largest_tokens=12).update(batch, step=1)
        gradients.append(steps[0].gradients)
        assert stats.trained_tokens == 12
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=1e-13)


def test_a_weight_scales_a_tokens_gradient(load, make_scored, optimizer_steps) -> None:
    scored, found = make_scored([4, 4]), []
    for weight in (1.0, 0.25, 0.0):
        weighed = [scored[0], replace(scored[1], weights=(weight,) * 4)]
        with optimizer_steps() as steps:
            trained = Updater(load(), K1PolicyGradient(), UNCLIPPED).update(weighed, step=1).trained_tokens
        found.append([gradient * trained for gradient in steps[0].gradients])
    for whole, quarter, none in zip(*found, strict=True):
        assert torch.allclose(quarter - none, 0.25 * (whole - none), atol=1e-12)


def test_a_step_in_which_nothing_is_trained_moves_nothing(load, make_scored) -> None:
    """Not even by the optimizer's memory, and without a division by zero."""
    student = load()
    updater = Updater(student, K1PolicyGradient(), UNCLIPPED)
    updater.update(make_scored([3, 4]), step=1)
    before = [parameter.clone() for parameter in student.module.parameters()]
    stats = updater.update(
        [replace(one, weights=(0.0,) * len(one.teacher_logp)) for one in make_scored([3, 4])], step=2
    )
    assert (stats.trained_tokens, stats.loss, stats.gradient_norm) == (0, 0.0, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(before, student.module.parameters(), strict=True))
