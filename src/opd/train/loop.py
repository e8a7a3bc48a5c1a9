"""The loop: rows → prompts → rollouts → scores → update → checkpoint → metrics, top to bottom."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from opd.models.machine import describe, peak_bytes
from opd.records.files import append_lines
from opd.records.metrics import RunSummary, StepMetrics, StopCause
from opd.records.rollout_table import table_path, write_table
from opd.records.rollouts import Rollout
from opd.train.checkpoint import Checkpoints
from opd.train.clock import Budget, Phases
from opd.train.recipe import Parts, Recipe
from opd.train.update import UpdateStats


def train(
    recipe: Recipe,
    parts: Parts,
    *,
    out: Path,
    budget: Budget,
    report: Callable[[StepMetrics], None],
    interrupted: Callable[[], bool],
) -> RunSummary:
    """What the run came to, with metrics.jsonl, rollouts/ and checkpoint-*/ in `out`.

    `report` is called after every step. After each, `interrupted` is asked whether to stop: the run then ends
    as if its budget were used up, with a checkpoint of the step that was just made.
    """
    asked = recipe.rollouts
    last_step = recipe.budget.last_step(rows=parts.order.rows, prompts_per_step=asked.prompts_per_step)
    checkpoints = Checkpoints(out, keep=recipe.save.keep)
    seen: set[int] = set()
    step, cause = 0, None
    while cause is None:
        step += 1
        phases = Phases(parts.device)
        rows = parts.order.at(step, prompts_per_step=asked.prompts_per_step)
        prompts = [parts.prompts[row] for row in rows]
        with phases.phase("sample"):
            seed = step_seed(recipe.seed, step)
            rollouts = parts.sampler.sample(prompts, per_prompt=asked.per_prompt, seed=seed)
        with phases.phase("score"):
            scored = parts.scorer.score(rollouts)
        with phases.phase("update"):
            stats = parts.updater.update(scored, step=step)
            parts.sampler.follow(step)
        seen.update(rows)
        cause = StopCause.INTERRUPTED if interrupted() else budget.cause(step, last_step=last_step)
        with phases.phase("save"):
            if recipe.save.rollouts:
                write_table(table_path(out, step), scored)
            if cause is not None or step % recipe.save.every == 0:
                checkpoints.save(parts.student, step=step, recipe_digest=recipe.digest)
        budget.spent(step=phases.total(), save=phases.seconds["save"])
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


def step_seed(seed: int, step: int) -> int:
    """The seed of a step's sampling noise, so that a row met again in a later epoch is sampled anew."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}".encode()).digest()[:8], "big")
