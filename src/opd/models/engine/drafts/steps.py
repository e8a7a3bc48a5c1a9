"""Windows of few sequences, in steps that look several tokens ahead.

    window    history: the tokens of all that run ──► steps, as many as the tokens of a window will take ──► the board
    a step    guess, locate, the layers, choose, take: 8 rows, which up to 4 sequences share

A sequence whose columns are full, by luck with its guesses, waits for the others until the window ends. Where guesses
are not worth the rows, the windows are left to others, but for one now and then, to see whether that has changed.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from opd.models.engine.board import NONE
from opd.models.engine.drafts.operations import Drafting, Notes
from opd.models.engine.operations import Operations
from opd.models.engine.requests import Request
from opd.models.engine.room import Room
from opd.models.engine.step import Step, located, through_layers
from opd.models.engine.weights import Layer
from opd.records.metrics import Drafted

ROWS = 8  # of a step, as many as cost little more than one: measured; docs/log.md
SEQUENCES = ROWS // 2
FIRST_PACE = 2.0  # tokens a step of a sequence that are expected of a call's first window
PAUSE = 8  # windows that are left to others


class DraftedSteps:
    """Does a room's windows when at most 4 requests run."""

    def __init__(self, room: Room, notes: Notes, step: Step, *, worth: float = 1.0) -> None:
        """`step` is one of `notes`, `drafted_step` or a graph of it; `worth`: what it takes, in steps of others."""
        self._room = room
        self._notes = notes
        self._step = step
        self._worth = worth
        self.begin()

    def begin(self) -> None:
        """A call begins, which knows nothing of the last one: what its windows are done by depends on it alone."""
        self._notes.counts_B3.zero_()
        self._noted: list[tuple[Request, int]] = []  # whose history a row has, and how much of it for sure
        self._pace, self._seen = FIRST_PACE, self.drafted
        self._pause = 0

    def takes(self, running: Sequence[Request]) -> bool:
        """Whether guesses are likely to be worth their rows in the next window of these."""
        if len(running) > SEQUENCES:
            return False
        now = self.drafted
        if steps := now.steps - self._seen.steps:
            self._pace = (self._pace + 1 + (now.kept - self._seen.kept) / steps) / 2
            self._pause = PAUSE if self._pace < self._worth else 0
        self._seen = now
        self._pause -= 1
        return self._pause < 0

    @property
    def drafted(self) -> Drafted:
        """Of the call so far."""
        steps, guesses, kept = self._notes.counts_B3.sum(dim=0).tolist()
        return Drafted(steps=steps, guesses=guesses, kept=kept)

    @torch.inference_mode()
    def run(self, running: Sequence[Request], tokens: int) -> int:
        """Steps of the board's first rows, one a request, which have at most so many tokens more; how many steps."""
        self._write(running, tokens)
        steps = max(1, round(tokens / self._pace))
        longest = max(min(one.tokens + tokens, one.most_tokens) for one in running) - 1
        for _ in range(steps):
            self._step(len(running), longest)
        return steps

    def _write(self, running: Sequence[Request], tokens: int) -> None:
        board, notes = self._room.board.first(len(running)), self._notes.first(len(running))
        for row, one in enumerate(running):
            noted, start = self._noted[row] if row < len(self._noted) else (None, 0)
            ids = one.ids(start if noted is one else 0, one.tokens)
            notes.history_BT[row, one.tokens - len(ids) : one.tokens].copy_(torch.tensor(ids))
        self._noted = [(one, one.tokens) for one in running]
        notes.column_B.zero_()
        board.left_B.clamp_(max=tokens)
        board.token_BW.fill_(NONE)


def drafted_step(
    room: Room, notes: Notes, ops: Operations, drafting: Drafting, *, sequences: int, longest: int
) -> None:
    """The first sequences of the board have drawn from one token to as many as they have rows; as `decode_step`."""
    span = ROWS // sequences
    board, notes = room.board.first(sequences), notes.first(sequences)
    ahead = drafting.guess(board, notes, span=span, nobodys=room.pools.nobodys)
    places = located(room, ops, ahead.position_N.unsqueeze(1), ahead.table_NM, longest=longest)
    places = replace(places, span=span)
    epsilon, scale = room.shape.epsilon, room.shape.scale

    def mix(h_NH: torch.Tensor, layer: Layer, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return ops.mix(h_NH, layer.qkv, places, keys, values, ahead.table_NM, epsilon=epsilon, scale=scale)

    h_NH = through_layers(room, ops, ahead.ids_N, mix)
    choice = ops.choose(h_NH, room.weights.head_VH, ahead.uniform_N, room.sampling)
    drafting.take(board, notes, ahead, choice, room.stop_V)
