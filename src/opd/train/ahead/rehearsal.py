"""Two real steps at the greatest length, before the run: how long a step takes, and whether it fits.

The longest prompts, and rollouts that no end-of-sequence token stops. AdamW's memory is allocated by the first
step, so what does not fit shows in the second (faults E48). Of several teachers each has a step of its own rows
alone, which is the most that it can be asked for, before the last one of all together. Ranks share each step as
those of the run do. A checkpoint and a trainer state are written too, and all of it is gone at the end.
"""

import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import torch
from pydantic import NonNegativeFloat, PositiveInt

from opd.models.interfaces import Sampler
from opd.models.machine import device_meant, peak_bytes
from opd.models.randomness import randomness_kept
from opd.records.errors import AnswerIsNo
from opd.records.files import whole
from opd.records.rollout_table import table_path
from opd.records.rollouts import Prompt, ScoredRollout
from opd.records.settings import Settings
from opd.train.ahead.relief import relief
from opd.train.alarms import edges
from opd.train.clock import Phases, Progress
from opd.train.loop import collected, rollout_seeds, share_of
from opd.train.parts import Parts, build, sampler_of
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.ranks.sameness import check_same_inputs
from opd.train.recipe import Recipe
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.shares import first, save_shares
from opd.train.saved.state import States

LEAST_STEPS = 2


class Rehearsal(Settings):
    """What two steps at the greatest length came to, or with several teachers one more than there are of them."""

    start_seconds: NonNegativeFloat
    """Loading models and data."""
    step_seconds: dict[str, float]
    """Of the last step, by phase: sample, score, grade where there is a reward, update."""
    save_seconds: NonNegativeFloat
    """Of rollouts, a checkpoint and a trainer state."""
    peak_bytes: PositiveInt
    """The most that was in use: allocated on the GPU, resident on a CPU."""
    rollout_tokens: PositiveInt
    """Length of each rollout."""
    eos_teacher_logp: float | None = None
    """Mean log-probability (nats) that the teacher gives the student's first end of sequence; null without any."""
    steps: PositiveInt = LEAST_STEPS
    eos_teachers_logp: dict[str, float | None] = {}
    """The same of each of several teachers, by its name."""

    def __str__(self) -> str:
        return (
            f"rehearsal: {self.steps} steps of {self.rollout_tokens:,} tokens a rollout, the last in "
            f"{self.seconds:,.2f} s; {self.peak_bytes / (1 << 30):,.2f} GiB at the peak"
        )

    @property
    def seconds(self) -> float:
        """Of a step, without saving."""
        return sum(self.step_seconds.values())


def rehearse(recipe: Recipe, *, place: Path, ranks: Ranks = ALONE) -> Rehearsal:
    """The measurements, of ranks the most of any. Nothing stays: not in `place`, which is on the disk of the run, not
    in memory, and the random numbers of the process go on as if there had been none.

    Raises `AnswerIsNo` when the device's memory does not suffice, with the step and the phase.
    """
    with randomness_kept():
        try:
            return _most(ranks.everyone(_rehearsed(recipe, place, ranks)))
        finally:
            gc.collect()  # models and graphs of the rehearsal, whose parts know each other
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()


def _rehearsed(recipe: Recipe, place: Path, ranks: Ranks) -> Rehearsal:
    began = time.perf_counter()
    parts = build(recipe, ranks=ranks)
    check_same_inputs(recipe, data=parts.data_sha256, origins=parts.origins, ranks=ranks)
    start_seconds = time.perf_counter() - began
    progress = Progress()
    try:
        with _room(place, ranks) as folder:
            return _measured(recipe, parts, folder, progress, start_seconds=start_seconds)
    except torch.OutOfMemoryError as error:
        advice = relief(recipe, prompts=parts.prompts, phase=progress.phase, device=parts.device, ranks=ranks.count)
        raise AnswerIsNo(
            f"out of device memory in step {progress.step} of the rehearsal, phase {progress.phase}; {advice}"
        ) from error
    finally:
        if parts.reward is not None:
            parts.reward.close()


def is_due(recipe: Recipe, *, asked: bool | None, resumes: bool) -> bool:
    """Whether a run begins with a rehearsal: as asked, and otherwise a new one on a GPU."""
    if asked is not None:
        return asked
    return device_meant(recipe.machine.device) == "cuda" and not resumes


