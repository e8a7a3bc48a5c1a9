"""The engine: requests in, tokens out, a window of decode steps at a time.

    submit ──► wait ──► turn: pages, rows ──► copies and prefill ──► the board is written
                  ▲                                                        │
                  └──── ended and preempted ◄── the board is read ◄── W decode steps

Between two looks at the board the host does nothing but start steps, so a device is never waited for inside a
window. Its state is that of the requests; pages and board can be dropped at any time and are made anew from them.
"""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from opd.models.engine.board import BROKEN, NONE
from opd.models.engine.drafts.steps import DraftedSteps
from opd.models.engine.operations import Operations
from opd.models.engine.persistent.program import LaunchFailed
from opd.models.engine.persistent.steps import PersistentSteps
from opd.models.engine.prefill import Span, prefill
from opd.models.engine.requests import Request, State
from opd.models.engine.room import Room
from opd.models.engine.schedule import Entry, Schedule
from opd.models.engine.step import Step
from opd.records.metrics import Drafted


class Engine:
    """Draws tokens for many requests at once, in one room."""

    def __init__(
        self,
        room: Room,
        ops: Operations,
        step: Step | None,
        *,
        chunk_tokens: int,
        stop_ids: frozenset[int],
        persistent: PersistentSteps | None = None,
        drafted: DraftedSteps | None = None,
    ) -> None:
        """`drafted` has the windows that it takes, then `persistent`, and `step` the rest; null: there is no rest."""
        self._room = room
        self._ops = ops
        self._step = step
        self._persistent = persistent
        self._drafted = drafted
        self._chunk_tokens = chunk_tokens
        self._stop_ids = stop_ids
        self._window = room.size.window
        self._schedule = Schedule(room.size)
        self._nobody_behind = 0  # rows of the board from here on have no sequence
        self.steps = 0  # decode steps so far

    @property
    def schedule(self) -> Schedule:
        """What waits and what runs."""
        return self._schedule

    @property
    def drafted(self) -> Drafted | None:
        """What guesses came to in this call; None without."""
        return None if self._drafted is None else self._drafted.drafted

    def submit(self, requests: Iterable[Request]) -> None:
        """They wait, in this order."""
        self._schedule.add(requests)

    def cancel(self, requests: Iterable[Request]) -> None:
        """They draw nothing more; those that have ended stay as they are."""
        for request in requests:
            self._schedule.cancel(request)

    def begin(self) -> None:
        """A call begins; the weights may be others than in the last one."""
        if self._persistent is not None:
            self._persistent.begin()
        if self._drafted is not None:
            self._drafted.begin()

    def forget(self) -> None:
        """Nothing that was computed is kept: the weights have changed. What ran starts again from its tokens."""
        self._schedule.preempt_all()

    def window(self) -> None:
        """Every running request has up to a window's tokens more; those that wait have entered while there was room.

        Raises `FloatingPointError` when a distribution was not finite, from which nothing can be drawn.
        """
        moves, entries = self._schedule.turn()
        self._room.pools.copy(moves)
        if entries:
            self._pages_as_rows()
            self._cache(entries)
        running = self._schedule.running
        if not running:
            return
        self._write(running)
        tokens = min(self._window, max(request.left_tokens for request in running))
        if not self._run_drafted(running, tokens):
            self._run_one_by_one(running, tokens)
            self.steps += tokens
        self._read(running, tokens)

    def _run_drafted(self, running: Sequence[Request], tokens: int) -> bool:
        """Whether the window was done with guesses; a refused launch leaves it as if nothing had been drawn."""
        if self._drafted is None or not self._drafted.takes(running):
            return False
        if not self._drafted.by_kernel:
            self._pages_as_rows()
        try:
            self.steps += self._drafted.run(running, tokens)
        except LaunchFailed as error:
            self._leave_kernel(error)
            self._write(running)
            return False
        return True

    def _run_one_by_one(self, running: Sequence[Request], times: int) -> None:
        """So many steps, in each of which a request draws a token."""
        done = self._run_persistent(running, times)
        if done < times:
            assert self._step is not None, "without a step, the persistent kernel takes every window"
            self._pages_as_rows()
            longest = max(request.tokens for request in running)
            most = max(request.most_tokens for request in running) - 1  # what is drawn last is never stored
            for tick in range(done, times):
                self._step(len(running), min(longest + tick, most))

    def _run_persistent(self, running: Sequence[Request], times: int) -> int:
        """Steps of the window that the persistent kernel did; where it can't be started it is not asked again."""
        if self._persistent is None or not self._persistent.takes(running):
            return 0
        try:
            self._persistent.run(running, times)
        except LaunchFailed as error:
            self._leave_kernel(error)
            return error.steps
        return times

    def _leave_kernel(self, error: LaunchFailed) -> None:
        """Graphs go on without the persistent kernel; the error is raised where there are none."""
        if self._step is None:
            raise error
        warnings.warn(f"the persistent kernel can't be started ({error}); graphs go on", stacklevel=2)
        self._pages_as_rows()
        self._persistent = None
        if self._drafted is not None:
            self._drafted.leave_kernel()

    def _pages_as_rows(self) -> None:
        if self._persistent is not None:
            self._persistent.put_back(self._schedule.running)

    def _cache(self, entries: Sequence[Entry]) -> None:
        """Who entered has keys and values of all tokens but the newest; siblings' copies wait for the siblings."""
        spans = [(entry, _span(entry)) for entry in entries]
        self._prefill([span for entry, span in spans if not entry.cached_tokens])
        self._room.pools.copy([entry.copied for entry in entries if entry.copied is not None])
        self._prefill([span for entry, span in spans if entry.cached_tokens])

    def _prefill(self, spans: Sequence[Span]) -> None:
        prefill(self._room, self._ops, [span for span in spans if span.ids], chunk_tokens=self._chunk_tokens)

    def _write(self, running: Sequence[Request]) -> None:
        """The board says what the host knows: one row a running request, none behind."""
        board, nobodys = self._room.board, self._room.pools.nobodys
        rows, width = len(running), board.table_BM.shape[1]
        behind = slice(rows, max(rows, self._nobody_behind))
        board.active_B[behind] = False
        board.position_B[behind] = 0
        board.table_BM[behind] = nobodys
        self._nobody_behind = rows
        table = np.full((rows, width), nobodys, dtype=np.int32)
        noise = np.zeros((rows, self._window))
        for row, request in enumerate(running):
            table[row, : len(request.pages)] = request.pages
            drawn = len(request.token_ids)
            ahead = request.uniforms_T[drawn : drawn + self._window]
            noise[row, : len(ahead)] = ahead
        numbers = np.array([(one.newest_id, one.tokens - 1, one.left_tokens) for one in running])
        some = board.first(rows)
        for target, values in zip((some.ids_B, some.position_B, some.left_B), numbers.T, strict=True):
            target.copy_(torch.from_numpy(np.ascontiguousarray(values)))
        some.table_BM.copy_(torch.from_numpy(table))
        some.uniform_BW.copy_(torch.from_numpy(noise))
        some.active_B.fill_(True)
        board.tick.zero_()

    def _read(self, running: Sequence[Request], most: int) -> None:
        some = self._room.board.first(len(running))
        columns = (some.token_BW, some.logp_BW, some.raw_logp_BW)
        drawn = [column_BW[:, :most].tolist() for column_BW in columns]
        for request, tokens, logp, raw_logp in zip(running, *drawn, strict=True):
            self._take(request, tokens, logp, raw_logp)

    def _take(self, request: Request, tokens: list[int], logp: list[float], raw_logp: list[float]) -> None:
        if BROKEN in tokens:
            raise FloatingPointError(
                f"{request.name}: the probabilities of token {len(request.token_ids) + tokens.index(BROKEN)} are not "
                "finite: weights or activations overflow; look at the learning rate and the dtype"
            )
        count = tokens.index(NONE) if NONE in tokens else len(tokens)
        request.token_ids += tokens[:count]
        request.logp += logp[:count]
        request.raw_logp += raw_logp[:count]
        if request.token_ids[-1] in self._stop_ids:
            request.state = State.STOPPED
        elif not request.left_tokens:
            request.state = State.LIMITED


def _span(entry: Entry) -> Span:
    request, start = entry.request, entry.cached_tokens
    return Span(ids=request.ids(start, request.tokens - 1), start=start, pages=request.pages)
