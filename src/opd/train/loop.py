"""The loop: rows → prompts → rollouts → scores → update → checkpoint → metrics, top to bottom."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from opd.models.machine import peak_bytes
from opd.records.files import append_lines
from opd.records.metrics import RunSummary, StepMetrics, StopCause
from opd.records.rollouts import ScoredRollout
from opd.train.alarms import edges
from opd.train.archive import Archive
from opd.train.clock import Phases, Progress
from opd.train.credit import repetition_onset
from opd.train.recipe import Parts, Recipe
from opd.train.resume import Start
from opd.train.tally import UpdateStats


def train(
    recipe: Recipe,
    parts: Parts,
    *,
    out: Path,
    report: Callable[[StepMetrics], object],
    interrupted: Callable[[], bool],
    start: Start | None = None,
    progress: Progress | None = None,
) -> RunSummary:
    """What the run came to, with metrics.jsonl, rollouts/, checkpoint-*/ and state/ in `out`.

    `report` is called after every step. After each, `interrupted` is asked whether to stop: the run then ends
    as if its budget were used up, with a checkpoint of the step that was just made. `start` is where a resumed run
    goes on, once `put_back` has brought the parts there; `progress` says all the while where the run is.
    """
    progress = progress or Progress()
    asked = recipe.rollouts
    last_step = recipe.budget.last_step(rows=parts.order.rows, prompts_per_step=asked.prompts_per_step)
    budget = parts.budget
    archive = Archive(out, recipe, parts, start=start)
    seeds = rollout_seeds(recipe.seed, count=asked.per_prompt)
    step = start.step if start else 0
    seen = parts.order.seen(step, prompts_per_step=asked.prompts_per_step)
    cause = archive.ended(step, last_step=last_step)
    while cause is None:
        step += 1
        phases = progress.begin(step, device=parts.device)
        draws = parts.order.at(step, prompts_per_step=asked.prompts_per_step)
        prompts = [replace(parts.prompts[draw.row], epoch=draw.epoch) for draw in draws]
        with phases.phase("sample"):
            rollouts = parts.sampler.sample(prompts, seeds=seeds)
        with phases.phase("score"):
            scored = parts.scorer.score(rollouts)
        if parts.reward is not None:
            with phases.phase("grade"):
                scored = parts.reward.rewarded(scored)
        scored = [replace(one, weights=recipe.credit.weights(one.rollout)) for one in scored]
        with phases.phase("update"):
            stats = parts.updater.update(scored, step=step)
            parts.sampler.follow(step)
        seen.update(draw.row for draw in draws)
        budget.stepped(phases.total())
        cause = budget.cause(step, last_step=last_step) or (StopCause.INTERRUPTED if interrupted() else None)
        with phases.phase("save"):
            line = step_metrics(step, stats, scored, parts=parts, rows_seen=len(seen), phases=phases)
            line = archive.keep(line, scored, ends=cause is not None)
        budget.saved(phases.seconds["save"])
        metrics = line.model_copy(update={"seconds": phases.with_total()})
        append_lines(out / "metrics.jsonl", [metrics.resolved()])
        report(metrics)
    return archive.summary(step, cause, rows_seen=len(seen))


def step_metrics(
    step: int,
    stats: UpdateStats,
    scored: Sequence[ScoredRollout],
    *,
    parts: Parts,
    rows_seen: int,
    phases: Phases,
) -> StepMetrics:
    """The line of a step, without its warnings."""
    objective = dict(stats.objective)
    rollouts = [one.rollout for one in scored]
    rewards = [one.reward for one in scored if one.reward is not None]
    ungraded = len(scored) - len(rewards)
    at_edges = edges(scored, stop_ids=parts.student.stop_ids)
    return StepMetrics(
        step=step,
        loss=stats.loss,
        kl=stats.kl,
        clamped=objective.pop("clamped", 0.0),
        gradient_norm=stats.gradient_norm,
        learning_rate=stats.learning_rate,
        rollouts=len(rollouts),
        trained_tokens=stats.trained_tokens,
        mean_tokens=sum(len(rollout.token_ids) for rollout in rollouts) / len(rollouts),
        surprise=stats.surprise,
        cut_short=sum(rollout.stop.cut_short for rollout in rollouts) / len(rollouts),
        repeated=sum(repetition_onset(rollout.token_ids) is not None for rollout in rollouts) / len(rollouts),
        rows_seen=rows_seen,
        gap=stats.gap,
        objective=objective,
        peak_bytes=peak_bytes(parts.device),
        seconds=phases.with_total(),
        reward=fmean(rewards) if rewards else None,
        ungraded=ungraded if parts.reward is not None else None,
        first_token_kl=at_edges.first_token_kl,
        first_token_distance=at_edges.first_token_distance,
        eos_teacher_logp=at_edges.eos_teacher_logp,
    )


def rollout_seeds(seed: int, *, count: int) -> list[int]:
    """The seeds of the rollouts of one prompt; no two runs or rollouts share their noise."""
    keys = [f"{seed}/{sample}".encode() for sample in range(count)]
    return [int.from_bytes(hashlib.sha256(key).digest()[:8], "big") for key in keys]
