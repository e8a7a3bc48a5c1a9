"""Master weights: what a small learning rate does with and without them, in numbers that are known."""

import pytest
import torch

from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.plain import PlainSampler, PlainScorer
from opd.records.rollouts import Prompt
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.masters import Masters
from opd.train.update.updater import OptimizerSettings, Updater

RATE = 1e-6


def layer(*, dtype: torch.dtype = torch.bfloat16, size: int = 400) -> torch.nn.Linear:
    """Weights from N(0, 0.02), as large models start."""
    linear = torch.nn.Linear(size, size, bias=False, dtype=dtype)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(size, size, generator=torch.Generator().manual_seed(1)) * 0.02)
    return linear


def adamw(parameters: list[torch.Tensor]) -> torch.optim.AdamW:
    return torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.0)


def push(linear: torch.nn.Linear) -> None:
    """A gradient of 1 on every weight."""
    linear.weight.sum().backward()


@pytest.mark.parametrize("kind", [PlainSampler, EngineSampler])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_what_the_masters_hold_is_what_samples(load, kind, dtype: str) -> None:
    """E40: a token's row of the head is enlarged in the masters alone, and the next call draws nothing else."""
    student = load(dtype=dtype)
    prompt = Prompt(row=0, problem="?", answer="!", token_ids=(305, 308, 7))
    sampler = kind(student, Sampling(temperature=0.01, limit_tokens=1))
    with torch.no_grad():
        logits_V = student.module(torch.tensor([prompt.token_ids])).logits[0, -1, : student.vocabulary].float()
    before = {one.token_ids for one in sampler.sample([prompt], seeds=range(8))}
    other = next(token for token in logits_V.topk(9).indices.tolist() if (token,) not in before)
    assert float(logits_V[other]) > 0  # so that a larger row has a larger logit
    updater = Updater(student, K1PolicyGradient(), OptimizerSettings(lr=1e-3))
    tensors = {name: tensor.clone() for name, tensor in updater.state().items()}
    tensors["master/model.embed_tokens.weight"][other] *= 4
    updater.restore(tensors)
    sampler.follow(1)
    rollouts = sampler.sample([prompt], seeds=range(8))
    assert {one.token_ids for one in rollouts} == {(other,)}
    (scored, *_) = PlainScorer(student, temperature=0.01).score(rollouts[:1])
    assert scored.teacher_logp == pytest.approx(rollouts[0].logp, abs=0.03)


def test_without_masters_one_weight_in_fifty_moves() -> None:
    """I9, E52: the bad condition exists; a step of 1e-6 is below half the spacing of nearly every weight."""
    linear = layer()
    before = linear.weight.detach().clone()
    push(linear)
    adamw([linear.weight]).step()
    assert (linear.weight != before).float().mean().item() == pytest.approx(0.019, abs=0.002)


def test_with_masters_every_one_moves() -> None:
    """I9, E52: more than 99 % after one step, by the rate; the weights they are rounded into hardly do."""
    linear = layer()
    before = linear.weight.detach().clone()
    masters = Masters(linear)
    (master,) = masters.parameters
    assert master.dtype == torch.float32
    assert torch.equal(master, before.float())
    push(linear)
    adamw(masters.parameters).step()
    masters.publish()
    moved = before.float() - master
    assert (moved != 0).float().mean().item() > 0.99
    assert moved.median().item() == pytest.approx(RATE, rel=0.01)
    assert (linear.weight != before).float().mean().item() == pytest.approx(0.019, abs=0.002)
    assert torch.equal(linear.weight, master.to(torch.bfloat16))


def test_small_steps_add_up_with_masters_and_are_lost_without() -> None:
    """E52: two hundred steps in one direction are one of 2e-4, in the middle of a weight's spacing and beyond."""
    kept, lost = layer(size=100), layer(size=100)
    before = kept.weight.detach().clone()
    masters = Masters(kept)
    optimizer, naive = adamw(masters.parameters), adamw([lost.weight])
    for _ in range(200):
        push(kept)
        push(lost)
        optimizer.step()
        naive.step()
        optimizer.zero_grad()
        naive.zero_grad()
        masters.publish()
    assert torch.equal(kept.weight, masters.parameters[0].to(torch.bfloat16))
    assert mean_fall(before, kept) == pytest.approx(200 * RATE, rel=0.1)  # rounding of 10,000 weights averages out
    assert mean_fall(before, lost) < 200 * RATE / 5


def mean_fall(before: torch.Tensor, linear: torch.nn.Linear) -> float:
    return (before.double() - linear.weight.detach().double()).mean().item()


def test_gradients_of_many_micro_batches_are_added_up_in_float32() -> None:
    """1 + 400 · 1/512 is 1.78; in bfloat16, whose spacing at 1 is 1/128, it would stay 1."""
    linear = layer(size=2)
    masters = Masters(linear)
    linear.weight.sum().backward()
    for _ in range(400):
        (linear.weight.sum() / 512).backward()
    assert linear.weight.grad is None, "a second copy of the gradients would stay in memory"
    assert masters.parameters[0].grad.flatten().tolist() == [1 + 400 / 512] * 4
    alone = torch.ones((), dtype=torch.bfloat16)
    for _ in range(400):
        alone += torch.tensor(1 / 512, dtype=torch.bfloat16)
    assert alone.item() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_wide_module_is_its_own_master(dtype: torch.dtype) -> None:
    linear = layer(dtype=dtype, size=3)
    masters = Masters(linear)
    assert masters.parameters[0] is linear.weight
    before = linear.weight.detach().clone()
    masters.publish()
    assert torch.equal(linear.weight, before)


def test_a_tied_parameter_has_one_master_with_both_gradients() -> None:
    module = torch.nn.ModuleDict({"embed": torch.nn.Embedding(3, 2), "head": torch.nn.Linear(2, 3, bias=False)})
    module["head"].weight = module["embed"].weight
    module.to(torch.bfloat16)
    masters = Masters(module)
    (master,) = masters.parameters
    (module["embed"].weight.sum() + 2 * module["head"].weight.sum()).backward()
    assert master.grad.tolist() == [[3.0, 3.0]] * 3
