"""The same code on a CUDA device. The embedded pair is small enough to be compared with the CPU in float64."""

import json
from pathlib import Path
from typing import Any

import pytest

from opd.records.rollouts import Prompt, Rollout

pytestmark = pytest.mark.gpu


def sampled(device: str, dtype: str) -> tuple[Any, list[Rollout]]:
    from opd.models.chat import prompt_ids
    from opd.models.interfaces import Sampling
    from opd.models.load import find_model, load_model
    from opd.models.plain import PlainSampler

    model = load_model(find_model("opd:arith_tiny/student"), dtype=dtype, device=device)
    problems = [f"Compute {n}+{n % 8 + 2}-3." for n in range(1, 41)]
    prompts = [
        Prompt(row=row, problem=problem, answer="", token_ids=prompt_ids(model.tokenizer, problem))
        for row, problem in enumerate(problems)
    ]
    return model, PlainSampler(model, Sampling(limit_tokens=64)).sample(prompts, seeds=[1, 2, 3])


def test_the_gpu_samples_the_tokens_that_the_cpu_samples_in_float64() -> None:
    """Norms and rotary angles are float32 inside transformers, whatever the model computes in."""
    _, on_cpu = sampled("cpu", "float64")
    _, on_gpu = sampled("cuda", "float64")
    assert [one.token_ids for one in on_gpu] == [one.token_ids for one in on_cpu]
    for gpu, cpu in zip(on_gpu, on_cpu, strict=True):
        assert gpu.logp == pytest.approx(cpu.logp, abs=1e-5)


@pytest.mark.parametrize(("dtype", "mean", "largest"), [("float32", 1e-5, 1e-3), ("bfloat16", 0.02, 1.0)])
def test_sampler_and_scorer_agree_as_far_as_the_dtype_allows(dtype: str, mean: float, largest: float) -> None:
    from opd.models.plain import PlainScorer

    model, rollouts = sampled("cuda", dtype)
    gaps = [
        abs(a - b)
        for one in PlainScorer(model).score(rollouts)
        for a, b in zip(one.teacher_logp, one.rollout.logp, strict=True)
    ]
    assert sum(gaps) / len(gaps) < mean
    assert max(gaps) < largest


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_distillation_on_the_gpu_brings_the_student_nearer_to_the_teacher(tmp_path: Path, dtype: str) -> None:
    from opd.records.places import recipe_path
    from opd.records.settings import read
    from opd.train.recipe import Recipe
    from opd.train.run import prepare, run

    sets = ["budget.steps=40", f"student.dtype={dtype}", f"teacher.dtype={dtype}", "machine.device=cuda"]
    recipe = read(Recipe, recipe_path("arith_tiny"), sets=sets)
    out = tmp_path / "run"
    run(recipe, prepare(recipe, out), out)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    first, last = (sum(line["kl"] for line in part) / 10 for part in (lines[:10], lines[-10:]))
    assert last < 0.6 * first
