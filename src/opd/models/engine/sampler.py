"""The engine as a `Sampler`: rollouts of prompts and seeds, with the noise of `models/noise.py`.

The same seeds give the tokens that `PlainSampler` gives, up to rounding, whatever the number of rows, the size of
the pages, and whoever is sampled at the same time.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, get_args

from opd.models.chat import check_fits
from opd.models.engine.drafts.operations import TORCH_DRAFTING, Drafting, Notes
from opd.models.engine.drafts.steps import (
    ROWS,
    SEQUENCES,
    DraftedSteps,
    Way,
    drafted_step,
    drafted_step_of_kernel,
)
from opd.models.engine.engine import Engine
from opd.models.engine.graphs import StepGraphs, rungs, ways_on_cuda
from opd.models.engine.mixer import PreparedStep
from opd.models.engine.operations import TORCH, Operations
from opd.models.engine.persistent import fit
from opd.models.engine.persistent.build import NotBuilt, library
from opd.models.engine.persistent.steps import PersistentSteps
from opd.models.engine.requests import Request, State
from opd.models.engine.room import Room, Size
from opd.models.engine.shape import misfit
from opd.models.engine.step import Step, decode_step
from opd.models.exact.order import Order
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.noise import uniforms
from opd.records.errors import AskedWrongly
from opd.records.metrics import Drafted
from opd.records.rollouts import Prompt, Rollout, StopReason

WINDOW = {"cpu": 8, "cuda": 32}  # decode steps between two looks of the host
PAGE_TOKENS = 64  # on a GPU; on a CPU a page is a whole sequence, so that nothing is gathered
CHUNK_TOKENS = 2_048  # of a prefill at once
DraftsChoice = Literal["off", "history"]
WORTH = {  # a step with guesses, in steps of those that would do it without, on a GPU; docs/log.md
    "graphs beside graphs": 1.1,  # measured
    "graphs beside kernel": 1.45,  # measured
    "kernel beside kernel": 1.2,  # worked out
}


class EngineSampler:
    """A `Sampler` for the models that the engine can run.

    At most `largest_batch` sequences run at once. `page_tokens`: of a page of the cache; null: the device's own, on a
    CPU one page for all tokens of a sequence. `cache_tokens`: of all pages; null: all sequences have room at their
    limit, and none is ever preempted. `window`: decode steps between two looks of the host; null: the device's own.
    `persistent`: whether the persistent kernel does the windows of up to 8 sequences; null: where it can.
    `drafts`: where guesses come from that are checked while up to 4 sequences run. `prompt_tokens`: of the longest
    prompt, as far as it is known: with its response it has to fit the persistent kernel.
    An exact model's steps are those of its order, whatever `persistent` says; where they are the persistent kernel's,
    all are, and at most 8 sequences run at once. Raises `AskedWrongly` for a model that is a misfit, for one that the
    persistent kernel can't run but must, for an exact one whose distribution is to be cut, or with drafts, and for a
    number below 1 or drafts that there are none of.
    """

    def __init__(
        self,
        model: LanguageModel,
        sampling: Sampling,
        *,
        largest_batch: int = 256,
        page_tokens: int | None = None,
        cache_tokens: int | None = None,
        window: int | None = None,
        chunk_tokens: int = CHUNK_TOKENS,
        persistent: bool | None = None,
        drafts: DraftsChoice = "off",
        prompt_tokens: int = 1,
    ) -> None:
        _check_asked(
            drafts,
            largest_batch=largest_batch,
            page_tokens=page_tokens,
            cache_tokens=cache_tokens,
            window=window,
            chunk_tokens=chunk_tokens,
            prompt_tokens=prompt_tokens,
        )
        if reason := misfit(model.module):
            raise AskedWrongly(f"{model.path}: the engine can't run this model: {reason}")
        self._model = model
        self._sampling = sampling
        if model.exact is not None:
            if not sampling.full_support:
                raise AskedWrongly("exact sampling is from the whole distribution: leave top_p, top_k and min_p out")
            if drafts != "off":
                raise AskedWrongly(f'drafts = "{drafts}": exact steps take a token each; set drafts = "off"')
            persistent = model.exact.persistent
            largest_batch = min(largest_batch, fit.ROWS) if persistent else largest_batch
        self._largest_batch = largest_batch
        self._keeps = model.device.type == "cuda"  # a room with graphs is dear, and memory between calls is planned
        self._window = window or WINDOW[model.device.type]
        self._must = persistent is True
        if persistent is False:
            self._without: str | None = "it was not asked for"
        else:
            longest = prompt_tokens + sampling.limit_tokens
            self._without = _without_kernel(model, sequence_tokens=longest, window=self._window)
        if self._must and self._without:
            raise AskedWrongly(f"{model.path}: the persistent kernel can't run this model here: {self._without}")
        own = PAGE_TOKENS if self._without else fit.PAGE_TOKENS
        self._page_tokens = page_tokens or (own if self._keeps else None)
        if cache_tokens is not None and self._page_tokens is None:
            raise ValueError("a cache of so many tokens has pages of so many: give page_tokens too")
        self._cache_tokens = cache_tokens
        self._chunk_tokens = chunk_tokens
        self._drafts = drafts != "off"
        self._version = 0
        self.drafted: Drafted | None = None  # what guesses came to in the last call; None without
        self._kept: tuple[Room, Engine] | None = None

    @property
    def said(self) -> str:
        """Which path it takes, for the record: on a GPU with the reason where the persistent kernel is not it."""
        in_its_rows = " in its rows" if self._must and self._model.exact is None else ""
        guessing = f", drafts{in_its_rows} to {SEQUENCES} sequences" if self._drafts else ""
        if not self._keeps:
            return f"engine{guessing}"
        if self._model.exact is not None:
            return f"engine: {self._model.exact.steps}, exact"
        path = f"graphs ({self._without})" if self._without else "persistent kernel to 8 sequences"
        return f"engine: {path}{guessing}"

    def follow(self, version: int) -> None:
        """Rollouts from now on carry this policy version; the weights are the trainer's own, nothing is kept."""
        self._version = version

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        """One rollout of each prompt for each seed, prompt by prompt; see `Sampler`."""
        check_fits(self._model, prompts, limit_tokens=self._sampling.limit_tokens)
        requests = [self._request(prompt, seed) for prompt in prompts for seed in seeds]
        if not requests:
            return []
        engine = self._engine(requests)
        engine.begin()
        engine.submit(requests)
        try:
            while engine.schedule.busy:
                engine.window()
            self.drafted = engine.drafted
        finally:  # an engine that is kept starts the next call empty, whatever ended this one
            engine.schedule.clear()
        asked = [(prompt, sample) for prompt in prompts for sample in range(len(seeds))]
        return [self._rollout(*one, request) for one, request in zip(asked, requests, strict=True)]

    def _request(self, prompt: Prompt, seed: int) -> Request:
        limit = self._sampling.limit_tokens
        noise = uniforms(seed=seed, row=prompt.row, epoch=prompt.epoch, tokens=limit)
        return Request(name=f"row {prompt.row}", prompt_ids=prompt.token_ids, uniforms_T=noise.numpy())

    def _engine(self, requests: Sequence[Request]) -> Engine:
        """An engine with room for the requests; on a GPU that of the last call, where it has."""
        rows = min(self._largest_batch, len(requests))
        sequence_tokens = max(request.most_tokens for request in requests)
        size = self._size(rows, sequence_tokens)
        if not self._keeps:
            return self._new_engine(size)[1]
        if self._kept is not None:
            room, engine = self._kept
            if room.size.covers(size) and room.weights.follows(self._model):
                return engine
            largest = room.size
            size = self._size(max(rows, largest.rows), max(sequence_tokens, largest.sequence_tokens))
            del room, engine
            self._kept = None  # its memory is free before the next one asks for some
        self._kept = self._new_engine(size)
        return self._kept[1]

    def _size(self, rows: int, sequence_tokens: int) -> Size:
        page_tokens = self._page_tokens or sequence_tokens
        each = -(-sequence_tokens // page_tokens)
        pages = rows * each if self._cache_tokens is None else self._cache_tokens // page_tokens
        if pages < each:
            raise AskedWrongly(
                f"a cache of {pages * page_tokens} tokens does not hold one sequence of {sequence_tokens}; "
                "enlarge it or lower limit_tokens"
            )
        longest = each * page_tokens  # not of these requests alone: the next call's may be a little longer
        if not self._without and sequence_tokens <= (most := fit.most_tokens(window=self._window)):
            longest = min(longest, most)
        return Size(
            rows=rows,
            sequence_tokens=longest,
            page_tokens=page_tokens,
            pages=pages,
            window=self._window,
            in_order=self._page_tokens is None,
        )

    def _new_engine(self, size: Size) -> tuple[Room, Engine]:
        room = Room.of(self._model, self._sampling, size)
        ops, step = ways(room, self._model.exact)
        persistent = None
        if not self._without:
            try:
                persistent = PersistentSteps(room)
            except NotBuilt as error:
                if self._must:
                    raise AskedWrongly(f"the persistent kernel can't be used: {error}") from error
                self._without = str(error)
        return room, Engine(
            room,
            ops,
            step,
            chunk_tokens=self._chunk_tokens,
            stop_ids=self._model.stop_ids,
            persistent=persistent,
            drafted=self._drafted_steps(room, ops, persistent) if self._drafts else None,
        )

    def _drafted_steps(self, room: Room, ops: Operations, persistent: PersistentSteps | None) -> DraftedSteps:
        """In the persistent kernel's rows only where it was asked for by name: no GPU has run these yet."""
        in_its_rows = self._must and persistent is not None
        notes, way = drafted_way(room, ops, beside=None if in_its_rows else persistent)
        if persistent is None or not in_its_rows:
            return DraftedSteps(room, notes, [way])
        return DraftedSteps(room, notes, [drafted_way_of_kernel(room, ops, notes, persistent), way])

    def _rollout(self, prompt: Prompt, sample: int, request: Request) -> Rollout:
        return Rollout(
            prompt=prompt,
            sample=sample,
            token_ids=tuple(request.token_ids),
            logp=tuple(request.logp),
            raw_logp=None if self._sampling.full_support else tuple(request.raw_logp),
            stop=StopReason.EOS if request.state is State.STOPPED else StopReason.LENGTH,
            policy_version=self._version,
        )


def _check_asked(drafts: str, **sizes: int | None) -> None:
    """Nothing, when there are such drafts, and each size that is given is one; else `AskedWrongly`."""
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise AskedWrongly(f"{name} = {value}: it is at least 1")
    if drafts not in (there := get_args(DraftsChoice)):
        raise AskedWrongly(f"drafts = {drafts!r}; there are: {', '.join(there)}")


def _without_kernel(model: LanguageModel, *, sequence_tokens: int, window: int) -> str | None:
    """Why the persistent kernel can't run a model here, as far as is known before there is a room."""
    if reason := fit.misfit(model) or fit.length_misfit(sequence_tokens, window=window):
        return reason
    try:
        library(fit.cut_of(model))
    except NotBuilt as error:
        return str(error)
    return None


def ways(room: Room, exact: Order | None = None) -> tuple[Operations, Step | None]:
    """How the room's device does operations and steps. No step: the persistent kernel does all of them."""
    if exact is not None:
        found: tuple[Operations, Step | None] = exact.ways(room)
        return found
    if room.board.ids_B.is_cuda:
        return ways_on_cuda(room)
    if room.size.in_order and room.cos_LD.dtype == room.pools.keys[0].dtype:  # float32 or float64 throughout
        return TORCH, PreparedStep(room)

    def step(rows: int, longest: int) -> None:
        decode_step(room, TORCH, rows=rows, longest=longest)

    return TORCH, step


def drafted_way(room: Room, ops: Operations, *, beside: PersistentSteps | None = None) -> tuple[Notes, Way]:
    """How the room's device does steps with guesses, and the notes that they take.

    `beside`: who does those without; null: the same device's steps.
    """
    sequences, device = min(SEQUENCES, room.size.rows), room.board.ids_B.device
    notes = Notes.empty(sequences=sequences, tokens=room.size.sequence_tokens + ROWS, device=device)
    drafting = drafting_like(ops)

    def step(count: int, longest: int) -> None:
        drafted_step(room, notes, ops, drafting, sequences=count, longest=longest)

    if device.type != "cuda":
        return notes, Way(step=step)
    whole = partial(step, longest=room.size.sequence_tokens)
    worth = WORTH["graphs beside graphs" if beside is None else "graphs beside kernel"]
    alone = WORTH["graphs beside graphs"]
    return notes, Way(step=StepGraphs(rungs(sequences), whole), worth=worth, worth_alone=alone)


def drafted_way_of_kernel(room: Room, ops: Operations, notes: Notes, kernel: PersistentSteps) -> Way:
    """How the persistent kernel does them, with the same notes."""
    drafting = drafting_like(ops)

    def step(count: int, longest: int) -> None:
        drafted_step_of_kernel(room, notes, kernel, drafting, sequences=count, longest=longest)

    return Way(step=step, worth=WORTH["kernel beside kernel"], kernel=kernel)


def drafting_like(ops: Operations) -> Drafting:
    """What guesses, and keeps what is right, in the way of these operations."""
    if ops is TORCH:
        return TORCH_DRAFTING
    from opd.models.engine.kernels import table

    return table.DRAFTING
