"""Several updates a step, and weights for what the sampler would have drawn otherwise: written out by hand."""

import math
from dataclasses import replace

import pytest
import torch

from opd.records.errors import AnswerIsNo
from opd.train.objective import TokenLoss, TokenObjective
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.updater import OptimizerSettings, Updater

LENGTHS = [3, 7, 5, 4]


def settings(**changes) -> OptimizerSettings:
    return OptimizerSettings(**{"lr": 1e-3, "largest_gradient_norm": 1e9} | changes)


def logp_by_hand(student, one):
    """log student of each sampled token, nats, by transformers' own logits."""
    start, ids = len(one.rollout.prompt.token_ids), one.rollout.prompt.token_ids + one.rollout.token_ids
    logp_TV = student.module(torch.tensor([ids])).logits[0, :, : student.vocabulary].log_softmax(-1)
    return logp_TV[start - 1 : -1].gather(-1, torch.tensor(one.rollout.token_ids).unsqueeze(-1)).squeeze(-1)


def test_each_share_of_a_step_is_an_update_with_the_ratio_to_the_step_s_first_policy(
    load, make_scored, optimizer_steps
) -> None:
    scored, student, by_hand = make_scored(LENGTHS), load(), load()
    updater = Updater(student, K1PolicyGradient(clip=0.002), settings(minibatches=2), largest_tokens=12)
    with optimizer_steps() as steps:
        updater.update(scored, step=1)
    assert len(steps) == 2
    reference = Updater(by_hand, K1PolicyGradient(), settings())
    old = [logp_by_hand(by_hand, one).detach() for one in scored]
    reference.update(scored[:2], step=1)  # the first share by itself, at ratio 1
    total = torch.zeros((), dtype=torch.float64)
    clipped = 0
    for one, old_T in zip(scored[2:], old[2:], strict=True):
        logp_T = logp_by_hand(by_hand, one)
        advantage_T = -(logp_T.detach() - torch.tensor(one.teacher_logp, dtype=torch.float64)).clamp(-10, 10)
        for logp, before, advantage in zip(logp_T, old_T, advantage_T, strict=True):
            ratio = (logp - before).exp()
            bounded = ratio.clamp(0.998, 1.002)
            total = total - torch.minimum(ratio * advantage, bounded * advantage) / 9
            clipped += int(ratio != bounded)
    assert clipped > 0  # the clip had something to do
    expected = torch.autograd.grad(total, list(by_hand.module.parameters()))
    for found, right in zip(steps[1].gradients, expected, strict=True):
        assert torch.allclose(found, right, atol=1e-10 * max(1.0, float(right.abs().max())))


def test_the_first_share_is_the_step_of_its_rollouts_alone(load, make_scored, optimizer_steps) -> None:
    scored, gradients = make_scored(LENGTHS), []
    for rollouts, changes in ((scored, {"minibatches": 2}), (scored[:2], {})):
        with optimizer_steps() as steps:
            Updater(load(), K1PolicyGradient(), settings(**changes)).update(rollouts, step=1)
        gradients.append(steps[0].gradients)
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=1e-13)


def test_more_shares_than_rollouts_are_as_many_as_there_are(load, make_scored, optimizer_steps) -> None:
    with optimizer_steps() as steps:
        Updater(load(), K1PolicyGradient(), settings(minibatches=99)).update(make_scored([2, 3]), step=1)
    assert len(steps) == 2


