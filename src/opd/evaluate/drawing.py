"""Groups of questions → generations on the disk.

A group is sampled as a whole and depends on the settings alone, so it gives the same tokens whoever samples it and
whatever was sampled before: in exact arithmetic one process and several write the same files. Of a group that was
sampled in part before, only what is missing is kept.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from opd.evaluate.code import CODE, code_digest
from opd.evaluate.folder import Key
from opd.models.chat import check_fits
from opd.models.engine.sampler import DraftsChoice
from opd.models.interfaces import Sampler, Sampling
from opd.models.load import LanguageModel, load_model
from opd.models.machine import describe
from opd.models.samplers import EngineChoice, choose_sampler
from opd.records.generation_table import Generation, Making, generations_path, write_generations
from opd.records.rollouts import Prompt
from opd.records.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A group of questions that is sampled at once, and which of its samples are kept."""

    path: Path  # of the file that gets them
    questions: tuple[str, ...]
    prompts: tuple[Prompt, ...]  # one for each question
    missing: frozenset[Key]


class Drawing(Protocol):
    """Whoever draws: this process, or several."""

    def draw(self, jobs: Sequence[Job], *, interrupted: Callable[[], bool]) -> Iterator[Path]:
        """The file of each job as soon as it stands, in any order; no new job is begun once it is interrupted."""


Opening = Callable[[Sequence[Job]], AbstractContextManager[Drawing]]
"""Makes ready to draw these jobs; `AskedWrongly`, before any is begun, when the model or a prompt can't be used."""


class OwnDrawing:
    """Draws in this process, job after job."""

    def __init__(
        self, model: LanguageModel, sampler: Sampler, *, seeds: Sequence[int], machine: dict[str, str]
    ) -> None:
        self._sampler = sampler
        self._seeds = tuple(seeds)
        dtype = str(model.module.dtype).removeprefix("torch.")
        self._machine = machine | {"dtype": dtype, CODE: code_digest()}

    def draw(self, jobs: Sequence[Job], *, interrupted: Callable[[], bool]) -> Iterator[Path]:
        """See `Drawing`."""
        for job in jobs:
            if interrupted():
                return
            self.draw_one(job)
            yield job.path

    def draw_one(self, job: Job) -> None:
        """The job's generations stand in its file."""
        started = time.perf_counter()
        rollouts = self._sampler.sample(job.prompts, seeds=self._seeds)
        names = {prompt.row: name for prompt, name in zip(job.prompts, job.questions, strict=True)}
        generations = [
            Generation(
                question=names[rollout.prompt.row],
                sample=rollout.sample,
                seed=self._seeds[rollout.sample],
                stop=rollout.stop,
                prompt_ids=rollout.prompt.token_ids,
                token_ids=rollout.token_ids,
                logp=rollout.logp,
            )
            for rollout in rollouts
            if (names[rollout.prompt.row], rollout.sample) in job.missing
        ]
        making = Making(machine=self._machine, seconds=time.perf_counter() - started)
        write_generations(job.path, generations, making)


class DrawingSettings(Settings):
    """What a process needs to draw; it is sent to others as JSON."""

    model: str
    """The model's directory."""
    device: str
    dtype: str
    threads: int
    sampling: Sampling
    seeds: tuple[int, ...]
    largest_batch: int
    engine: EngineChoice
    drafts: DraftsChoice = "off"

    def load(self, longest: Sequence[Prompt]) -> OwnDrawing:
        """The model, loaded to draw in this process; `AskedWrongly` when it can't be, or a prompt doesn't fit it."""
        torch.set_num_threads(self.threads)
        model = load_model(Path(self.model), dtype=self.dtype, device=self.device)
        check_fits(model, longest, limit_tokens=self.sampling.limit_tokens)
        chosen = choose_sampler(
            model,
            self.sampling,
            engine=self.engine,
            largest_batch=self.largest_batch,
            drafts=self.drafts,
            prompt_tokens=max((len(one.token_ids) for one in longest), default=None),
        )
        machine = describe(self.device) | {"sampler": chosen.said, "largest_batch": str(self.largest_batch)}
        return OwnDrawing(model, chosen.sampler, seeds=self.seeds, machine=machine)

    @contextmanager
    def open(self, jobs: Sequence[Job]) -> Iterator[Drawing]:
        """An `Opening`: draws in this process."""
        yield self.load(longest_prompts(jobs))


def jobs_for(
    asked: Sequence[tuple[str, Prompt]], *, out: Path, samples: int, group_questions: int, missing: frozenset[Key]
) -> list[Job]:
    """The groups in which something is missing, in the order of the questions; the same groups every time."""
    jobs = []
    for start in range(0, len(asked), group_questions):
        group = asked[start : start + group_questions]
        keys = [(question, sample) for question, _ in group for sample in range(samples)]
        lacks = [number for number, key in enumerate(keys) if key in missing]
        if lacks:
            first, sample = divmod(lacks[0], samples)
            jobs.append(
                Job(
                    path=generations_path(out, row=group[first][1].row, sample=sample),
                    questions=tuple(question for question, _ in group),
                    prompts=tuple(prompt for _, prompt in group),
                    missing=frozenset(keys[number] for number in lacks),
                )
            )
    return jobs


def longest_prompts(jobs: Sequence[Job]) -> list[Prompt]:
    """The longest prompt of all: where it fits, all do. None without jobs."""
    prompts = [prompt for job in jobs for prompt in job.prompts]
    return [max(prompts, key=lambda prompt: len(prompt.token_ids))] if prompts else []
