"""The loop: rows → prompts → rollouts → scores → update → checkpoint → metrics, top to bottom.

Where several ranks make a run, each goes through it with its share of a step's prompts (`train/ranks/`). They meet in
the update; rank 0 collects the rollouts, decides whether the run goes on, and writes.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean

from opd.models.machine import peak_bytes
from opd.models.samplers import drafted_by
from opd.models.scorers import teacher_servers
from opd.records.errors import AnswerIsNo
from opd.records.files import append_lines
from opd.records.metrics import RunSummary, StepMetrics, StopCause, TeacherMetrics
from opd.records.rollout_table import encoded, write_encoded, write_table
from opd.records.rollouts import Prompt, ScoredRollout
from opd.records.served import TeacherServer, put_together
from opd.train.alarms import edges_of
from opd.train.clock import Phases, Progress
from opd.train.facts import RolloutFacts, facts_of
from opd.train.parts import Parts
from opd.train.ranks.ranks import Ranks
from opd.train.ranks.shares import shares
from opd.train.ranks.stragglers import RankReport, drafted_of, own_seconds, spreads
from opd.train.recipe import Recipe
from opd.train.saved.archive import Archive
from opd.train.saved.resume import Start
from opd.train.saved.shares import first, save_shares
from opd.train.saved.state import States
from opd.train.update.tally import Taught, UpdateStats


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

    `report` is called after every step, at rank 0. After each, `interrupted` is asked whether to stop: the run then
    ends as if its budget were used up, with a checkpoint of the step that was just made. `start` is where a resumed
    run goes on, once `put_back` has brought the parts there; `progress` says all the while where the run is.
    """
    progress = progress or Progress()
    asked = recipe.rollouts
    last_step = recipe.budget.last_step(rows=parts.order.rows, prompts_per_step=asked.prompts_per_step)
    budget, ranks = parts.budget, parts.ranks
    keeper = _Keeper(archive=Archive(out, recipe, parts, start=start), parts=parts, out=out, report=report)
    seeds = rollout_seeds(recipe.seed, count=asked.per_prompt)
    step = start.step if start else 0
    seen = parts.order.seen(step, prompts_per_step=asked.prompts_per_step)
    cause = first(lambda: keeper.archive.ended(step, last_step=last_step), parts.shares, ranks)
    while cause is None:
        step += 1
        phases = progress.begin(step, device=parts.device)
        draws = parts.order.at(step, prompts_per_step=asked.prompts_per_step)
        drawn = [replace(parts.prompts[draw.row], epoch=draw.epoch) for draw in draws]
        places, prompts = share_of(drawn, per_prompt=asked.per_prompt, ranks=ranks)
        scored = _scored(prompts, recipe, parts, seeds=seeds, phases=phases)
        waited = ranks.waited_seconds
        with phases.phase("update"):
            stats = parts.updater.update(scored, step=step, places=places)
            parts.updater.check_alike()
            parts.sampler.follow(step)
        seen.update(draw.row for draw in draws)
        report_here = _report(parts, phases, waited=ranks.waited_seconds - waited, interrupted=interrupted())
        reports = ranks.everyone(report_here)
        budget.stepped(phases.total())
        stopped = StopCause.INTERRUPTED if any(one.interrupted for one in reports) else None
        cause = ranks.told(budget.cause(step, last_step=last_step) or stopped)
        ends = cause is not None
        if parts.shares is not None and recipe.save.state_due(step, ends=ends):
            with phases.phase("save"):
                save_shares(States(out), step, parts.updater.state(), parts.shares)
        with phases.phase("gather") if ranks.count > 1 else nullcontext():
            facts, write, servers = collected(scored, places, recipe, parts)
        line = partial(step_metrics, step, stats, facts, parts=parts, rows_seen=len(seen), reports=reports)
        keep = partial(keeper.keep, step, write, ends=ends, phases=phases, line=line, servers=servers)
        first(keep, parts.shares, ranks)
    return ranks.first(lambda: keeper.archive.summary(step, cause, rows_seen=len(seen)))


def share_of(drawn: Sequence[Prompt], *, per_prompt: int, ranks: Ranks) -> tuple[list[int], list[Prompt]]:
    """This rank's of a step's prompts, and the places of their rollouts in the step."""
    lengths = [len(prompt.token_ids) for prompt in drawn]
    share = shares(lengths, ranks=ranks.count, kinds=[prompt.teacher for prompt in drawn])[ranks.rank]
    places = [place * per_prompt + sample for place in share for sample in range(per_prompt)]
    return places, [drawn[place] for place in share]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keeper:
    """What rank 0 does at the end of each step."""

    archive: Archive
    parts: Parts
    out: Path
    report: Callable[[StepMetrics], object]

    def keep(
        self,
        step: int,
        write: Callable[[Path], object],
        *,
        line: Callable[..., StepMetrics],
        phases: Phases,
        ends: bool,
        servers: tuple[TeacherServer, ...],
    ) -> None:
        """All that is due after the step is on the disk, its line last.

        `write` makes a file the table of its rollouts, and `line` gives the line of its phases.
        """
        try:
            with phases.phase("save"):
                kept = self.archive.keep(line(phases=phases), write, ends=ends, servers=servers)
        except (AnswerIsNo, OSError):
            States(self.out).drop(step)
            raise
        self.parts.budget.saved(phases.seconds["save"])
        metrics = kept.model_copy(update={"seconds": phases.with_total()})
        append_lines(self.out / "metrics.jsonl", [metrics.resolved()])
        self.report(metrics)