@pytest.mark.parametrize("largest", [1.2, 100.0])
def test_importance_weighs_each_token_by_the_old_probability_over_the_sampler_s(
    load, make_scored, optimizer_steps, largest
) -> None:
    """The trainer's policy is the one that is meant; the sampler's only drew. Truncated, so that no token rules."""
    student = load()
    scored = []
    for number, one in enumerate(make_scored(LENGTHS)):
        shifts = [0.3 * ((number + place) % 5 - 2) for place in range(len(one.teacher_logp))]
        sampled = tuple(
            float(x) - shift for x, shift in zip(logp_by_hand(student, one).detach(), shifts, strict=True)
        )
        scored.append(replace(one, rollout=replace(one.rollout, logp=sampled)))
    total = torch.zeros((), dtype=torch.float64)
    for one in scored:
        logp_T = logp_by_hand(student, one)
        k1_T = (logp_T.detach() - torch.tensor(one.teacher_logp, dtype=torch.float64)).clamp(-10, 10)
        weight_T = (logp_T.detach() - torch.tensor(one.rollout.logp, dtype=torch.float64)).exp().clamp(max=largest)
        total = total + (weight_T * k1_T * logp_T).sum() / sum(LENGTHS)
    expected = torch.autograd.grad(total, list(student.module.parameters()))
    with optimizer_steps() as steps:
        Updater(load(), K1PolicyGradient(), settings(largest_importance=largest)).update(scored, step=1)
    for found, right in zip(steps[0].gradients, expected, strict=True):
        assert torch.allclose(found, right, atol=1e-10 * max(1.0, float(right.abs().max())))


def test_what_is_said_of_a_step_is_of_the_policy_that_sampled(load, make_scored) -> None:
    """The gap to the sampler, the KL and the surprise don't feel how many updates the step is cut into."""
    scored = make_scored(LENGTHS)
    once, often = (
        Updater(load(), K1PolicyGradient(), settings(lr=0.05, minibatches=count)).update(scored, step=1)
        for count in (1, 4)
    )
    assert often.objective["ratio"] != pytest.approx(1.0, abs=1e-3)  # the policy had moved in between
    for name in ("kl", "surprise"):
        assert getattr(often, name) == pytest.approx(getattr(once, name), rel=1e-12)
    assert often.gap.resolved() == pytest.approx(once.gap.resolved(), rel=1e-12)


def test_importance_is_of_the_steps_first_policy_in_every_update(load, make_scored, optimizer_steps) -> None:
    """The second update by hand: its own gradient, weighed by the policy before the first."""
    scored, student, by_hand = make_scored(LENGTHS, behaviour_logp=-5.5), load(), load()
    old = [logp_by_hand(by_hand, one).detach() for one in scored]
    updater = Updater(student, K1PolicyGradient(clip=1e6), settings(lr=0.05, minibatches=2, largest_importance=3.0))
    with optimizer_steps() as steps:
        updater.update(scored, step=1)
    Updater(by_hand, K1PolicyGradient(), settings(lr=0.05, largest_importance=3.0)).update(scored[:2], step=1)
    total, moved = torch.zeros((), dtype=torch.float64), 0.0
    for one, old_T in zip(scored[2:], old[2:], strict=True):
        logp_T = logp_by_hand(by_hand, one)
        k1_T = (logp_T.detach() - torch.tensor(one.teacher_logp, dtype=torch.float64)).clamp(-10, 10)
        weight_T = (old_T + 5.5).exp().clamp(max=3.0)
        moved = max(moved, float((weight_T - (logp_T.detach() + 5.5).exp().clamp(max=3.0)).abs().max()))
        total = total + (weight_T * (logp_T - old_T).exp() * k1_T).sum() / 9
    assert moved > 0.01  # the current policy would weigh otherwise
    expected = torch.autograd.grad(total, list(by_hand.module.parameters()))
    for found, right in zip(steps[1].gradients, expected, strict=True):
        assert torch.allclose(found, right, atol=1e-10 * max(1.0, float(right.abs().max())))


def test_a_refusal_after_the_first_update_says_what_stands_and_names_rows(load, make_scored) -> None:
    student = load()
    scored = make_scored(LENGTHS, teacher_logp=[-1, -1, -3, -1])
    updater = Updater(student, InfiniteAtThree(), settings(minibatches=4))
    with pytest.raises(AnswerIsNo, match=r"rows \[2\]: 2 of the step's 4 updates stand"):
        updater.update(scored, step=1)


class InfiniteAtThree(TokenObjective):
    """Breaks its promise for tokens that the teacher gives -3 nats."""

    def __call__(self, student, batch):
        return TokenLoss(loss_N=student.logp_N + torch.where(batch.teacher_logp_N == -3, math.inf, 0.0))
