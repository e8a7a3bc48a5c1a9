"""Truncated importance, where the sampler is not quite the trainer: when it acts, how much, and what is said."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from opd.models.logprobs import token_logp
from opd.models.sequences import packed
from opd.records.errors import AskedWrongly
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.objectives.reverse_kl import ReverseKL
from opd.train.run import prepare, run
from opd.train.update.updater import LARGEST_IMPORTANCE, OptimizerSettings, Updater

SHIFTS = (0.2, -0.4, 1.1, 0.0, -2.0)  # trainer - sampler, nats; one of them beyond log 2


@pytest.fixture
def shifted(load, make_scored):
    """Rollouts whose sampler found each token likelier or less likely than the trainer does, by `SHIFTS`."""
    student, scored = load(), []
    for one in make_scored([5, 5]):
        with torch.no_grad():
            logp_N = token_logp(student, packed([one.rollout], device=student.device)).tolist()
        sampled = tuple(logp - shift for logp, shift in zip(logp_N, SHIFTS, strict=True))
        scored.append(replace(one, rollout=replace(one.rollout, logp=sampled)))
    return scored


def gradients(updater, scored, optimizer_steps):
    with optimizer_steps() as steps:
        stats = updater.update(scored, step=1)
    return steps[0].gradients, stats


@pytest.mark.parametrize(
    ("asked", "differs", "bound"),
    [("auto", True, LARGEST_IMPORTANCE), ("auto", False, None), ("off", True, None), (1.5, False, 1.5)],
)
def test_auto_acts_where_the_sampler_differs_and_off_never(
    load, shifted, optimizer_steps, asked, differs: bool, bound: float | None
) -> None:
    """Against the bound that is written out, and against none; the shares by hand from the shifts."""

    def of(largest, *, differs: bool = False) -> Updater:
        settings = OptimizerSettings(lr=1e-3, largest_importance=largest)
        return Updater(load(), K1PolicyGradient(), settings, sampler_differs=differs)

    updater = of(asked, differs=differs)
    assert updater.largest_importance == bound
    found, stats = gradients(updater, shifted, optimizer_steps)
    expected, _ = gradients(of("off" if bound is None else bound), shifted, optimizer_steps)
    other, _ = gradients(of(LARGEST_IMPORTANCE if bound is None else "off"), shifted, optimizer_steps)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert not all(torch.allclose(a, b) for a, b in zip(found, other, strict=True))
    if bound is None:
        assert not {"importance", "truncated"} & stats.objective.keys()
    else:
        weights = [min(math.exp(shift), bound) for shift in SHIFTS]
        assert stats.objective["importance"] == pytest.approx(sum(weights) / len(SHIFTS), rel=1e-9)
        assert stats.objective["truncated"] == pytest.approx(1 / len(SHIFTS))
    assert stats.gap.mean == pytest.approx(sum(map(abs, SHIFTS)) / len(SHIFTS), rel=1e-9)
    assert stats.gap.largest == pytest.approx(2.0, rel=1e-9)
    k3 = sum(math.expm1(shift) - shift for shift in SHIFTS) / len(SHIFTS)
    assert stats.gap.k3 == pytest.approx(k3, rel=1e-9)


def test_a_divergence_is_not_weighed_unless_a_number_says_so(load, shifted) -> None:
    """What it is at a token does not depend on the token: the weight would add variance and correct nothing."""
    for asked, bound in (("auto", None), (3.0, 3.0)):
        settings = OptimizerSettings(lr=1e-3, largest_importance=asked)
        updater = Updater(load(), ReverseKL(), settings, teachers={None: load("teacher")}, sampler_differs=True)
        assert updater.largest_importance == bound


@pytest.mark.parametrize(("dtype", "said"), [("float32", "off"), ("bfloat16", "2.0")])
def test_a_run_weighs_in_bfloat16_and_says_so(make_recipe, tmp_path: Path, dtype: str, said: str) -> None:
    recipe = make_recipe(f"student.dtype={dtype}", "budget.steps=2")
    run(recipe, prepare(recipe, tmp_path / "run"), tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "run.json").read_text())
    assert summary["machine"]["largest_importance"] == said
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        assert {"mean", "largest", "k3"} == line["gap"].keys()
        assert line["gap"]["largest"] < (1e-3 if dtype == "float32" else 1.0)
        assert ("importance" in line["objective"]) == (dtype == "bfloat16")
    if dtype == "bfloat16":
        assert 0.8 < lines[0]["objective"]["importance"] < 1.2


def test_a_word_that_is_none_is_refused(make_recipe) -> None:
    with pytest.raises(AskedWrongly, match=r"optimizer\.largest_importance"):
        make_recipe("optimizer.largest_importance=never")