def longest_prompts(prompts: Sequence[Prompt], count: int, *, epoch: int) -> list[Prompt]:
    """So many of the longest prompts, of each teacher in turn; with fewer rows some come again, in another epoch."""
    taught: defaultdict[str | None, list[Prompt]] = defaultdict(list)
    for prompt in sorted(prompts, key=lambda prompt: -len(prompt.token_ids)):
        taught[prompt.teacher].append(prompt)
    ordered = [one for some in zip_longest(*taught.values()) for one in some if one is not None]
    return [replace(ordered[index % len(ordered)], epoch=epoch + index // len(ordered)) for index in range(count)]


@contextmanager
def _room(place: Path, ranks: Ranks) -> Iterator[Path]:
    """A folder that rank 0 has made, and takes away once all have left."""
    made = tempfile.TemporaryDirectory(prefix=".rehearsal-", dir=place) if ranks.writes else nullcontext("")
    with made as folder:
        yield Path(ranks.told(folder))
        ranks.everyone(None)


def _most(found: Sequence[Rehearsal]) -> Rehearsal:
    """Of the measurements of all ranks, which wait for each other, the most of each; what was sampled is rank 0's."""
    return found[0].model_copy(
        update={
            "start_seconds": max(one.start_seconds for one in found),
            "step_seconds": {name: max(one.step_seconds[name] for one in found) for name in found[0].step_seconds},
            "save_seconds": max(one.save_seconds for one in found),
            "peak_bytes": max(one.peak_bytes for one in found),
            "rollout_tokens": max(one.rollout_tokens for one in found),
        }
    )


def _measured(recipe: Recipe, parts: Parts, folder: Path, progress: Progress, *, start_seconds: float) -> Rehearsal:
    endless = replace(parts.student, stop_ids=frozenset())
    sampler = sampler_of(recipe, endless, parts.prompts, ranks=parts.ranks).sampler
    ends: dict[str, float | None] = {}
    alone = [name for name in parts.teachers if name is not None] if len(parts.teachers) > 1 else [None]
    for step, teacher in enumerate([*alone, None], start=1):
        phases = progress.begin(step, device=parts.device)
        rows = [one for one in parts.prompts if teacher in (None, one.teacher)]
        scored, places = _step(recipe, parts, rows, sampler, step, phases)
        if teacher is not None:
            ends[teacher] = edges(scored, stop_ids=parts.student.stop_ids).eos_teacher_logp
    with phases.phase("save"):
        _save(recipe, parts, folder, scored, places, step=step)
        parts.ranks.everyone(None)
    seconds = dict(phases.seconds)
    return Rehearsal(
        start_seconds=start_seconds,
        save_seconds=seconds.pop("save"),
        step_seconds=seconds,
        peak_bytes=peak_bytes(parts.device),
        rollout_tokens=max(len(one.rollout.token_ids) for one in scored),
        eos_teacher_logp=edges(scored, stop_ids=parts.student.stop_ids).eos_teacher_logp,
        steps=step,
        eos_teachers_logp=ends,
    )


def _step(
    recipe: Recipe, parts: Parts, rows: Sequence[Prompt], sampler: Sampler, step: int, phases: Phases
) -> tuple[list[ScoredRollout], list[int]]:
    """This rank's rollouts, and their places, of a step as the loop makes it.

    But of the longest of these prompts, and all tokens are trained.
    """
    asked = recipe.rollouts
    drawn = longest_prompts(rows, asked.prompts_per_step, epoch=step * len(parts.prompts))
    places, prompts = share_of(drawn, per_prompt=asked.per_prompt, ranks=parts.ranks)
    with phases.phase("sample"):
        rollouts = sampler.sample(prompts, seeds=rollout_seeds(recipe.seed, count=asked.per_prompt))
    with phases.phase("score"):
        scored = parts.scorer.score(rollouts)
    if parts.reward is not None:
        with phases.phase("grade"):
            scored = parts.reward.rewarded(scored)
    with phases.phase("update"):
        parts.updater.update(scored, step=step, places=places)
        sampler.follow(step)
    return scored, places


def _save(
    recipe: Recipe, parts: Parts, folder: Path, scored: list[ScoredRollout], places: Sequence[int], *, step: int
) -> None:
    """The bytes that a step which ends a run writes, as the run writes them."""
    from safetensors.torch import save_file

    due = recipe.save.state_due(step, ends=True)
    if due and parts.shares is not None:
        save_shares(States(folder), step, parts.updater.state(), parts.shares)
    _, write, _ = collected(scored, places, recipe, parts)
    checkpoints = Checkpoints(folder)
    first(lambda: checkpoints.save(parts.student, step=step, recipe_digest=recipe.digest), parts.shares, parts.ranks)
    if recipe.save.rollouts and parts.ranks.writes:
        write(table_path(folder, step))
    if due and parts.shares is None and parts.ranks.writes:
        tensors = {name: tensor.contiguous() for name, tensor in parts.updater.state().items()}
        with whole(folder / "state.safetensors") as temporary:
            save_file(tensors, temporary)
