"""The loop: rows → prompts → rollouts → scores → update → checkpoint → metrics, top to bottom."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from opd.models.machine import describe, peak_bytes
from opd.records.files import append_lines
from opd.records.metrics import RunSummary, StepMetrics, StopCause
from opd.records.rollout_table import table_path, write_table
from opd.records.rollouts import Rollout
from opd.train.checkpoint import Checkpoints
from opd.train.clock import Phases
from opd.train.recipe import Parts, Recipe
from opd.train.update import UpdateStats


def train(
    recipe: Recipe,
    parts: Parts,
    *,
    out: Path,
    report: Callable[[StepMetrics], object],
    interrupted: Callable[[], bool],
) -> RunSummary:
    """What the run came to, with metrics.jsonl, rollouts/ and checkpoint-*/ in `out`.

    `report` is called after every step. After each, `interrupted` is asked whether to stop: the run then ends
    as if its budget were used up, with a checkpoint of the step that was just made.
    """
    asked = recipe.rollouts
    last_step = recipe.budget.last_step(rows=parts.order.rows, prompts_per_step=asked.prompts_per_step)
    budget = parts.budget
    checkpoints = Checkpoints(out, keep=recipe.save.keep)
    seeds = rollout_seeds(recipe.seed, count=asked.per_prompt)
    seen: set[int] = set()
    step, cause = 0, None
    while cause is None:
        step += 1
        phases = Phases(parts.device)
        draws = parts.order.at(step, prompts_per_step=asked.prompts_per_step)
        prompts = [replace(parts.prompts[draw.row], epoch=draw.epoch) for draw in draws]
        with phases.phase("sample"):
            rollouts = parts.sampler.sample(prompts, seeds=seeds)
        with phases.phase("score"):
            scored = parts.scorer.score(rollouts)
        with phases.phase("update"):
            stats = parts.updater.update(scored, step=step)
            parts.sampler.follow(step)
        seen.update(draw.row for draw in draws)
        budget.stepped(phases.total())
        cause = budget.cause(step, last_step=last_step) or (StopCause.INTERRUPTED if interrupted() else None)
        with phases.phase("save"):
            if recipe.save.rollouts:
                write_table(table_path(out, step), scored)
            if cause is not None or step % recipe.save.every == 0:
                checkpoints.save(parts.student, step=step, recipe_digest=recipe.digest)
        budget.saved(phases.seconds["save"])
        metrics = step_metrics(step, stats, rollouts, rows_seen=len(seen), phases=phases, device=parts.device)
        append_lines(out / "metrics.jsonl", [metrics.resolved()])
        report(metrics)
    return RunSummary(
        recipe=recipe.digest,
        data=parts.data_sha256,
        stop=cause,
        steps=step,
        asked_steps=recipe.budget.steps,
        seconds=budget.seconds,
        max_wall_seconds=recipe.budget.max_wall_seconds,
        rows_seen=len(seen),
        rows=parts.order.rows,
        checkpoints=tuple(path.name for path in checkpoints.complete()),
        machine=describe(parts.device),
    )


def step_metrics(
    step: int, stats: UpdateStats, rollouts: Sequence[Rollout], *, rows_seen: int, phases: Phases, device: str
) -> StepMetrics:
    """The line of a step."""
    objective = dict(stats.objective)
    return StepMetrics(
        step=step,
        loss=stats.loss,
        kl=stats.kl,
        clamped=objective.pop("clamped", 0.0),
        gradient_norm=stats.gradient_norm,
        learning_rate=stats.learning_rate,
        rollouts=len(rollouts),
        trained_tokens=stats.trained_tokens,
        mean_tokens=stats.trained_tokens / len(rollouts),
        surprise=stats.surprise,
        cut_short=sum(rollout.stop.cut_short for rollout in rollouts) / len(rollouts),
        rows_seen=rows_seen,
        gap=stats.gap,
        objective=objective,
        peak_bytes=peak_bytes(device),
        seconds={**phases.seconds, "total": phases.total()},
    )


def rollout_seeds(seed: int, *, count: int) -> list[int]:
    """The seeds of the rollouts of one prompt; no two runs or rollouts share their noise."""
    keys = [f"{seed}/{sample}".encode() for sample in range(count)]
    return [int.from_bytes(hashlib.sha256(key).digest()[:8], "big") for key in keys]
