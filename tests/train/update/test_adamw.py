"""AdamW on the masters, by torch and in one pass, against the algorithm written out in float64."""

import importlib.util
import math
import os

import pytest
import torch

from opd.train.update import adamw
from opd.train.update.adamw import AdamW
from opd.train.update.masters import Masters

RATE, BETAS, EPSILON, DECAY = 3e-3, (0.8, 0.95), 1e-6, 0.1
SIZES = (3, 700)  # of both layers: below a block of the kernel, and odd beyond one

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before the first import: kernels run as numpy
HAS_KERNEL = importlib.util.find_spec("triton") is not None
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WAYS = ["torch", pytest.param("one pass", marks=pytest.mark.skipif(not HAS_KERNEL, reason="needs triton"))]


def module(dtype: torch.dtype) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.ModuleList(torch.nn.Linear(size, 11, dtype=dtype) for size in SIZES).to(DEVICE)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch) -> str:
    monkeypatch.setattr(adamw, "goes_in_one_pass", lambda _: request.param == "one pass")
    return request.param


def optimizer(masters: Masters) -> AdamW:
    return AdamW(masters, betas=BETAS, epsilon=EPSILON, weight_decay=DECAY)


def push(one: torch.nn.Module, step: int) -> list[torch.Tensor]:
    """Gradients of step `step`, which have been added up; in float64."""
    numbers = torch.Generator().manual_seed(step)
    drawn = [torch.randn(parameter.shape, generator=numbers).to(parameter.dtype) for parameter in one.parameters()]
    sum(
        (parameter * pull.to(DEVICE)).sum() for parameter, pull in zip(one.parameters(), drawn, strict=True)
    ).backward()
    return [pull.double() for pull in drawn]


def written_out(starts: list[torch.Tensor], gradients: list[list[torch.Tensor]], scale: float) -> list[torch.Tensor]:
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2, in float64."""
    ended = []
    for start, of_steps in zip(starts, zip(*gradients, strict=True), strict=True):
        weight, mean, square = start.double(), torch.zeros_like(start).double(), torch.zeros_like(start).double()
        for step, gradient in enumerate(of_steps, start=1):
            mean = BETAS[0] * mean + (1 - BETAS[0]) * scale * gradient
            square = BETAS[1] * square + (1 - BETAS[1]) * (scale * gradient) ** 2
            corrected = mean / (1 - BETAS[0] ** step), square / (1 - BETAS[1] ** step)
            weight = weight - RATE * (corrected[0] / (corrected[1].sqrt() + EPSILON) + DECAY * weight)
        ended.append(weight)
    return ended


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 0.37])
def test_three_steps_are_those_of_the_algorithm(way: str, dtype: torch.dtype, scale: float) -> None:
    """E48, E52: masters to float32's rounding, and the module holds them rounded."""
    one = module(dtype)
    masters = Masters(one)
    starts = [master.detach().cpu().clone() for master in masters.parameters]
    moving, gradients = optimizer(masters), []
    for step in (1, 2, 3):
        gradients.append(push(one, step))
        moving.step(rate=RATE, scale=scale)
        assert all(master.grad is None for master in masters.parameters)
    for (weight, master), expected in zip(masters.pairs, written_out(starts, gradients, scale), strict=True):
        assert float((master.detach().cpu().double() - expected).abs().max()) < 3e-7
        spacing = torch.finfo(dtype).eps * weight.detach().abs()  # the interpreter cuts where a GPU rounds
        assert bool(((weight.float() - master).abs() <= spacing.float() + 1e-30).all())


def test_the_memory_is_named_as_torch_names_it_and_goes_on_the_other_way(monkeypatch) -> None:
    """E66: two steps one way and two the other are four of one way, up to rounding."""
    if not HAS_KERNEL:
        pytest.skip("needs triton")
    ended = []
    for ways in ((False, False), (True, False), (False, True)):
        one = module(torch.bfloat16)
        masters = Masters(one)
        moving = optimizer(masters)
        for step in (1, 2, 3, 4):
            monkeypatch.setattr(adamw, "goes_in_one_pass", lambda _, now=ways[step // 3]: now)
            push(one, step)
            moving.step(rate=RATE, scale=1.0)
        for master in masters.parameters:
            memory = moving.memory.state[master]
            assert set(memory) == {"step", "exp_avg", "exp_avg_sq"}
            assert float(memory["step"]) == 4
            assert memory["exp_avg"].dtype == memory["exp_avg_sq"].dtype == memory["step"].dtype == torch.float32
        ended.append(torch.cat([master.detach().flatten() for master in masters.parameters]))
    for other in ended[1:]:
        assert float((other - ended[0]).abs().max()) < 1e-4  # the gradients are of bf16 weights, rounded otherwise


def test_what_has_no_gradient_stays_where_it_is(way: str) -> None:
    one = module(torch.float32)
    masters = Masters(one)
    before = [master.detach().clone() for master in masters.parameters]
    one[0].weight.sum().backward()
    optimizer(masters).step(rate=RATE, scale=1.0)
    moved = [not torch.equal(master, old) for master, old in zip(masters.parameters, before, strict=True)]
    assert moved == [name == "0.weight" for name in masters.named]


def test_the_norm_is_over_all_gradients(way: str) -> None:
    one = module(torch.float32)
    masters = Masters(one)
    drawn = push(one, 1)
    expected = math.sqrt(sum(float((gradient**2).sum()) for gradient in drawn))
    assert masters.norm() == pytest.approx(expected, rel=1e-6)


@pytest.mark.gpu
def test_on_a_gpu_the_weights_are_the_masters_rounded_to_nearest() -> None:
    one = module(torch.bfloat16)
    masters = Masters(one)
    assert adamw.goes_in_one_pass(masters)
    push(one, 1)
    optimizer(masters).step(rate=RATE, scale=1.0)
    assert all(torch.equal(weight, master.to(torch.bfloat16)) for weight, master in masters.pairs)