def _scored(
    prompts: Sequence[Prompt], recipe: Recipe, parts: Parts, *, seeds: Sequence[int], phases: Phases
) -> list[ScoredRollout]:
    """The rollouts of these prompts with all that is learned from: scores, rewards, weights."""
    with phases.phase("sample"):
        rollouts = parts.sampler.sample(prompts, seeds=seeds)
    with phases.phase("score"):
        scored = parts.scorer.score(rollouts)
    if parts.reward is not None:
        with phases.phase("grade"):
            scored = parts.reward.rewarded(scored)
    return [replace(one, weights=recipe.credit.weights(one.rollout)) for one in scored]


def collected(
    scored: list[ScoredRollout], places: Sequence[int], recipe: Recipe, parts: Parts
) -> tuple[list[RolloutFacts], Callable[[Path], object], tuple[TeacherServer, ...]]:
    """Of all ranks, at rank 0: the facts of the step's rollouts, in its order; what writes their table; and the
    teacher's servers, as they did in this try so far.

    Each rank makes a table of its own: rank 0 has only to put their bytes together.
    """
    facts = facts_of(scored, stop_ids=parts.student.stop_ids)
    asked = teacher_servers(parts.scorer)
    if parts.ranks.count == 1:
        return facts, partial(write_table, scored=scored), asked
    found = parts.ranks.collected((places, facts, encoded(scored) if recipe.save.rollouts else b"", asked)) or []
    all_places = [place for some, _, _, _ in found for place in some]
    order = sorted(range(len(all_places)), key=all_places.__getitem__)
    all_facts = [fact for _, some, _, _ in found for fact in some]
    tables = [table for _, _, table, _ in found]
    servers = put_together(one for _, _, _, some in found for one in some)
    return [all_facts[index] for index in order], partial(write_encoded, tables=tables, order=order), servers


def _report(parts: Parts, phases: Phases, *, waited: float, interrupted: bool) -> RankReport:
    """What this rank says of its step."""
    return RankReport(
        seconds=own_seconds(phases.seconds, waited=waited),
        peak_bytes=peak_bytes(parts.device),
        interrupted=interrupted,
        drafted=drafted_by(parts.sampler),
    )


def step_metrics(
    step: int,
    stats: UpdateStats,
    facts: Sequence[RolloutFacts],
    *,
    parts: Parts,
    rows_seen: int,
    phases: Phases,
    reports: Sequence[RankReport],
) -> StepMetrics:
    """The line of a step, without its warnings; `reports` are those of all ranks."""
    objective = dict(stats.objective)
    rollouts = len(facts)
    rewards = [one.reward for one in facts if one.reward is not None]
    ungraded = rollouts - len(rewards)
    at_edges = edges_of(facts)
    return StepMetrics(
        step=step,
        loss=stats.loss,
        kl=stats.kl,
        clamped=objective.pop("clamped", 0.0),
        gradient_norm=stats.gradient_norm,
        learning_rate=stats.learning_rate,
        rollouts=rollouts,
        trained_tokens=stats.trained_tokens,
        mean_tokens=sum(one.tokens for one in facts) / rollouts,
        surprise=stats.surprise,
        cut_short=sum(one.cut_short for one in facts) / rollouts,
        repeated=sum(one.repeated for one in facts) / rollouts,
        rows_seen=rows_seen,
        gap=stats.gap,
        objective=objective,
        peak_bytes=max(one.peak_bytes for one in reports),
        seconds=phases.with_total(),
        reward=fmean(rewards) if rewards else None,
        ungraded=ungraded if parts.reward is not None else None,
        first_token_kl=at_edges.first_token_kl,
        first_token_distance=at_edges.first_token_distance,
        eos_teacher_logp=at_edges.eos_teacher_logp,
        seconds_by_rank=spreads(reports) if len(reports) > 1 else None,
        drafted=drafted_of(reports),
        teachers={name: _of_teacher(name, one, facts) for name, one in stats.teachers.items()} or None,
    )


def _of_teacher(name: str, taught: Taught, facts: Sequence[RolloutFacts]) -> TeacherMetrics:
    own = [one for one in facts if one.teacher == name]
    at_edges = edges_of(own)
    return TeacherMetrics(
        rollouts=len(own),
        tokens=taught.tokens,
        kl=taught.kl,
        clamped=taught.clamped,
        cut_short=sum(one.cut_short for one in own) / len(own),
        first_token_kl=at_edges.first_token_kl,
        first_token_distance=at_edges.first_token_distance,
        eos_teacher_logp=at_edges.eos_teacher_logp,
    )


def rollout_seeds(seed: int, *, count: int) -> list[int]:
    """The seeds of the rollouts of one prompt; no two runs or rollouts share their noise."""
    keys = [f"{seed}/{sample}".encode() for sample in range(count)]
    return [int.from_bytes(hashlib.sha256(key).digest()[:8], "big") for key in keys]
