"""What guesses add to a step's operations, in torch: the CPU's way, and the reference of kernels/guesses.py.

Shapes: B sequences of S rows each, N = B S; T positions, W columns of the board, M pages of a sequence at most.

    guess ──► ids_N, position_N, … ──► the layers, choose ──► take ──► the board, ready for the next step

As everywhere in a step, nothing waits for the device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch

from opd.models.engine.board import Board
from opd.models.engine.operations import Choice

LONGEST = 4  # tokens of a sequence's end that are looked for; with ten it guessed no better


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What guessing needs beside the board; its place stays."""

    history_BT: (
        torch.Tensor
    )  # int64: each sequence's ids by position, S more than it may have; behind the newest: any
    column_B: torch.Tensor  # int64: of the board, where each sequence's next token goes
    counts_B3: torch.Tensor  # int64, of all steps: those in which it ran, guesses checked, guesses drawn

    @classmethod
    def empty(cls, *, sequences: int, tokens: int, device: torch.device) -> Self:
        """Of so many sequences, with room for so many tokens each."""

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.int64, device=device)

        return cls(history_BT=zeros(sequences, tokens), column_B=zeros(sequences), counts_B3=zeros(sequences, 3))

    def first(self, sequences: int) -> Self:
        """Those of the first sequences, as views."""
        return type(self)(
            history_BT=self.history_BT[:sequences],
            column_B=self.column_B[:sequences],
            counts_B3=self.counts_B3[:sequences],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """The rows of a step: for each sequence its newest token, and then what may follow."""

    ids_N: torch.Tensor  # int64
    position_N: torch.Tensor  # int64
    uniform_N: torch.Tensor  # float64: of the token that the row draws
    table_NM: torch.Tensor  # int32
    lives_N: torch.Tensor  # bool; what another row computes is written into nobody's page, and never kept


def guess(board: Board, notes: Notes, *, span: int, nobodys: int) -> Ahead:
    """The next `span` rows of each of the board's sequences; fewer live where it ends before, or nothing is known."""
    window = board.uniform_BW.shape[1]
    row_S = torch.arange(span, device=board.ids_B.device)
    behind_BS, known_B = following(notes.history_BT, board.position_B, count=span - 1)
    ids_BS = torch.cat([board.ids_B.unsqueeze(1), behind_BS], dim=1)
    lives_BS = board.active_B.unsqueeze(1) & (row_S < board.left_B.unsqueeze(1))
    lives_BS &= known_B.unsqueeze(1) | (row_S == 0)
    column_BS = (notes.column_B.unsqueeze(1) + row_S).clamp_(max=window - 1)
    table_BSM = board.table_BM.unsqueeze(1).masked_fill(~lives_BS.unsqueeze(-1), nobodys)
    return Ahead(
        ids_N=ids_BS.masked_fill(~lives_BS, 0).flatten(),
        position_N=(board.position_B.unsqueeze(1) + row_S).masked_fill(~lives_BS, 0).flatten(),
        uniform_N=board.uniform_BW.gather(1, column_BS).flatten(),
        table_NM=table_BSM.flatten(0, 1),
        lives_N=lives_BS.flatten(),
    )


def following(history_BT: torch.Tensor, position_B: torch.Tensor, *, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids [B, count] that followed the end of each sequence when it last stood there before; and where it did.

    The longest end that did counts, up to LONGEST tokens, the last at `position_B`. Behind that the ids repeat.
    """
    place_T = torch.arange(history_BT.shape[1], device=history_BT.device)
    newest_B1 = position_B.unsqueeze(1)
    same_BT = place_T < newest_B1
    length_BT = torch.zeros_like(history_BT)
    for back in range(LONGEST):
        token_B1 = history_BT.gather(1, (newest_B1 - back).clamp_(min=0))
        same_BT = same_BT & (place_T >= back) & (history_BT.roll(back, dims=1) == token_B1)
        length_BT += same_BT
    best_B1 = (length_BT * len(place_T) + place_T).masked_fill_(length_BT == 0, -1).amax(dim=1, keepdim=True)
    place_B1 = best_B1.clamp(min=0) % len(place_T)
    period_B1 = (newest_B1 - place_B1).clamp_(min=1)
    ahead_C = torch.arange(count, device=history_BT.device)
    ids_BC = history_BT.gather(1, place_B1 + 1 + ahead_C % period_B1)
    return ids_BC, best_B1.squeeze(1) >= 0


def take(board: Board, notes: Notes, ahead: Ahead, choice: Choice, stop_V: torch.Tensor) -> None:
    """Board and notes have taken what was drawn, up to the first token that is not what the next row read.

    A sequence that has drawn an id of `stop_V`, its last allowed token or BROKEN is active no more.
    """
    sequences = len(board.ids_B)
    token_BS, ids_BS, lives_BS = (one_N.view(sequences, -1) for one_N in (choice.token_N, ahead.ids_N, ahead.lives_N))
    ends_BS = (token_BS < 0) | stop_V[token_BS.clamp(min=0)]
    kept_BS = lives_BS.clone()
    kept_BS[:, 1:] &= (ids_BS[:, 1:] == token_BS[:, :-1]) & ~ends_BS[:, :-1]
    count_B1 = kept_BS.long().cumprod(dim=1).sum(dim=1, keepdim=True)
    for column_BW, value_N in (
        (board.token_BW, choice.token_N),
        (board.logp_BW, choice.logp_N),
        (board.raw_logp_BW, choice.raw_logp_N),
    ):
        row_BW = torch.arange(column_BW.shape[1], device=count_B1.device) - notes.column_B.unsqueeze(1)
        value_BW = value_N.view(sequences, -1).gather(1, row_BW.clamp(0, token_BS.shape[1] - 1))
        column_BW.copy_(torch.where((row_BW >= 0) & (row_BW < count_B1), value_BW, column_BW))
    place_BS = board.position_B.unsqueeze(1) + 1 + torch.arange(token_BS.shape[1], device=count_B1.device)
    notes.history_BT.scatter_(1, place_BS, token_BS)
    last_B1 = (count_B1 - 1).clamp_(min=0)
    count_B = count_B1.squeeze(1)
    runs_B = count_B > 0
    board.ids_B.copy_(torch.where(runs_B, token_BS.gather(1, last_B1).squeeze(1), board.ids_B))
    board.position_B.add_(count_B)
    board.left_B.sub_(count_B)
    notes.column_B.add_(count_B)
    checked_B = lives_BS.sum(dim=1) - runs_B.long()
    notes.counts_B3.add_(torch.stack([runs_B.long(), checked_B, count_B - runs_B.long()], dim=1))
    torch.logical_and(runs_B & ~ends_BS.gather(1, last_B1).squeeze(1), board.left_B > 0, out=board.active_B)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """One way to do these operations; the signatures and the meaning are those of this file."""

    guess: Callable[..., Ahead]
    take: Callable[..., None]


TORCH_DRAFTING = Drafting(guess=guess, take=take)
