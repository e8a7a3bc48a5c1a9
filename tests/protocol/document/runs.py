"""The folder of a training as `opd train` leaves it: recipe, metrics, summary, checkpoints."""

import json
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.protocol.document.facts import TRAINING_ROWS
from tests.protocol.document.stand_ins import write_model

from opd.records.files import digest, write_json
from opd.records.metrics import RunSummary, StopCause

GIVEN = ('student.model="/inputs/student"', 'teacher.model="/inputs/teacher"', 'data.path="/inputs/train.jsonl"')
_PROMPTS = 2
_TOKENS = 8 * 2_900


def resolved(recipe: str, settings: Sequence[str]) -> dict[str, Any]:
    """The recipe with each `section.key=value` put in."""
    values = tomllib.loads(recipe)
    for setting in (*GIVEN, *settings):
        key, _, value = setting.partition("=")
        section, _, name = key.partition(".")
        values.setdefault(section, {})[name] = tomllib.loads(f"value = {value}")["value"]
    return values


def write_run(
    folder: Path,
    recipe: str,
    *,
    settings: Sequence[str],
    steps: int,
    step_seconds: float,
    checkpoints: Sequence[int],
    stop: str | None,
    seconds: float,
) -> None:
    """The folder; without a summary where the run was killed."""
    folder.mkdir(parents=True)
    values = resolved(recipe, settings)
    write_json(folder / "recipe.json", values)
    rewarded = "reward" in values
    lines = (metrics(step, step_seconds, rewarded=rewarded) for step in range(1, steps + 1))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for step in checkpoints:
        write_model(folder / f"checkpoint-{step}", seed=f"{folder.name} {digest(values)} {step}", step=step)
    if stop in set(StopCause):
        write_json(folder / "run.json", summary(values, steps, checkpoints, stop, seconds).resolved())


def metrics(step: int, step_seconds: float, *, rewarded: bool) -> dict[str, Any]:
    """A line of metrics.jsonl, with a divergence that falls slowly and wavers."""
    wave = math.sin(step * 12.9898) * 0.5 + math.sin(step * 0.73) * 0.5
    kl = 0.118 * math.exp(-step / 900) + 0.041 + 0.006 * wave
    return {
        "step": step, "loss": round(kl * 0.97, 6), "kl": round(kl, 6), "clamped": 0.0004, "learning_rate": 1e-6,
        "gradient_norm": round(0.31 + 0.05 * wave, 4), "rollouts": 8, "trained_tokens": _TOKENS + 40 * (step % 61),
        "mean_tokens": round((_TOKENS + 40 * (step % 61)) / 8, 3), "surprise": round(0.36 + 0.02 * wave, 5),
        "cut_short": 0.125 * (step % 3 == 0), "repeated": 0.0, "rows_seen": _PROMPTS * step,
        "gap": {"mean": 0.0021, "largest": 0.31, "k3": 4e-06}, "objective": {"ratio": 1.0},
        "peak_bytes": 41_446_000_000,
        "seconds": {"sample": round(step_seconds * 0.8, 3), "score": 0.9, "update": 2.4, "save": 0.0,
                    "total": round(step_seconds, 3)},
        "reward": round(0.2 + 0.1 * wave, 4) if rewarded else None, "ungraded": 0 if rewarded else None,
        "first_token_kl": 0.002, "first_token_distance": 0.004, "eos_teacher_logp": -0.03, "warnings": [],
    }  # fmt: skip


def summary(values: dict[str, Any], steps: int, checkpoints: Sequence[int], stop: str, seconds: float) -> RunSummary:
    """Its run.json."""
    return RunSummary(
        recipe=digest(values), data=digest("the training file"), stop=StopCause(stop), steps=steps,
        asked_steps=values["budget"]["steps"], seconds=seconds, max_wall_seconds=values["budget"]["max_wall_seconds"],
        rows_seen=_PROMPTS * steps, rows=TRAINING_ROWS,
        checkpoints=tuple(f"checkpoint-{step}" for step in checkpoints),
        machine={"opd": "0.1.0", "device": "cuda", "name": "NVIDIA B300"},
    )  # fmt: skip
