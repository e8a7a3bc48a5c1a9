"""Ten steps that stay where they are: one number that moves here is a change of what training computes.

The weights are from Python's own generator and everything runs in float64, so that neither a torch release nor
another processor's vector unit moves a sampled token.
"""

import random
import shutil
from pathlib import Path

import torch

from opd.records.metrics import StepMetrics
from opd.train.loop import train
from opd.train.parts import build


def test_ten_steps_are_the_recorded_ones(make_recipe, random_models: Path, tmp_path: Path, load, golden) -> None:
    for seed, name in enumerate(("student", "teacher")):
        shutil.copytree(random_models / name, tmp_path / name)
        model = load(name)
        scatter(model.module, seed=seed)
        model.module.save_pretrained(tmp_path / name)
    recipe = make_recipe(
        *(f"{name}.model={tmp_path}/{name}" for name in ("student", "teacher")),
        *(f"{name}.dtype=float64" for name in ("student", "teacher")),
        "rollouts.limit_tokens=12",
        "optimizer.lr=2e-3",
        "optimizer.warmup_steps=3",
        "budget.steps=10",
        "machine.micro_batch_tokens=64",
        "save.rollouts=false",
        "save.every=10",
        "seed=42",
    )
    steps: list[StepMetrics] = []
    train(recipe, build(recipe), out=tmp_path, report=steps.append, interrupted=lambda: False)
    golden(
        "ten_steps",
        [
            {
                "loss": step.loss,
                "kl": step.kl,
                "surprise": step.surprise,
                "gradient_norm": step.gradient_norm,
                "mean_tokens": step.mean_tokens,
            }
            for step in steps
        ],
    )


def scatter(module: torch.nn.Module, *, seed: int) -> None:
    """Every matrix evenly between -0.5 and 0.5; norms and biases keep their ones and zeros."""
    numbers = random.Random(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 2:
                values = [numbers.random() - 0.5 for _ in range(parameter.numel())]
                parameter.copy_(torch.tensor(values, dtype=torch.float64).reshape(parameter.shape))
