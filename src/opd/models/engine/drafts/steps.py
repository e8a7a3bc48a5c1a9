"""Windows of few sequences, in steps that look several tokens ahead.

    window    history: the tokens of all that run ──► steps, until one has its tokens or has ended ──► the board
    a step    guess, locate, the layers, choose, take: 8 rows, which up to 4 sequences share; between guess and take
              all can be one launch of the persistent kernel

Where guesses are not worth the rows, the windows are left to others. What they would have come to is known of every
window, whoever did it (hindsight.py), so nothing is tried out, and whoever begins to repeat itself is noticed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from opd.models.engine.board import NONE
from opd.models.engine.drafts.hindsight import Hindsight
from opd.models.engine.drafts.operations import Drafting, Notes
from opd.models.engine.operations import Operations
from opd.models.engine.persistent.steps import PersistentSteps
from opd.models.engine.requests import Request
from opd.models.engine.room import Room
from opd.models.engine.step import Step, located, through_layers
from opd.models.engine.weights import Layer
from opd.records.metrics import Drafted

ROWS = 8  # of a step, as many as cost little more than one: measured; docs/log.md
SEQUENCES = ROWS // 2
FIRST_PACE = 1.5  # tokens a step of a sequence that are expected of a call's first window
LOOK = 8  # steps after which the host looks at the latest who still runs: a step for nobody takes as long by graphs


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to do a step with guesses."""

    step: Step  # (sequences, longest), with the notes of `DraftedSteps`
    worth: float = 1.0  # what it takes, in steps of those that would have the window without guesses
    worth_alone: float = 1.0  # the same where the persistent kernel has no window any more
    kernel: PersistentSteps | None = None  # whose step it is, which reads pages as fragments; null: pages are rows


class DraftedSteps:
    """Does a room's windows when at most 4 requests run."""

    def __init__(self, room: Room, notes: Notes, ways: Sequence[Way]) -> None:
        """The first of the ways is gone; where the persistent kernel is refused, the next."""
        self._room = room
        self._notes = notes
        self._ways = list(ways)
        self.begin()

    @property
    def by_kernel(self) -> bool:
        """Whether its windows read pages as the persistent kernel has them."""
        return self._ways[0].kernel is not None

    def leave_kernel(self) -> None:
        """The persistent kernel is not asked again."""
        self._ways = [replace(way, worth=way.worth_alone) for way in self._ways if way.kernel is None]

    def begin(self) -> None:
        """A call begins, which knows nothing of the last one: what its windows are done by depends on it alone."""
        self._notes.counts_B3.zero_()
        self._noted: list[tuple[Request, int]] = []  # whose history a row has, and how much of it for sure
        self._pace = FIRST_PACE
        self._known: dict[Request, Hindsight] = {}

    def takes(self, running: Sequence[Request]) -> bool:
        """Whether guesses are likely to be worth their rows in the next window of these."""
        if len(running) > SEQUENCES:
            return False
        self._look_back(running)
        return self._pace >= self._ways[0].worth

    def _look_back(self, running: Sequence[Request]) -> None:
        """The pace is that of the last windows: of the steps a token, the newest window's count half."""
        tokens = steps = 0
        known = {}
        for one in running:
            if one in self._known:
                known[one] = self._known[one]
                new = one.ids(len(known[one]), one.tokens)
                tokens += len(new)
                steps += known[one].steps(new, span=ROWS // len(running))
            else:
                known[one] = Hindsight(one.ids(0, one.tokens))
        self._known = known
        if steps:
            self._pace = 2 / (1 / self._pace + steps / tokens)

    @property
    def drafted(self) -> Drafted:
        """Of the call so far."""
        steps, guesses, kept = self._notes.counts_B3.sum(dim=0).tolist()
        return Drafted(steps=steps, guesses=guesses, kept=kept)

    @torch.inference_mode()
    def run(self, running: Sequence[Request], tokens: int) -> int:
        """Steps of the board's first rows, one a request, until one has so many tokens more or ends; how many steps.

        Raises `LaunchFailed` when the persistent kernel is refused; the board then has part of the window.
        """
        self._write(running, tokens)
        way, board = self._ways[0], self._room.board.first(len(running))
        if way.kernel is not None:
            way.kernel.take_over(running)
        longest = max(min(one.tokens + tokens, one.most_tokens) for one in running) - 1
        done, left = 0, min(tokens, *(one.left_tokens for one in running))
        while left:
            steps = min(LOOK, max(1, round(left / self._pace)))
            for _ in range(steps):
                way.step(len(running), longest)
            done += steps
            left = int((board.left_B * board.active_B).min())
        return done

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


def drafted_step_of_kernel(
    room: Room, notes: Notes, kernel: PersistentSteps, drafting: Drafting, *, sequences: int, longest: int
) -> None:
    """The same by one launch of the persistent kernel, which has taken the sequences over."""
    span = ROWS // sequences
    board, notes = room.board.first(sequences), notes.first(sequences)
    ahead = drafting.guess(board, notes, span=span, nobodys=room.pools.nobodys)
    drafting.take(board, notes, ahead, kernel.choose(ahead, span=span, longest=longest), room.stop_V)
